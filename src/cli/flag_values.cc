#include "cli/flag_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace quire::cli {
namespace {

struct Suffix {
  int64_t factor = 1;
  bool fraction_allowed = false;
};

std::optional<Suffix> find_suffix(std::string_view text) {
  if (text.empty()) return Suffix{};
  const std::string_view decimal = "kmgt";
  const std::string_view binary = "KMGT";
  const std::string_view tail = text.substr(1);
  if (const size_t power = decimal.find(text[0]); power != std::string_view::npos && tail.empty()) {
    int64_t factor = 1;
    for (size_t i = 0; i <= power; ++i) factor *= 1000;
    return Suffix{factor, true};
  }
  if (const size_t power = binary.find(text[0]);
      power != std::string_view::npos && (tail.empty() || tail == "i" || tail == "iB")) {
    return Suffix{int64_t{1} << (10 * (power + 1)), false};
  }
  return std::nullopt;
}

Error not_a_size(std::string_view text) {
  return invalid_argument(fmt::format(
      "'{}' is not a size: give a whole number, with k, m, g, t for powers of 1,000 or K, M, G, T for powers of 1,024",
      text));
}

}  // namespace

Result<std::vector<int64_t>> parse_whole_numbers(std::string_view text, int64_t minimum) {
  std::vector<int64_t> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    QUIRE_ASSIGN_OR_RETURN(const int64_t number, parse_whole_number(text.substr(begin, end - begin), minimum));
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

Result<int64_t> parse_whole_number(std::string_view text, int64_t minimum, int64_t maximum) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    return invalid_argument(fmt::format("'{}' is not a whole number", text));
  }
  if (value < minimum || value > maximum) {
    if (maximum == std::numeric_limits<int64_t>::max()) {
      return invalid_argument(fmt::format("{} is below the least value, {}", value, minimum));
    }
    return invalid_argument(fmt::format("{} is not between {} and {}", value, minimum, maximum));
  }
  return value;
}

Result<int64_t> parse_size(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789");
  const size_t number_end = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, number_end);
  const auto suffix =
      number_end == std::string_view::npos ? std::optional<Suffix>{Suffix{}} : find_suffix(text.substr(number_end));
  if (number.empty() || !suffix) return not_a_size(text);
  if (digits == number_end) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error == std::errc::result_out_of_range || value > std::numeric_limits<int64_t>::max() / suffix->factor) {
      return invalid_argument(fmt::format("'{}' is too large", text));
    }
    if (error != std::errc{} || end != number.data() + number.size()) return not_a_size(text);
    return value * suffix->factor;
  }
  if (!suffix->fraction_allowed) return not_a_size(text);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc{} || end != number.data() + number.size()) return not_a_size(text);
  value *= static_cast<double>(suffix->factor);
  if (value > 9e18) return invalid_argument(fmt::format("'{}' is too large", text));
  return static_cast<int64_t>(std::llround(value));
}

Result<int64_t> parse_size_or_auto(std::string_view text) {
  if (text == "auto" || text == "-1") return int64_t{-1};
  auto size = parse_size(text);
  if (!size.ok()) return invalid_argument(size.error().message + ", or auto for what the memory holds");
  if (*size < 1) return invalid_argument(fmt::format("{} is below the least value, 1", *size));
  return size;
}

Result<double> parse_number(std::string_view text, double minimum, double maximum) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || std::isnan(value)) {
    return invalid_argument(fmt::format("'{}' is not a number", text));
  }
  if (value < minimum || value > maximum) {
    if (std::isinf(maximum)) return invalid_argument(fmt::format("{} is below the least value, {}", value, minimum));
    return invalid_argument(fmt::format("{} is not between {} and {}", value, minimum, maximum));
  }
  return value;
}

Result<std::optional<DType>> parse_dtype_or_auto(std::string_view text) {
  if (text == "auto") return std::optional<DType>{};
  if (text == "float32" || text == "float") return std::optional<DType>{DType::kFloat32};
  if (text == "bfloat16") return std::optional<DType>{DType::kBFloat16};
  if (text == "float16" || text == "half") return std::optional<DType>{DType::kFloat16};
  return invalid_argument(fmt::format("'{}' is not one of auto, float32, float, bfloat16, float16, half", text));
}

}  // namespace quire::cli
