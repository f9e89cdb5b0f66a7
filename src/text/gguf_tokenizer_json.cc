#include "text/gguf_tokenizer_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "text/gguf_pre_tokenizers.h"
#include "text/sentencepiece_merges.h"

namespace quire {
namespace {

// Not ordered_json, whose objects search from the front: a vocabulary would take quadratic time.
using SortedJson = nlohmann::json;

SortedJson vocab_of(const GgufVocabulary& vocabulary) {
  SortedJson vocab = SortedJson::object();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) vocab[vocabulary.tokens[id]] = id;
  return vocab;
}

/// Control tokens are special; user-defined ones are found whole in any text, but decoded like others.
SortedJson added_tokens_of(const GgufVocabulary& vocabulary) {
  SortedJson added = SortedJson::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const GgufTokenType type = vocabulary.types[id];
    const bool named = std::ranges::any_of(
        std::array{vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id, vocabulary.pad_id},
        [&](const std::optional<int32_t>& special) { return special && static_cast<size_t>(*special) == id; });
    const bool special = type == GgufTokenType::kControl || named;
    if (!special && type != GgufTokenType::kUserDefined) continue;
    if (vocabulary.tokens[id].empty()) continue;
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

Result<SortedJson> merges_from_file(const GgufVocabulary& vocabulary, const std::string& where) {
  SortedJson merges = SortedJson::array();
  for (const std::string& merge : vocabulary.merges) {
    // Tokens may begin with a space, never end with one.
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos || space + 1 == merge.size()) {
      return invalid_argument(where + ": the merge '" + merge + "' is not two tokens with a space between them");
    }
    merges.push_back(SortedJson::array({merge.substr(0, space), merge.substr(space + 1)}));
  }
  return merges;
}

/// BOS and EOS around the text.
SortedJson post_processor(const GgufVocabulary& vocabulary, bool add_bos, bool add_eos) {
  SortedJson single = SortedJson::array(), pair = SortedJson::array(), special = SortedJson::object();
  const auto add_special = [&](SortedJson& to, int32_t id, int type_id) {
    const std::string& token = vocabulary.tokens[static_cast<size_t>(id)];
    to.push_back({{"SpecialToken", {{"id", token}, {"type_id", type_id}}}});
    special[token] = {{"id", token}, {"ids", SortedJson::array({id})}, {"tokens", SortedJson::array({token})}};
  };
  const auto add_text = [](SortedJson& to, const char* name, int type_id) {
    to.push_back({{"Sequence", {{"id", name}, {"type_id", type_id}}}});
  };
  for (SortedJson* to : {&single, &pair}) {
    if (add_bos && vocabulary.bos_id) add_special(*to, *vocabulary.bos_id, 0);
    add_text(*to, "A", 0);
    if (add_eos && vocabulary.eos_id) add_special(*to, *vocabulary.eos_id, 0);
  }
  add_text(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

SortedJson bpe_model(const GgufVocabulary& vocabulary, SortedJson merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocab_of(vocabulary)},
          {"merges", std::move(merges)}};
}

SortedJson envelope(const GgufVocabulary& vocabulary) {
  return {{"version", "1.0"},          {"truncation", nullptr},
          {"padding", nullptr},        {"added_tokens", added_tokens_of(vocabulary)},
          {"normalizer", nullptr},     {"pre_tokenizer", nullptr},
          {"post_processor", nullptr}, {"decoder", nullptr}};
}

Result<SortedJson> byte_level(const GgufVocabulary& vocabulary, const std::string& where) {
  if (vocabulary.merges.empty()) return invalid_argument(where + " has no merges (tokenizer.ggml.merges)");
  QUIRE_ASSIGN_OR_RETURN(SortedJson merges, merges_from_file(vocabulary, where));
  SortedJson tokenizer = envelope(vocabulary);
  tokenizer["model"] = bpe_model(vocabulary, std::move(merges));
  const auto adds_bos = apply_gguf_pre_tokenizer(vocabulary.pre_tokenizer, tokenizer);
  if (!adds_bos) {
    return unsupported(where + " names the pre-tokenizer '" + vocabulary.pre_tokenizer +
                       "' (tokenizer.ggml.pre), which quire does not know; use the Hugging Face folder of this model");
  }
  tokenizer["post_processor"] =
      post_processor(vocabulary, vocabulary.add_bos.value_or(*adds_bos), vocabulary.add_eos.value_or(false));
  tokenizer["decoder"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  return tokenizer;
}

SortedJson sentencepiece_decoder(bool space_prefix) {
  SortedJson decoders = {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (space_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
}

Result<SortedJson> sentencepiece(const GgufVocabulary& vocabulary, const std::string& where) {
  if (vocabulary.architecture.starts_with("gemma") || vocabulary.architecture == "phi3") {
    return unsupported(where + ": SentencePiece vocabularies of the architecture '" + vocabulary.architecture +
                       "' split text in a way of their own, which quire does not know; use the Hugging Face folder");
  }
  SortedJson merges = SortedJson::array();
  if (!vocabulary.merges.empty()) {
    QUIRE_ASSIGN_OR_RETURN(merges, merges_from_file(vocabulary, where));
  } else {
    if (vocabulary.scores.empty()) return invalid_argument(where + " has neither merges nor scores for its tokens");
    for (auto& [left, right] : merges_from_scores(vocabulary.tokens, vocabulary.scores)) {
      merges.push_back(SortedJson::array({std::move(left), std::move(right)}));
    }
  }
  const bool space_prefix = vocabulary.add_space_prefix.value_or(true);
  SortedJson tokenizer = envelope(vocabulary);
  tokenizer["pre_tokenizer"] = {{"type", "Metaspace"},
                                {"replacement", "\u2581"},
                                {"prepend_scheme", space_prefix ? "first" : "never"},
                                {"split", false}};
  tokenizer["post_processor"] =
      post_processor(vocabulary, vocabulary.add_bos.value_or(true), vocabulary.add_eos.value_or(false));
  tokenizer["decoder"] = sentencepiece_decoder(space_prefix);
  tokenizer["model"] = bpe_model(vocabulary, std::move(merges));
  tokenizer["model"]["fuse_unk"] = true;
  tokenizer["model"]["byte_fallback"] = true;
  if (vocabulary.unk_id) {
    tokenizer["model"]["unk_token"] = vocabulary.tokens[static_cast<size_t>(*vocabulary.unk_id)];
  }
  return tokenizer;
}

}  // namespace

Result<std::string> make_tokenizer_json(const GgufVocabulary& vocabulary, const std::string& where) {
  Result<SortedJson> tokenizer = [&]() -> Result<SortedJson> {
    if (vocabulary.model == "gpt2") return byte_level(vocabulary, where);
    if (vocabulary.model == "llama") return sentencepiece(vocabulary, where);
    return unsupported(where + " has a tokenizer of the kind '" + vocabulary.model +
                       "' (tokenizer.ggml.model); quire knows 'gpt2' and 'llama'");
  }();
  if (!tokenizer.ok()) return tokenizer.error();
  return tokenizer->dump(-1, ' ', false, SortedJson::error_handler_t::replace);
}

}  // namespace quire
