#include "text/gguf_vocabulary.h"

#include <string_view>

#include "checkpoint/gguf_file.h"

namespace quire {
namespace {

Status read_text(const GgufFile& file, std::string_view key, std::string& to) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, file.find<std::string_view>(key));
  if (value) to = *value;
  return {};
}

Status read_texts(const GgufFile& file, std::string_view key, std::vector<std::string>& to) {
  QUIRE_ASSIGN_OR_RETURN(const auto values, file.find<std::vector<std::string_view>>(key));
  if (values) to.assign(values->begin(), values->end());
  return {};
}

Status read_id(const GgufFile& file, const std::string& key, size_t vocab_size, std::optional<int32_t>& to) {
  QUIRE_ASSIGN_OR_RETURN(const auto id, file.find<int64_t>(key));
  if (!id) return {};
  if (*id < 0 || static_cast<size_t>(*id) >= vocab_size) {
    return invalid_argument(file.description() + ": " + key + " is " + std::to_string(*id) + ", outside of the " +
                            std::to_string(vocab_size) + " tokens");
  }
  to = static_cast<int32_t>(*id);
  return {};
}

Status check_count(const GgufFile& file, const std::string& key, size_t count, size_t vocab_size) {
  if (count == vocab_size) return {};
  return invalid_argument(file.description() + ": " + key + " has " + std::to_string(count) + " entries for " +
                          std::to_string(vocab_size) + " tokens");
}

Status read_types(const GgufFile& file, GgufVocabulary& vocabulary) {
  const std::string key = "tokenizer.ggml.token_type";
  vocabulary.types.assign(vocabulary.tokens.size(), GgufTokenType::kNormal);
  QUIRE_ASSIGN_OR_RETURN(const auto types, file.find<std::vector<int64_t>>(key));
  if (!types) return {};
  QUIRE_RETURN_IF_ERROR(check_count(file, key, types->size(), vocabulary.tokens.size()));
  for (size_t id = 0; id < types->size(); ++id) {
    const int64_t type = (*types)[id];
    if (type < 0 || type > 6) {
      return invalid_argument(file.description() + ": token " + std::to_string(id) + " has the unknown type " +
                              std::to_string(type));
    }
    vocabulary.types[id] = static_cast<GgufTokenType>(type);
  }
  return {};
}

Status read_scores(const GgufFile& file, GgufVocabulary& vocabulary) {
  const std::string key = "tokenizer.ggml.scores";
  QUIRE_ASSIGN_OR_RETURN(auto scores, file.find<std::vector<double>>(key));
  if (!scores) return {};
  QUIRE_RETURN_IF_ERROR(check_count(file, key, scores->size(), vocabulary.tokens.size()));
  vocabulary.scores = std::move(*scores);
  return {};
}

Status read_special(const GgufFile& file, GgufVocabulary& vocabulary) {
  const size_t size = vocabulary.tokens.size();
  QUIRE_RETURN_IF_ERROR(read_id(file, "tokenizer.ggml.bos_token_id", size, vocabulary.bos_id));
  QUIRE_RETURN_IF_ERROR(read_id(file, "tokenizer.ggml.eos_token_id", size, vocabulary.eos_id));
  QUIRE_RETURN_IF_ERROR(read_id(file, "tokenizer.ggml.unknown_token_id", size, vocabulary.unk_id));
  QUIRE_RETURN_IF_ERROR(read_id(file, "tokenizer.ggml.padding_token_id", size, vocabulary.pad_id));
  QUIRE_ASSIGN_OR_RETURN(vocabulary.add_bos, file.find<bool>("tokenizer.ggml.add_bos_token"));
  QUIRE_ASSIGN_OR_RETURN(vocabulary.add_eos, file.find<bool>("tokenizer.ggml.add_eos_token"));
  QUIRE_ASSIGN_OR_RETURN(vocabulary.add_space_prefix, file.find<bool>("tokenizer.ggml.add_space_prefix"));
  return {};
}

}  // namespace

Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file) {
  GgufVocabulary vocabulary;
  QUIRE_RETURN_IF_ERROR(read_text(file, "tokenizer.ggml.model", vocabulary.model));
  QUIRE_RETURN_IF_ERROR(read_text(file, "tokenizer.ggml.pre", vocabulary.pre_tokenizer));
  QUIRE_RETURN_IF_ERROR(read_text(file, "general.architecture", vocabulary.architecture));
  QUIRE_RETURN_IF_ERROR(read_text(file, "tokenizer.chat_template", vocabulary.chat_template));
  QUIRE_RETURN_IF_ERROR(read_texts(file, "tokenizer.ggml.tokens", vocabulary.tokens));
  QUIRE_RETURN_IF_ERROR(read_texts(file, "tokenizer.ggml.merges", vocabulary.merges));
  if (vocabulary.model.empty() || vocabulary.tokens.empty()) {
    return invalid_argument(file.description() +
                            " holds no tokenizer (tokenizer.ggml.model and tokenizer.ggml.tokens)");
  }
  QUIRE_RETURN_IF_ERROR(read_types(file, vocabulary));
  QUIRE_RETURN_IF_ERROR(read_scores(file, vocabulary));
  QUIRE_RETURN_IF_ERROR(read_special(file, vocabulary));
  return vocabulary;
}

}  // namespace quire
