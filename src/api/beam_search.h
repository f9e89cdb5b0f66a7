// Beam search: the most likely continuations as whole, found by many requests of one token each.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/text_output.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace quire {

/// One search. Keeps sampling.n beams; each round asks for the 2 n most likely next tokens of every beam, completes
/// those that end, and goes on with the n best of the rest. A beam's score is the sum of its tokens' log-probabilities
/// divided by (tokens of prompt and beam, EOS aside) ^ length_penalty, as in vLLM. It ends once no beam can come among
/// the n best any more, at the latest after max_tokens.
class BeamSearch : public std::enable_shared_from_this<BeamSearch> {
 public:
  /// What the search stands on. `submit` takes one-token requests whose logprobs are the model's; its callback is
  /// called on the output thread.
  struct Host {
    std::function<Status(TextRequest, TextCallback)> submit;
    std::function<void(const std::string& id)> abort;
    std::function<void()> ended;  ///< called before the last outputs
    const Tokenizer* tokenizer = nullptr;
    std::vector<int32_t> eos_token_ids;
  };

  /// `request` is judged, and its max_tokens settled. The callback gets one output for each choice, the best first.
  BeamSearch(Host host, TextRequest request, TextCallback callback);

  /// An Error where the first request was not taken; the callback is then never called.
  Status start();
  /// Ends all choices with kAbort, if they have not ended.
  void abort();

 private:
  struct Beam {
    std::vector<SampledToken> output;
    double logprob = 0, score = 0;
    FinishReason finish_reason = FinishReason::kNone;
  };
  /// A live beam and one of its most likely next tokens.
  struct Candidate {
    size_t beam = 0, entry = 0;
    double logprob = 0, score = 0;
    bool ends = false;
  };

  bool was_aborted();
  Status submit_round();
  TextRequest request_for(const Beam& beam, size_t index) const;
  void on_output(size_t beam, TextOutput&& output);
  void end_round();
  std::vector<Beam> best_extensions(bool ending) const;
  Beam extended(const Candidate& candidate) const;
  void complete(std::vector<Beam>&& beams);
  bool settled() const;
  double score(double logprob, size_t tokens) const;
  void finish();
  void fail(FinishReason reason, const std::optional<Error>& error);
  TextOutput text_of(Beam&& beam, int32_t choice) const;

  const Host host_;
  const TextRequest request_;
  TextCallback callback_;
  const size_t width_;
  std::vector<Beam> live_;
  std::vector<Beam> completed_;        ///< the best, the best first
  std::vector<SampledToken> answers_;  ///< of this round, one for each live beam
  size_t missing_ = 0;                 ///< answers
  int64_t round_ = 0;
  RequestUsage usage_;
  bool done_ = false;  ///< used by the output thread, and before the first submit

  std::mutex mutex_;
  std::vector<std::string> running_;  ///< ids of this round
  bool aborted_ = false;
};

}  // namespace quire
