#include "checkpoint/gguf_parser.h"

#include <algorithm>
#include <unordered_set>

#include "checkpoint/checked_math.h"
#include "checkpoint/printable.h"

namespace quire {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxNameBytes = 64 * 1024;
constexpr uint32_t kGgufDimensions = 4;
constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kMaxAlignment = 1 << 20;
// The least a metadata entry (name length, type, value) and a tensor entry (name length, dimensions, type, offset)
// take.
constexpr uint64_t kMinValueBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

}  // namespace

size_t gguf_value_size(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    case GgufValueType::kString:
    case GgufValueType::kArray:
      return 0;
  }
  return 0;
}

Error GgufFile::Parser::malformed(const std::string& what) const {
  return invalid_argument(file_.description_ + " is not a valid GGUF file: " + what);
}

Error GgufFile::Parser::cut_short(const std::string& where) const {
  return malformed("it ends inside " + where + " (" + std::to_string(file_.bytes_.size()) +
                   " bytes); it may be damaged or not fully downloaded, get it again");
}

Status GgufFile::Parser::parse() {
  QUIRE_RETURN_IF_ERROR(parse_preamble());
  file_.values_.reserve(value_count_);
  for (uint64_t i = 0; i < value_count_; ++i) QUIRE_RETURN_IF_ERROR(parse_value());
  file_.tensors_.reserve(tensor_count_);
  for (uint64_t i = 0; i < tensor_count_; ++i) QUIRE_RETURN_IF_ERROR(parse_tensor());
  QUIRE_RETURN_IF_ERROR(locate_tensors());
  return check_overlaps();
}

Status GgufFile::Parser::parse_preamble() {
  if (reader_.read<uint32_t>() != kMagic) return malformed("it does not begin with GGUF's magic number");
  const auto version = reader_.read<uint32_t>();
  if (version != 0 && (version & 0xffff) == 0) {
    return unsupported(file_.description_ + " is a big-endian GGUF file; get or convert a little-endian one");
  }
  if (version != 2 && version != 3) {
    return unsupported(file_.description_ + " has GGUF version " + std::to_string(version) +
                       "; versions 2 and 3 are supported, convert it with a current converter");
  }
  tensor_count_ = reader_.read<uint64_t>();
  value_count_ = reader_.read<uint64_t>();
  if (reader_.failed()) return cut_short("its preamble");
  if (value_count_ > reader_.remaining() / kMinValueBytes) {
    return malformed("it claims " + std::to_string(value_count_) + " metadata entries, more than fit in the file");
  }
  if (tensor_count_ > reader_.remaining() / kMinTensorBytes) {
    return malformed("it claims " + std::to_string(tensor_count_) + " tensors, more than fit in the file");
  }
  return {};
}

Status GgufFile::Parser::parse_value() {
  Value value;
  const auto key_bytes = reader_.read<uint64_t>();
  if (key_bytes > kMaxNameBytes) return malformed("a metadata key claims " + std::to_string(key_bytes) + " bytes");
  value.key = reader_.take_string(key_bytes);
  value.type = static_cast<GgufValueType>(reader_.read<uint32_t>());
  if (reader_.failed()) return cut_short("its metadata");
  if (value.type == GgufValueType::kArray) {
    value.is_array = true;
    value.type = static_cast<GgufValueType>(reader_.read<uint32_t>());
    value.count = reader_.read<uint64_t>();
    if (value.type == GgufValueType::kArray) {
      return unsupported(file_.description_ + ": metadata " + quote_name(value.key) + " is an array of arrays");
    }
  }
  if (value.type == GgufValueType::kString) {
    value.payload = take_strings(value.count);
  } else {
    const size_t size = gguf_value_size(value.type);
    if (size == 0) {
      return malformed("metadata " + quote_name(value.key) + " has unknown type " +
                       std::to_string(static_cast<uint32_t>(value.type)));
    }
    value.payload = reader_.take(checked_multiply(value.count, size).value_or(UINT64_MAX));
  }
  if (reader_.failed()) return cut_short("metadata " + quote_name(value.key));
  if (!file_.index_.emplace(value.key, file_.values_.size()).second) {
    return malformed("metadata " + quote_name(value.key) + " appears twice");
  }
  file_.values_.push_back(value);
  return {};
}

std::span<const std::byte> GgufFile::Parser::take_strings(uint64_t count) {
  const size_t begin = reader_.position();
  for (uint64_t i = 0; i < count && !reader_.failed(); ++i) reader_.take(reader_.read<uint64_t>());
  return file_.bytes_.subspan(begin, reader_.position() - begin);
}

