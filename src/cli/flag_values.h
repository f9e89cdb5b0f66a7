// What the text of a flag's value means: numbers with suffixes, storage types, times.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace quire::cli {

/// A decimal whole number in [minimum, maximum]. The message does not name the flag: its caller does.
Result<int64_t> parse_whole_number(std::string_view text, int64_t minimum = std::numeric_limits<int64_t>::min(),
                                   int64_t maximum = std::numeric_limits<int64_t>::max());

/// Such numbers with commas between them, one at least.
Result<std::vector<int64_t>> parse_whole_numbers(std::string_view text, int64_t minimum);

/// A whole number with an optional suffix, as vLLM reads it: k, m, g, t are powers of 1,000 (a fraction such as 25.6k
/// may stand before them); K, M, G, T, also written Ki.. or KiB.., are powers of 1,024 (whole numbers only).
Result<int64_t> parse_size(std::string_view text);

/// --max-model-len: parse_size, or -1 for "auto" and "-1".
Result<int64_t> parse_size_or_auto(std::string_view text);

/// A finite number in [minimum, maximum].
Result<double> parse_number(std::string_view text, double minimum, double maximum);

/// A float type's name, none for "auto".
Result<std::optional<DType>> parse_dtype_or_auto(std::string_view text);

}  // namespace quire::cli
