// Collecting and streaming. The mutex is held while an answer is built or written, never while the engine is asked to
// abort.
#include "server/generation.h"

#include <spdlog/spdlog.h>

#include "server/protocol/json_input.h"
#include "server/response/error_response.h"

namespace quire {

namespace {

constexpr size_t kMostInlineValues = 1000;

Error error_of(const TextOutput& output) {
  if (output.error) return *output.error;
  if (output.finish_reason == FinishReason::kAbort) {
    return {ErrorKind::kUnavailable, "The request was aborted before it was complete.", {}};
  }
  return internal_error("The engine failed on this request.");
}

}  // namespace

Generation::Generation(ServingBackend& backend, TaskPool& pool, std::unique_ptr<ResponseFormat> format,
                       std::shared_ptr<ResponseWriter> writer, bool stream, HttpHeaders headers, Observer observer)
    : backend_(backend),
      pool_(pool),
      format_(std::move(format)),
      writer_(std::move(writer)),
      stream_(stream),
      headers_(std::move(headers)),
      observer_(std::move(observer)) {}

void Generation::start(ServingBackend& backend, TaskPool& pool, std::vector<TextRequest> requests,
                       std::unique_ptr<ResponseFormat> format, std::shared_ptr<ResponseWriter> writer, bool stream,
                       HttpHeaders headers, Observer observer) {
  const std::shared_ptr<Generation> self(new Generation(backend, pool, std::move(format), std::move(writer), stream,
                                                        std::move(headers), std::move(observer)));
  self->submit_all(std::move(requests));
}

void Generation::submit_all(std::vector<TextRequest> requests) {
  choices_.resize(format_->info().choices());
  unfinished_ = choices_.size();
  for (size_t i = 0; i < requests.size(); ++i) {
    std::string id = requests[i].id;
    // Nothing may be thrown into the engine's threads.
    const TextCallback callback = [self = shared_from_this(), i](TextOutput&& output) {
      try {
        const size_t choice = i * static_cast<size_t>(self->format_->info().n) + static_cast<size_t>(output.choice);
        self->on_output(choice, std::move(output));
      } catch (const std::exception& fault) {
        self->on_fault(fault);
      }
    };
    const Status status = backend_.submit(std::move(requests[i]), callback);
    const std::lock_guard lock(mutex_);
    if (!status.ok()) {
      fail(status.error());
      break;
    }
    ids_.push_back(std::move(id));
  }
  open();
  writer_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->abort_all();
  });
}

/// Begins the answer and catches up with the outputs that came meanwhile.
void Generation::open() {
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
    if (!done_ && stream_) {
      headers_.emplace_back("Cache-Control", "no-cache");
      writer_->start_stream(200, "text/event-stream; charset=utf-8", std::move(headers_));
      for (size_t i = 0; i < choices_.size(); ++i) {
        for (const nlohmann::ordered_json& chunk : format_->opening(i)) write_event(chunk);
      }
    }
    for (auto& [choice, output] : early_) {
      if (done_) break;
      stream_ ? stream_output(choice, output) : take_whole(choice, std::move(output));
    }
    early_.clear();
    if (!abort_wanted_) return;
  }
  abort_all();
}

void Generation::on_output(size_t choice, TextOutput&& output) {
  if (observer_) observer_(choice, output);
  {
    const std::lock_guard lock(mutex_);
    if (done_) return;
    if (!open_) {
      early_.emplace_back(choice, std::move(output));
      return;
    }
    stream_ ? stream_output(choice, output) : take_whole(choice, std::move(output));
    if (!abort_wanted_) return;
  }
  abort_all();
}

void Generation::on_fault(const std::exception& fault) {
  spdlog::error("Answering {} failed: {}", format_->info().id, fault.what());
  {
    const std::lock_guard lock(mutex_);
    if (!done_) fail(internal_error("Internal server error."));
  }
  abort_all();
}

void Generation::stream_output(size_t choice, const TextOutput& output) {
  choices_[choice].usage = output.usage;
  if (output.finish_reason == FinishReason::kError) return fail(error_of(output));
  const auto chunk = format_->chunk(choice, output);
  if (chunk && !write_event(*chunk)) {
    done_ = abort_wanted_ = true;
    return;
  }
  if (output.finished() && --unfinished_ == 0) end_stream();
}

void Generation::take_whole(size_t choice, TextOutput&& output) {
  const bool failed = output.finish_reason == FinishReason::kError || output.finish_reason == FinishReason::kAbort;
  if (failed) return fail(error_of(output));
  merge_output(choices_[choice], std::move(output));
  if (!choices_[choice].finished() || --unfinished_ > 0) return;
  done_ = true;  // from here on nothing else touches the choices
  const bool taken = is_large() && pool_.submit([self = shared_from_this()] { self->send_whole(); });
  if (!taken) send_whole();
}

/// Logprobs by the thousand take milliseconds to write down.
bool Generation::is_large() const {
  size_t values = 0;
  for (const TextOutput& choice : choices_) {
    for (const auto* tokens : {&choice.tokens, &choice.prompt_logprobs}) {
      for (const SampledToken& token : *tokens) values += token.logprobs.size();
    }
  }
  return values > kMostInlineValues;
}

void Generation::send_whole() {
  try {
    HttpResponse response;
    response.body = to_wire(format_->whole(choices_));
    response.headers = std::move(headers_);
    writer_->send(std::move(response));
  } catch (const std::exception& fault) {
    spdlog::error("Answering {} failed: {}", format_->info().id, fault.what());
    writer_->send(error_response(internal_error("Internal server error.")));
  }
}

void Generation::fail(const Error& error) {
  abort_wanted_ = true;
  if (stream_ && open_) {
    write_event(error_body(error));
    writer_->write("data: [DONE]\n\n");
    writer_->finish();
  } else {
    writer_->send(error_response(error));
  }
  done_ = true;
}

void Generation::end_stream() {
  if (format_->info().include_usage) {
    std::vector<RequestUsage> usages;
    for (const TextOutput& choice : choices_) usages.push_back(choice.usage);
    write_event(format_->usage_chunk(usages));
  }
  writer_->write("data: [DONE]\n\n");
  writer_->finish();
  done_ = true;
}

bool Generation::write_event(const nlohmann::ordered_json& event) {
  return writer_->write("data: " + to_wire(event) + "\n\n");
}

void Generation::abort_all() {
  std::vector<std::string> ids;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    abort_wanted_ = false;
    ids.swap(ids_);
  }
  for (const std::string& id : ids) backend_.abort(id);
}

}  // namespace quire