Status GgufFile::Parser::parse_tensor() {
  GgufTensor tensor;
  const auto name_bytes = reader_.read<uint64_t>();
  if (name_bytes > kMaxNameBytes) return malformed("a tensor's name claims " + std::to_string(name_bytes) + " bytes");
  tensor.name = reader_.take_string(name_bytes);
  const auto dimensions = reader_.read<uint32_t>();
  if (dimensions > kGgufDimensions) {
    return malformed("tensor " + quote_name(tensor.name) + " claims " + std::to_string(dimensions) + " dimensions");
  }
  tensor.shape.resize(dimensions);
  for (uint32_t i = 0; i < dimensions; ++i) tensor.shape[dimensions - 1 - i] = reader_.read<int64_t>();
  const auto type_number = reader_.read<uint32_t>();
  tensor.offset = reader_.read<uint64_t>();
  if (reader_.failed()) return cut_short("its table of tensors");
  tensor.type = find_ggml_type(type_number);
  if (tensor.type == nullptr) {
    return unsupported(file_.description_ + ": tensor " + quote_name(tensor.name) + " has unknown type number " +
                       std::to_string(type_number) + "; readable types are " + readable_ggml_types());
  }
  QUIRE_RETURN_IF_ERROR(measure_tensor(tensor));
  file_.tensors_.push_back(std::move(tensor));
  return {};
}

Status GgufFile::Parser::measure_tensor(GgufTensor& tensor) const {
  const auto elements = checked_elements(tensor.shape);
  if (!elements || *elements == 0) {
    return malformed("the dimensions of tensor " + quote_name(tensor.name) + " are zero, negative or too large");
  }
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % tensor.type->block_size != 0) {
    return malformed("the rows of tensor " + quote_name(tensor.name) + " have " + std::to_string(row) +
                     " elements, not whole blocks of type " + tensor.type->name);
  }
  const auto blocks = static_cast<uint64_t>(*elements) / tensor.type->block_size;
  const auto bytes = checked_multiply(blocks, tensor.type->block_bytes);
  if (!bytes) return malformed("the size of tensor " + quote_name(tensor.name) + " overflows");
  tensor.bytes = *bytes;
  return {};
}

Status GgufFile::Parser::locate_tensors() {
  QUIRE_ASSIGN_OR_RETURN(const auto given_alignment, file_.find<int64_t>("general.alignment"));
  const int64_t alignment = given_alignment.value_or(kDefaultAlignment);
  if (alignment <= 0 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
    return malformed("general.alignment is " + std::to_string(alignment) + ", not a sane power of two");
  }
  const auto unit = static_cast<uint64_t>(alignment);
  const uint64_t data_begin = (reader_.position() + unit - 1) / unit * unit;
  const uint64_t file_size = file_.bytes_.size();
  std::unordered_set<std::string_view> names;
  for (GgufTensor& tensor : file_.tensors_) {
    if (!names.insert(tensor.name).second) return malformed("tensor " + quote_name(tensor.name) + " appears twice");
    if (tensor.offset % unit != 0) return malformed("tensor " + quote_name(tensor.name) + " is not aligned");
    const auto begin = checked_add(data_begin, tensor.offset);
    const auto end = begin ? checked_add(*begin, tensor.bytes) : std::nullopt;
    if (!end) return malformed("the offset of tensor " + quote_name(tensor.name) + " overflows");
    if (*end > file_size) {
      return malformed("tensor " + quote_name(tensor.name) + " needs the file to have " + std::to_string(*end) +
                       " bytes, it has " + std::to_string(file_size) +
                       "; it may not be fully downloaded, get it again");
    }
    tensor.offset = *begin;
  }
  return {};
}

Status GgufFile::Parser::check_overlaps() const {
  std::vector<const GgufTensor*> ordered;
  ordered.reserve(file_.tensors_.size());
  for (const GgufTensor& tensor : file_.tensors_) ordered.push_back(&tensor);
  std::ranges::sort(ordered, {}, [](const GgufTensor* tensor) { return tensor->offset; });
  for (size_t i = 1; i < ordered.size(); ++i) {
    if (ordered[i - 1]->offset + ordered[i - 1]->bytes > ordered[i]->offset) {
      return malformed("tensors " + quote_name(ordered[i - 1]->name) + " and " + quote_name(ordered[i]->name) +
                       " overlap");
    }
  }
  return {};
}

}  // namespace quire
