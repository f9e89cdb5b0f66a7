#include "checkpoint/ggml_type.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

// Number, name, elements per block, bytes per block: ggml's type traits.
constexpr std::array kTypes = {
    GgmlTypeInfo{0, "F32", 1, 4, true},          GgmlTypeInfo{1, "F16", 1, 2, true},
    GgmlTypeInfo{2, "Q4_0", 32, 18, true},       GgmlTypeInfo{3, "Q4_1", 32, 20, true},
    GgmlTypeInfo{6, "Q5_0", 32, 22, true},       GgmlTypeInfo{7, "Q5_1", 32, 24, true},
    GgmlTypeInfo{8, "Q8_0", 32, 34, true},       GgmlTypeInfo{9, "Q8_1", 32, 36, false},
    GgmlTypeInfo{10, "Q2_K", 256, 84, true},     GgmlTypeInfo{11, "Q3_K", 256, 110, true},
    GgmlTypeInfo{12, "Q4_K", 256, 144, true},    GgmlTypeInfo{13, "Q5_K", 256, 176, true},
    GgmlTypeInfo{14, "Q6_K", 256, 210, true},    GgmlTypeInfo{15, "Q8_K", 256, 292, false},
    GgmlTypeInfo{16, "IQ2_XXS", 256, 66, false}, GgmlTypeInfo{17, "IQ2_XS", 256, 74, false},
    GgmlTypeInfo{18, "IQ3_XXS", 256, 98, false}, GgmlTypeInfo{19, "IQ1_S", 256, 50, false},
    GgmlTypeInfo{20, "IQ4_NL", 32, 18, false},   GgmlTypeInfo{21, "IQ3_S", 256, 110, false},
    GgmlTypeInfo{22, "IQ2_S", 256, 82, false},   GgmlTypeInfo{23, "IQ4_XS", 256, 136, false},
    GgmlTypeInfo{24, "I8", 1, 1, false},         GgmlTypeInfo{25, "I16", 1, 2, false},
    GgmlTypeInfo{26, "I32", 1, 4, false},        GgmlTypeInfo{27, "I64", 1, 8, false},
    GgmlTypeInfo{28, "F64", 1, 8, false},        GgmlTypeInfo{29, "IQ1_M", 256, 56, false},
    GgmlTypeInfo{30, "BF16", 1, 2, true},        GgmlTypeInfo{34, "TQ1_0", 256, 54, false},
    GgmlTypeInfo{35, "TQ2_0", 256, 66, false},   GgmlTypeInfo{39, "MXFP4", 32, 17, false},
};

}  // namespace

const GgmlTypeInfo* find_ggml_type(uint32_t number) {
  const auto found = std::ranges::find(kTypes, number, &GgmlTypeInfo::number);
  return found == kTypes.end() ? nullptr : &*found;
}

std::string readable_ggml_types() {
  std::string names;
  for (const GgmlTypeInfo& type : kTypes) {
    if (!type.readable) continue;
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

}  // namespace quire
