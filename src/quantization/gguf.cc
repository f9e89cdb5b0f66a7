// Weights multiplied as a GGUF file stores them. The pieces of a matrix (q, k, v; gate, up) may have a type each.
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/activation.h"
#include "ops/copy.h"
#include "ops/listed_tokens.h"
#include "quantization/gguf_channel.h"
#include "quantization/linear_method.h"
#include "quantization/weight_tally.h"

namespace quire {
namespace {

/// Output channels that came together, compressed or kept in a float type.
struct Piece {
  int64_t first_row = 0;
  int64_t rows = 0;
  const GgmlTypeInfo* type = nullptr;  ///< nullptr: `floats`
  int64_t first_column = 0;            ///< of the file's rows
  ops::QuantizedMatrix compressed;
  ops::PackedMatrix floats;

  int64_t end() const { return first_row + rows; }
};

class GgufWeight final : public LinearWeight {
 public:
  GgufWeight(HugePageArena& arena, int64_t out_features, int64_t in_features, DType storage, WeightTally& tally)
      : LinearWeight(out_features, in_features), arena_(arena), storage_(storage), tally_(tally) {}

  bool begin_rows(OpContext& context, const GgmlTypeInfo* stored, int64_t first_column, int64_t first_row,
                  int64_t rows) override {
    if (rows == 0) return false;
    auto piece = std::make_unique<Piece>();
    piece->first_row = first_row;
    piece->rows = rows;
    piece->first_column = first_column;
    const auto format = stored == nullptr ? std::nullopt : format_of(*stored);
    const auto whole = [&](int64_t columns) { return columns % stored->block_size == 0; };
    if (format && whole(first_column) && whole(in_features()) && in_features() <= ops::QuantizedMatrix::kMostFeatures) {
      piece->type = stored;
      piece->compressed = ops::make_quantized_matrix(context, arena_, rows, in_features(), *format);
      tally_.add(stored->name, ops::QuantizedMatrix::bytes(rows, in_features(), *format));
    } else {
      piece->floats = ops::make_packed_matrix(arena_, rows, in_features(), storage_);
      ops::zero_padding(context, piece->floats);
      std::string form(dtype_name(storage_));
      if (format) form += std::string(" (") + stored->name + " blocks cut by ranks)";
      tally_.add(form, ops::PackedMatrix::bytes(rows, in_features(), storage_));
    }
    const bool as_stored = piece->type != nullptr;
    pieces_.push_back(std::move(piece));
    std::ranges::sort(pieces_, {}, [](const std::unique_ptr<Piece>& p) { return p->first_row; });
    parts_.clear();
    int64_t compressed_rows = 0;
    for (const auto& p : pieces_) {
      if (p->type == nullptr) continue;
      parts_.push_back({&p->compressed, p->first_row});
      compressed_rows += p->rows;
    }
    all_compressed_ = compressed_rows == out_features();
    return as_stored;
  }

  void load_stored_row(const std::byte* stored, int64_t row) override {
    Piece& piece = piece_of(row);
    ops::pack_channel(read_channel(*piece.type, stored, piece.first_column, in_features()), row - piece.first_row,
                      piece.compressed);
  }

  void load_rows(OpContext& context, const MatrixView& source, int64_t first_row) override {
    Piece& piece = piece_of(first_row);
    // Units of rows are counted from the weight's first row: panels of other pieces may be shared by two of them.
    std::unique_lock lock(mutex_, std::defer_lock);
    if (piece.first_row % row_unit() != 0) lock.lock();
    ops::pack_rows(context, source, first_row - piece.first_row, 0, piece.floats);
  }
  int64_t row_unit() const override { return ops::PackedMatrix::kPanelWidth; }

  void apply(OpContext& context, const Tensor& x, const Tensor& bias, Tensor& out) const override {
    apply(context, x, bias, out, {});
  }

  void apply(OpContext& context, const Tensor& x, const Tensor& bias, Tensor& out,
             std::span<const ops::LinearPart> additions) const override {
    if (all_compressed_) {
      return ops::quantized_linear(context, x, parts_, bias, out, additions);
    }
    if (!parts_.empty()) ops::quantized_linear(context, x, parts_, bias, out, {});
    int64_t done = 0;
    const auto bias_of = [&](int64_t first, int64_t count) {
      return bias.defined() ? bias.slice_cols(first, count) : Tensor();
    };
    for (const auto& piece : pieces_) {
      fill_gap(context, done, piece->first_row, bias, out);
      done = piece->end();
      if (piece->type != nullptr) continue;
      Tensor columns = out.slice_cols(piece->first_row, piece->rows);
      ops::linear(context, x, piece->floats, bias_of(piece->first_row, piece->rows), columns);
    }
    fill_gap(context, done, out_features(), bias, out);
    if (!additions.empty()) ops::grouped_linear(context, additions);
  }

  void gather(OpContext& context, const Tensor& ids, Tensor& out) const override {
    ops::gather_channels(context, parts_, ids, out);
    for (const auto& piece : pieces_) {
      if (piece->type != nullptr) continue;
      const Workspace::Scope scope(*context.workspace);
      Tensor local = context.workspace->tensor(1, ids.cols(), DType::kInt32);
      ops::local_ids(context, ids, piece->first_row, piece->rows, local);
      Tensor rows = context.workspace->tensor(ids.cols(), in_features());
      ops::gather_rows(context, piece->floats, local, rows);
      ops::add(context, rows, out);
    }
  }

 private:
  Piece& piece_of(int64_t row) const {
    const auto after = std::ranges::upper_bound(pieces_, row, {}, [](const auto& piece) { return piece->first_row; });
    return **(after - 1);
  }

  /// Channels that were never loaded count as zero.
  static void fill_gap(OpContext& context, int64_t begin, int64_t end, const Tensor& bias, Tensor& out) {
    if (begin >= end) return;
    const Workspace::Scope scope(*context.workspace);
    Tensor value = bias.defined() ? bias.slice_cols(begin, end - begin) : context.workspace->tensor(1, end - begin);
    if (!bias.defined()) ops::copy_from_host(context, std::vector<float>(static_cast<size_t>(end - begin)), value);
    Tensor columns = out.slice_cols(begin, end - begin);
    ops::select_rows(context, value, std::vector<int32_t>(static_cast<size_t>(out.rows())), columns);
  }

  HugePageArena& arena_;
  DType storage_;
  WeightTally& tally_;
  std::vector<std::unique_ptr<Piece>> pieces_;  ///< by first_row
  std::vector<ops::QuantizedPart> parts_;       ///< the compressed ones
  bool all_compressed_ = false;                 ///< and they have every output channel
  std::mutex mutex_;
};

class GgufLinearMethod final : public LinearMethod {
 public:
  explicit GgufLinearMethod(DType storage) : storage_(storage) {}
  std::string_view name() const override { return "gguf"; }
  std::string summary() const override { return tally_.text(); }
  std::unique_ptr<LinearWeight> create_weight(OpContext&, HugePageArena& arena, int64_t out_features,
                                              int64_t in_features) const override {
    return std::make_unique<GgufWeight>(arena, out_features, in_features, storage_, tally_);
  }

 private:
  DType storage_;
  mutable WeightTally tally_;
};

}  // namespace

std::unique_ptr<LinearMethod> make_gguf_linear_method(DType storage) {
  return std::make_unique<GgufLinearMethod>(storage);
}

bool multiplies_as_stored(const GgmlTypeInfo& type) { return format_of(type).has_value(); }

}  // namespace quire
