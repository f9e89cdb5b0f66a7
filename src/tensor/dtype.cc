#include "tensor/dtype.h"

namespace quire {

std::optional<DType> parse_float_dtype(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "float32" || name == "float") return DType::kFloat32;
  if (name == "bfloat16") return DType::kBFloat16;
  if (name == "float16" || name == "half") return DType::kFloat16;
  return std::nullopt;
}

}  // namespace quire
