#include "cli/bench/serve_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/openai_stream.h"
#include "cli/sse_parser.h"

namespace quire::cli {
namespace {

using std::chrono::steady_clock;

/// One request under way.
class Stream {
 public:
  Stream(RequestRecord& record, steady_clock::time_point origin) : record_(record), origin_(origin) {}

  void take(std::string_view bytes) {
    if (!record_.error.empty()) return;
    const Status status = parser_.feed(bytes);
    if (!status.ok()) record_.error = status.error().message;
  }

  void end(const HttpAnswer& answer, int64_t prompt_tokens) {
    if (record_.error.empty() && !answer.ok()) record_.error = describe_failure(answer);
    if (record_.error.empty() && events_ == 0) record_.error = "the server streamed no token";
    if (record_.error.empty() && !ended_) record_.error = "the stream broke off before its end";
    record_.ok = record_.error.empty();
    record_.prompt_tokens = reported_prompt_.value_or(prompt_tokens);
    record_.output_tokens = reported_output_.value_or(events_);
  }

 private:
  void take_event(std::string_view data) {
    if (data == "[DONE]") {
      ended_ = true;
      return;
    }
    const auto delta = parse_stream_delta(data);
    if (!delta.ok() || !delta->error.empty()) {
      record_.error = delta.ok() ? delta->error : delta.error().message;
      return;
    }
    if (delta->prompt_tokens) reported_prompt_ = delta->prompt_tokens;
    if (delta->completion_tokens) reported_output_ = delta->completion_tokens;
    ended_ = ended_ || !delta->finish_reason.empty();
    if (!delta->has_tokens) return;
    const double now = std::chrono::duration<double>(steady_clock::now() - origin_).count();
    if (events_++ == 0) {
      record_.first_token = now;
    } else {
      record_.inter_token.push_back(now - record_.finished);
    }
    record_.finished = now;
  }

  RequestRecord& record_;
  steady_clock::time_point origin_;
  SseParser parser_{[this](std::string_view data) { take_event(data); }};
  std::optional<int64_t> reported_prompt_, reported_output_;
  int64_t events_ = 0;
  bool ended_ = false;
};

/// Lets prompts arrive at their times and sends them while the limit of concurrency allows.
class Load {
 public:
  Load(HttpClient& client, const LoadOptions& options, const std::vector<RandomPrompt>& prompts,
       const LoadProgress& progress)
      : client_(client), options_(options), prompts_(prompts), progress_(progress) {
    result_.records.resize(prompts.size());
  }

  LoadResult run() {
    bodies_.reserve(prompts_.size());
    for (size_t i = 0; i < prompts_.size(); ++i) {
      bodies_.push_back(request_body(options_, prompts_[i], options_.models[i % options_.models.size()]));
    }
    origin_ = steady_clock::now();
    schedule_arrivals();
    client_.run();
    for (const RequestRecord& record : result_.records) result_.seconds = std::max(result_.seconds, record.finished);
    return std::move(result_);
  }

 private:
  double now() const { return std::chrono::duration<double>(steady_clock::now() - origin_).count(); }

  void schedule_arrivals() {
    if (std::isinf(options_.request_rate)) {
      arrived_ = prompts_.size();
      send_ready();
      return;
    }
    RandomSource random(options_.seed ^ 0xA11CE5u);
    double time = 0;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      client_.after(time, [this] {
        ++arrived_;
        send_ready();
      });
      time += random.gamma(options_.burstiness) / options_.request_rate;
    }
  }

  void send_ready() {
    while (next_ < arrived_ && (options_.max_concurrency == 0 || active_ < options_.max_concurrency)) send(next_++);
  }

  void send(size_t index) {
    ++active_;
    RequestRecord& record = result_.records[index];
    record.sent = now();
    const auto stream = std::make_shared<Stream>(record, origin_);
    client_.start({.method = "POST",
                   .path = options_.path,
                   .headers = authorization(options_.api_key),
                   .body = std::move(bodies_[index])},
                  {.on_data = [stream](std::string_view bytes) { stream->take(bytes); },
                   .on_done = [this, stream, index](HttpAnswer&& answer) { finish(index, *stream, answer); }});
  }

  void finish(size_t index, Stream& stream, const HttpAnswer& answer) {
    RequestRecord& record = result_.records[index];
    stream.end(answer, static_cast<int64_t>(prompts_[index].ids.size()));
    if (!record.ok) record.finished = now();
    failed_ += record.ok ? 0 : 1;
    --active_;
    ++ended_;
    if (progress_) progress_(ended_, failed_);
    send_ready();
  }

  HttpClient& client_;
  const LoadOptions& options_;
  const std::vector<RandomPrompt>& prompts_;
  const LoadProgress& progress_;
  LoadResult result_;
  std::vector<std::string> bodies_;
  steady_clock::time_point origin_;
  size_t arrived_ = 0, next_ = 0;
  int64_t active_ = 0, ended_ = 0, failed_ = 0;
};

}  // namespace

std::string request_body(const LoadOptions& options, const RandomPrompt& prompt, const std::string& model) {
  nlohmann::json body = {{"model", model},
                         {"max_tokens", prompt.output_len},
                         {"temperature", options.temperature},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}}};
  if (options.chat) {
    body["messages"] = nlohmann::json::array({{{"role", "user"}, {"content", words_for(prompt)}}});
  } else {
    body["prompt"] = prompt.ids;
  }
  if (options.ignore_eos) body["ignore_eos"] = true;
  return body.dump();
}

LoadResult run_load(HttpClient& client, const LoadOptions& options, const std::vector<RandomPrompt>& prompts,
                    const LoadProgress& progress) {
  if (prompts.empty()) return {};
  return Load(client, options, prompts, progress).run();
}

}  // namespace quire::cli
