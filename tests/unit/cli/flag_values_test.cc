#include "cli/flag_values.h"

#include <gtest/gtest.h>

namespace quire::cli {
namespace {

struct SizeCase {
  const char* text;
  int64_t value;
};

TEST(ParseSize, SuffixesOfThousandsAndOfKibi) {
  const SizeCase cases[] = {{"0", 0},
                            {"17", 17},
                            {"1k", 1000},
                            {"1K", 1024},
                            {"25.6k", 25600},
                            {"4m", 4'000'000},
                            {"4M", 4 << 20},
                            {"2g", 2'000'000'000},
                            {"2G", int64_t{2} << 30},
                            {"1T", int64_t{1} << 40},
                            {"3Gi", int64_t{3} << 30},
                            {"3GiB", int64_t{3} << 30},
                            {"0.5g", 500'000'000}};
  for (const SizeCase& row : cases) {
    const auto size = parse_size(row.text);
    ASSERT_TRUE(size.ok()) << row.text;
    EXPECT_EQ(*size, row.value) << row.text;
  }
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text : {"", "k", "-1", "1.5K", "1.5", "1kk", "1kB", "1KB", "1 k", "0x10", "1e9", "1.2.3k", ".k",
                           "9999999999999999999", "9999999999999T", "nan", "inf"}) {
    EXPECT_FALSE(parse_size(text).ok()) << text;
  }
  EXPECT_EQ(parse_size("12q").error().message,
            "'12q' is not a size: give a whole number, with k, m, g, t for powers of 1,000 or K, M, G, T for powers of "
            "1,024");
}

TEST(ParseSize, AutoIsMinusOne) {
  EXPECT_EQ(*parse_size_or_auto("auto"), -1);
  EXPECT_EQ(*parse_size_or_auto("-1"), -1);
  EXPECT_EQ(*parse_size_or_auto("8K"), 8192);
  EXPECT_FALSE(parse_size_or_auto("0").ok());
  EXPECT_FALSE(parse_size_or_auto("-2").ok());
}

TEST(ParseWholeNumber, Range) {
  EXPECT_EQ(*parse_whole_number("65535", 0, 65535), 65535);
  EXPECT_EQ(parse_whole_number("65536", 0, 65535).error().message, "65536 is not between 0 and 65535");
  EXPECT_EQ(parse_whole_number("0", 1).error().message, "0 is below the least value, 1");
  for (const char* text : {"", "1.0", "+1", " 1", "1 ", "99999999999999999999"}) {
    EXPECT_FALSE(parse_whole_number(text).ok()) << text;
  }
}

TEST(ParseNumber, TakesInfinityWhereAllowed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(*parse_number("inf", 0, kInfinity), kInfinity);
  EXPECT_EQ(*parse_number("0.25", 0, 1), 0.25);
  EXPECT_FALSE(parse_number("inf", 0, 2).ok());
  EXPECT_FALSE(parse_number("nan", 0, kInfinity).ok());
  EXPECT_FALSE(parse_number("1,5", 0, kInfinity).ok());
}

TEST(ParseDType, NamesOfFlags) {
  EXPECT_EQ(*parse_dtype_or_auto("auto"), std::nullopt);
  EXPECT_EQ(*parse_dtype_or_auto("half"), DType::kFloat16);
  EXPECT_EQ(*parse_dtype_or_auto("float"), DType::kFloat32);
  EXPECT_EQ(*parse_dtype_or_auto("bfloat16"), DType::kBFloat16);
  EXPECT_FALSE(parse_dtype_or_auto("int8").ok());
}

}  // namespace
}  // namespace quire::cli
