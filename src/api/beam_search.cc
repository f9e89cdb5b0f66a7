#include "api/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "api/request_text.h"

namespace quire {

BeamSearch::BeamSearch(Host host, TextRequest request, TextCallback callback)
    : host_(std::move(host)),
      request_(std::move(request)),
      callback_(std::move(callback)),
      width_(static_cast<size_t>(request_.sampling.n)),
      live_(1) {}

Status BeamSearch::start() { return submit_round(); }

TextRequest BeamSearch::request_for(const Beam& beam, size_t index) const {
  TextRequest request;
  request.id = fmt::format("{}-beam-{}-{}", request_.id, round_, index);
  request.prompt = request_.prompt;
  for (const SampledToken& token : beam.output) request.prompt.push_back(token.token);
  request.sampling.temperature = 0;
  request.sampling.seed = 0;  // none is drawn, so that other requests' seeds are what they would be without this one
  request.sampling.max_tokens = 1;
  request.sampling.logprobs = static_cast<int64_t>(2 * width_);
  request.sampling.ignore_eos = true;
  request.priority = request_.priority;
  request.cache_salt = request_.cache_salt;
  request.adapter = request_.adapter;
  return request;
}

/// Asks for the next token of every live beam.
Status BeamSearch::submit_round() {
  answers_.assign(live_.size(), {});
  missing_ = live_.size();
  const int64_t round = round_;
  const size_t beams = live_.size();  // once the last of them is submitted, the next round may begin on its thread
  for (size_t i = 0; i < beams; ++i) {
    TextRequest request = request_for(live_[i], i);
    {
      const std::lock_guard lock(mutex_);
      if (aborted_) return Error{ErrorKind::kCancelled, "The request was aborted.", {}};
      running_.push_back(request.id);
    }
    QUIRE_RETURN_IF_ERROR(host_.submit(std::move(request), [self = shared_from_this(), i, round](TextOutput&& output) {
      if (round == self->round_) self->on_output(i, std::move(output));
    }));
  }
  // An abort that came before the last of them was known did not reach it.
  if (was_aborted()) abort();
  return {};
}

void BeamSearch::on_output(size_t beam, TextOutput&& output) {
  if (done_) return;
  if (output.finish_reason == FinishReason::kError || output.finish_reason == FinishReason::kAbort)
    return fail(output.finish_reason, output.error);
  if (output.tokens.empty()) return;
  if (round_ == 0) usage_ = output.usage;
  usage_.last_token_time = output.usage.last_token_time;
  usage_.preemptions += round_ == 0 ? 0 : output.usage.preemptions;
  answers_[beam] = std::move(output.tokens.front());
  if (--missing_ == 0) end_round();
}

BeamSearch::Beam BeamSearch::extended(const Candidate& candidate) const {
  const std::vector<TokenLogprob>& entries = answers_[candidate.beam].logprobs;
  Beam beam = live_[candidate.beam];
  SampledToken token{entries[candidate.entry].token, {}};
  if (const std::optional<int64_t>& shown = request_.sampling.logprobs) {
    token.logprobs = {entries[candidate.entry]};
    const auto count = std::min(static_cast<size_t>(*shown < 0 ? entries.size() : *shown), entries.size() - 1);
    token.logprobs.insert(token.logprobs.end(), entries.begin() + 1,
                          entries.begin() + 1 + static_cast<std::ptrdiff_t>(count));
  }
  beam.output.push_back(std::move(token));
  beam.logprob = candidate.logprob;
  beam.score = candidate.score;
  beam.finish_reason = candidate.ends ? FinishReason::kStop : FinishReason::kNone;
  return beam;
}

/// The best of what the round's answers make of the live beams, those that end or those that go on.
std::vector<BeamSearch::Beam> BeamSearch::best_extensions(bool ending) const {
  std::vector<Candidate> candidates;
  for (size_t beam = 0; beam < live_.size(); ++beam) {
    const std::vector<TokenLogprob>& entries = answers_[beam].logprobs;
    for (size_t entry = 1; entry < entries.size(); ++entry) {  // the first is the chosen token, which comes again
      const bool ends =
          !request_.sampling.ignore_eos && std::ranges::count(host_.eos_token_ids, entries[entry].token) > 0;
      if (ends != ending) continue;
      const double logprob = live_[beam].logprob + static_cast<double>(entries[entry].logprob);
      const size_t tokens = request_.prompt.size() + live_[beam].output.size() + (ends ? 0 : 1);
      candidates.push_back({beam, entry, logprob, score(logprob, tokens), ends});
    }
  }
  std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::score);
  candidates.resize(std::min(candidates.size(), width_));
  std::vector<Beam> beams;
  for (const Candidate& candidate : candidates) beams.push_back(extended(candidate));
  return beams;
}

