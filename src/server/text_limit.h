// How long a text may be before it is not worth tokenizing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/result.h"
#include "server/protocol/conversation.h"
#include "text/tokenizer.h"

namespace quire {

/// Tokenizing megabytes takes seconds of a thread that other requests need too. A text of more bytes than a context
/// full of the vocabulary's longest token is refused without that work. Thread-safe.
class TextLimit {
 public:
  /// `tokenizer` must outlive it.
  TextLimit(const Tokenizer& tokenizer, int64_t max_model_len);

  /// An Error with both numbers where `bytes` of text cannot fit. `param` is the field to blame.
  Status judge(size_t bytes, const char* param) const;

 private:
  size_t most_bytes() const;

  const Tokenizer& tokenizer_;
  const int64_t max_model_len_;
  mutable std::once_flag measured_;
  mutable size_t most_bytes_ = 0;
};

/// Bytes of text in the contents of a conversation's messages.
size_t content_bytes(const Conversation& conversation);

}  // namespace quire
