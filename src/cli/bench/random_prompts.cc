#include "cli/bench/random_prompts.h"

#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

namespace quire::cli {

uint64_t RandomSource::next() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

int64_t RandomSource::between(int64_t low, int64_t high) {
  if (high <= low) return low;
  const uint64_t range = static_cast<uint64_t>(high - low) + 1;
  return low + static_cast<int64_t>(next() % range);
}

double RandomSource::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double RandomSource::exponential() { return -std::log1p(-uniform()); }

double RandomSource::normal() {
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double RandomSource::gamma(double shape) {
  if (shape == 1) return exponential();
  const double boosted = shape < 1 ? shape + 1 : shape;
  const double d = boosted - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0 || std::log1p(-uniform()) >= 0.5 * x * x + d - d * v + d * std::log(v)) continue;
    const double boost = shape < 1 ? std::pow(1 - uniform(), 1 / shape) : 1;
    return d * v * boost / shape;
  }
}

std::vector<RandomPrompt> random_prompts(int64_t count, const PromptShape& shape, uint64_t seed) {
  RandomSource random(seed);
  const auto draw_length = [&](int64_t length) {
    const double spread = static_cast<double>(length) * shape.range_ratio;
    const int64_t low = static_cast<int64_t>(std::floor(static_cast<double>(length) - spread));
    const int64_t high = static_cast<int64_t>(std::ceil(static_cast<double>(length) + spread));
    return std::max<int64_t>(1, random.between(low, high));
  };
  const auto draw_id = [&] { return static_cast<int32_t>(random.between(shape.lowest_id, shape.highest_id)); };
  std::vector<int32_t> prefix(static_cast<size_t>(shape.prefix_len));
  for (int32_t& id : prefix) id = draw_id();
  std::vector<RandomPrompt> prompts(static_cast<size_t>(count));
  for (RandomPrompt& prompt : prompts) {
    const int64_t own = draw_length(shape.input_len);
    prompt.output_len = draw_length(shape.output_len);
    prompt.ids = prefix;
    for (int64_t i = 0; i < own; ++i) prompt.ids.push_back(draw_id());
  }
  return prompts;
}

std::string words_for(const RandomPrompt& prompt) {
  static constexpr std::array<std::string_view, 64> kWords = {
      "time",  "year",   "people", "way",     "day",     "man",     "thing",    "woman",   "life",       "child",
      "world", "school", "state",  "family",  "student", "group",   "country",  "problem", "hand",       "part",
      "place", "case",   "week",   "company", "system",  "program", "question", "work",    "government", "number",
      "night", "point",  "home",   "water",   "room",    "mother",  "area",     "money",   "story",      "fact",
      "month", "lot",    "right",  "study",   "book",    "eye",     "job",      "word",    "business",   "issue",
      "side",  "kind",   "head",   "house",   "service", "friend",  "father",   "power",   "hour",       "game",
      "line",  "end",    "member", "law"};
  std::string text;
  for (const int32_t id : prompt.ids) {
    if (!text.empty()) text.push_back(' ');
    text += kWords[static_cast<size_t>(id) % kWords.size()];
  }
  return text;
}

}  // namespace quire::cli