/// Keeps the best completed beams; of equal ones the earlier.
void BeamSearch::complete(std::vector<Beam>&& beams) {
  std::ranges::move(beams, std::back_inserter(completed_));
  std::ranges::stable_sort(completed_, std::greater<>(), &Beam::score);
  completed_.resize(std::min(completed_.size(), width_));
}

void BeamSearch::end_round() {
  std::vector<Beam> ended = best_extensions(true);
  live_ = best_extensions(false);
  complete(std::move(ended));
  ++round_;
  {
    const std::lock_guard lock(mutex_);
    running_.clear();
  }
  if (round_ == *request_.sampling.max_tokens || settled()) return finish();
  if (const Status status = submit_round(); !status.ok()) {
    const bool cancelled = status.error().kind == ErrorKind::kCancelled;
    fail(cancelled ? FinishReason::kAbort : FinishReason::kError,
         cancelled ? std::nullopt : std::optional<Error>(status.error()));
  }
}

double BeamSearch::score(double logprob, size_t tokens) const {
  return logprob / std::pow(static_cast<double>(tokens), request_.sampling.length_penalty);
}

/// Whether no live beam can still come among the best. Its log-probability only falls; what length does to its score is
/// most at one of the ends.
bool BeamSearch::settled() const {
  if (live_.empty()) return true;
  if (completed_.size() < width_) return false;
  const double worst = completed_.back().score;
  const size_t longest = request_.prompt.size() + static_cast<size_t>(*request_.sampling.max_tokens);
  return std::ranges::all_of(
      live_, [&](const Beam& beam) { return std::max(beam.score, score(beam.logprob, longest)) <= worst; });
}

void BeamSearch::finish() {
  for (Beam& beam : live_) beam.finish_reason = FinishReason::kLength;
  complete(std::move(live_));
  done_ = true;
  host_.ended();
  for (size_t choice = 0; choice < completed_.size(); ++choice)
    callback_(text_of(std::move(completed_[choice]), static_cast<int32_t>(choice)));
  callback_ = nullptr;
}

TextOutput BeamSearch::text_of(Beam&& beam, int32_t choice) const {
  RequestOutput output;
  output.tokens = std::move(beam.output);
  output.finish_reason = beam.finish_reason;
  output.usage = usage_;
  TextOutput text = RequestText(*host_.tokenizer, request_.prompt, request_.sampling).process(std::move(output));
  text.choice = choice;
  return text;
}

void BeamSearch::fail(FinishReason reason, const std::optional<Error>& error) {
  done_ = true;
  abort();
  host_.ended();
  for (size_t choice = 0; choice < width_; ++choice) {
    TextOutput output;
    output.choice = static_cast<int32_t>(choice);
    output.finish_reason = reason;
    output.error = error;
    output.usage = usage_;
    output.usage.completion_tokens = 0;
    callback_(std::move(output));
  }
  callback_ = nullptr;
}

bool BeamSearch::was_aborted() {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

void BeamSearch::abort() {
  std::vector<std::string> ids;
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    ids = running_;
  }
  for (const std::string& id : ids) host_.abort(id);
}

}  // namespace quire
