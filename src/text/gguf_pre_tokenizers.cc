#include "text/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace quire {
namespace {

using SortedJson = nlohmann::json;

// The splitting patterns, as the models' own tokenizer.json files have them.
#define QUIRE_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
constexpr const char* kLlama3 =
    QUIRE_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    QUIRE_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 = QUIRE_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" QUIRE_CONTRACTIONS
    R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" QUIRE_CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
#undef QUIRE_CONTRACTIONS
constexpr const char* kThreeDigits = R"(\p{N}{1,3})";
constexpr const char* kCjkRun = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr const char* kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

SortedJson split(const char* regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

/// `use_regex`: GPT-2's own pattern, built into the library.
SortedJson byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

SortedJson sequence(const std::vector<const char*>& patterns) {
  SortedJson parts = SortedJson::array();
  for (const char* pattern : patterns) parts.push_back(split(pattern));
  parts.push_back(byte_level(false));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

SortedJson single_digits_then_gpt2() {
  return {{"type", "Sequence"},
          {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)}}};
}

struct Kind {
  SortedJson (*pre_tokenizer)();
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;
  std::vector<std::string_view> names;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {
      {[] { return byte_level(true); },
       false,
       false,
       false,
       {"default", "gpt-2", "phi-2", "jais", "gigachat", "mellum"}},
      {[] { return byte_level(true); }, true, false, false, {"olmo"}},
      {single_digits_then_gpt2, false, false, false, {"smollm", "starcoder", "refact", "codeshell", "minerva-7b"}},
      {single_digits_then_gpt2, true, false, false, {"command-r", "exaone"}},
      {[] { return sequence({kLlama3}); },
       false,
       true,
       true,
       {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}},
      {[] { return sequence({kLlama3}); }, false, false, false, {"dbrx", "smaug-bpe", "chatglm-bpe"}},
      {[] { return sequence({kLlama3}); }, false, true, false, {"glm4"}},
      {[] { return sequence({kQwen2}); },
       true,
       false,
       false,
       {"qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2"}},
      {[] { return sequence({kQwen35}); }, true, false, false, {"qwen35"}},
      {[] { return sequence({kTekken}); }, false, true, true, {"tekken"}},
      {[] { return sequence({kGpt4o}); }, false, false, false, {"gpt-4o", "llama4", "kanana2"}},
      {[] {
         return sequence({kThreeDigits, kCjkRun, kDeepSeekV3});
       },
       false,
       false,
       false,
       {"deepseek-v3"}},
  };
  return kKinds;
}

}  // namespace

std::optional<bool> apply_gguf_pre_tokenizer(std::string_view name, SortedJson& tokenizer) {
  if (name.empty()) name = "default";
  const auto kind = std::ranges::find_if(
      kinds(), [&](const Kind& kind) { return std::ranges::find(kind.names, name) != kind.names.end(); });
  if (kind == kinds().end()) return {};
  tokenizer["normalizer"] = kind->nfc ? SortedJson{{"type", "NFC"}} : SortedJson(nullptr);
  tokenizer["pre_tokenizer"] = kind->pre_tokenizer();
  tokenizer["model"]["ignore_merges"] = kind->ignore_merges;
  return kind->add_bos;
}

}  // namespace quire
