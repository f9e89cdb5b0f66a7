// Owners for what the Rust library hands out, and its errors as ours.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "quire_hf.h"

namespace quire {

struct HfDeleter {
  void operator()(quire_hf_tokenizer* tokenizer) const { quire_hf_tokenizer_free(tokenizer); }
  void operator()(quire_hf_template* chat_template) const { quire_hf_template_free(chat_template); }
};
using TokenizerHandle = std::unique_ptr<quire_hf_tokenizer, HfDeleter>;
using TemplateHandle = std::unique_ptr<quire_hf_template, HfDeleter>;

/// Bytes that a call writes, freed with this object. For one call.
class HfBytes {
 public:
  HfBytes() = default;
  ~HfBytes() { quire_hf_bytes_free(bytes_); }
  HfBytes(const HfBytes&) = delete;
  HfBytes& operator=(const HfBytes&) = delete;

  quire_hf_bytes* out() { return &bytes_; }
  std::string str() const { return bytes_.data == nullptr ? std::string() : std::string(bytes_.data, bytes_.size); }

 private:
  quire_hf_bytes bytes_{nullptr, 0};
};

/// Token ids that a call writes, freed with this object. For one call.
class HfIds {
 public:
  HfIds() = default;
  ~HfIds() { quire_hf_ids_free(ids_); }
  HfIds(const HfIds&) = delete;
  HfIds& operator=(const HfIds&) = delete;

  quire_hf_ids* out() { return &ids_; }
  std::span<const uint32_t> view() const { return {ids_.data, ids_.size}; }

 private:
  quire_hf_ids ids_{nullptr, 0};
};

/// The Error of a call that returned `code`, not QUIRE_HF_OK.
inline Error hf_error(int code, const HfBytes& message) {
  switch (code) {
    case QUIRE_HF_INTERNAL:
      return internal_error("the library quire_hf failed: " + message.str());
    case QUIRE_HF_NOT_FOUND:
      return not_found(message.str());
    case QUIRE_HF_UNAVAILABLE:
      return {ErrorKind::kUnavailable, message.str(), {}};
    case QUIRE_HF_CANCELLED:
      return {ErrorKind::kCancelled, message.str(), {}};
    default:
      return invalid_argument(message.str());
  }
}

}  // namespace quire
