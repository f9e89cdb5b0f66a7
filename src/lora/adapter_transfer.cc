#include "lora/adapter_transfer.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "checkpoint/byte_reader.h"

namespace quire {
namespace {

constexpr size_t kAlignment = 16;  // of a tensor's first byte, as of the whole string's

void write(std::string& out, uint64_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof(value)); }

void write(std::string& out, std::string_view text) {
  write(out, uint64_t{text.size()});
  out.append(text);
}

size_t aligned(size_t position) { return (position + kAlignment - 1) / kAlignment * kAlignment; }

/// Rows as they are, side by side.
void write_rows(std::string& out, const MatrixView& view) {
  const size_t row_bytes = static_cast<size_t>(view.cols) * dtype_size(view.dtype);
  const size_t stride = static_cast<size_t>(view.row_stride) * dtype_size(view.dtype);
  write(out, uint64_t{static_cast<uint64_t>(view.dtype)});
  write(out, uint64_t{static_cast<uint64_t>(view.rows) * row_bytes});
  out.resize(aligned(out.size()), '\0');
  for (int64_t row = 0; row < view.rows; ++row) {
    out.append(static_cast<const char*>(view.data) + static_cast<size_t>(row) * stride, row_bytes);
  }
}

/// Tensors inside a string.
class PackedTensors final : public WeightSource {
 public:
  explicit PackedTensors(std::string packed) : packed_(std::move(packed)) {}

  /// Finds the tensors; `config_text` and `config_where` are what comes before them. False where the string is no
  /// packed adapter.
  bool read(std::string& config_text, std::string& config_where) {
    ByteReader reader(std::as_bytes(std::span(packed_)));
    const auto text = [&] { return std::string(reader.take_string(reader.read<uint64_t>())); };
    config_text = text();
    config_where = text();
    description_ = text();
    const auto count = reader.read<uint64_t>();
    for (uint64_t i = 0; i < count && !reader.failed(); ++i) {
      WeightInfo info;
      info.name = text();
      const auto dims = reader.read<uint64_t>();
      for (uint64_t dim = 0; dim < dims && !reader.failed(); ++dim) info.shape.push_back(reader.read<int64_t>());
      const auto dtype = static_cast<DType>(reader.read<uint64_t>());
      info.stored_bytes = reader.read<uint64_t>();
      info.stored_type = dtype == DType::kFloat32 ? "F32" : dtype == DType::kBFloat16 ? "BF16" : "F16";
      reader.take(aligned(reader.position()) - reader.position());
      const auto bytes = reader.take(info.stored_bytes);
      const auto values = static_cast<size_t>(info.rows() * info.cols());
      if (reader.failed() || bytes.size() != values * dtype_size(dtype)) return false;
      infos_.push_back(std::move(info));
      data_.push_back({bytes.data(), dtype});
    }
    return !reader.failed() && reader.remaining() == 0;
  }

  std::span<const WeightInfo> tensors() const override { return infos_; }
  const WeightInfo* find(std::string_view name) const override {
    const auto found = std::ranges::find(infos_, name, &WeightInfo::name);
    return found == infos_.end() ? nullptr : &*found;
  }
  Result<MatrixView> read_rows(const WeightInfo& weight, int64_t begin, int64_t count,
                               std::vector<float>&) const override {
    const Data& data = data_[static_cast<size_t>(&weight - infos_.data())];
    const int64_t cols = weight.cols();
    const auto offset = static_cast<size_t>(begin * cols) * dtype_size(data.dtype);
    return MatrixView{data.bytes + offset, data.dtype, count, cols, cols};
  }
  void release(const WeightInfo&) const override {}
  const std::string& description() const override { return description_; }

 private:
  struct Data {
    const std::byte* bytes;
    DType dtype;
  };
  const std::string packed_;
  std::string description_;
  std::vector<WeightInfo> infos_;
  std::vector<Data> data_;
};

}  // namespace

std::string pack_adapter_files(const AdapterFiles& files) {
  const WeightSource& tensors = files.tensors();
  std::string packed;
  write(packed, std::string_view(files.config_text()));
  write(packed, std::string_view(files.config_where()));
  write(packed, std::string_view(tensors.description()));
  write(packed, uint64_t{tensors.tensors().size()});
  std::vector<float> scratch;
  for (const WeightInfo& info : tensors.tensors()) {
    write(packed, std::string_view(info.name));
    write(packed, uint64_t{info.shape.size()});
    for (const int64_t size : info.shape) write(packed, static_cast<uint64_t>(size));
    write_rows(packed, tensors.read_rows(info, 0, info.rows(), scratch).value());
  }
  return packed;
}

Result<std::shared_ptr<const AdapterFiles>> unpack_adapter_files(std::string packed) {
  auto tensors = std::make_unique<PackedTensors>(std::move(packed));
  std::string config_text;
  std::string config_where;
  if (!tensors->read(config_text, config_where)) return internal_error("an adapter came incomplete from rank 0");
  return AdapterFiles::parse(config_text, config_where, std::move(tensors));
}

}  // namespace quire
