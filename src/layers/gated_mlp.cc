#include "layers/gated_mlp.h"

#include <algorithm>

#include "ops/activation.h"

namespace quire {

namespace {
/// Rows that go through the block at a time: bounds the memory of the wide intermediate, and keeps it in cache.
constexpr int64_t kRowBlock = 256;
}  // namespace

GatedMlp::GatedMlp(LayerContext& context, const std::string& prefix, int64_t hidden_size, int64_t intermediate_size,
                   bool bias, Activation activation)
    : GatedMlp(context, prefix, hidden_size, intermediate_size, bias, activation,
               partition_multiple(intermediate_size, context.tensor_parallel.size, ops::PackedMatrix::kPanelWidth)) {}

GatedMlp::GatedMlp(LayerContext& context, const std::string& prefix, int64_t hidden_size, int64_t intermediate_size,
                   bool bias, Activation activation, int64_t multiple)
    : gate_up_proj_(context, prefix + ".gate_up_proj", hidden_size,
                    {{"gate", intermediate_size}, {"up", intermediate_size}}, bias, multiple),
      down_proj_(context, prefix + ".down_proj", intermediate_size,
                 partition(intermediate_size, context.tensor_parallel, multiple), hidden_size, bias),
      activation_(activation) {}

void GatedMlp::forward(ForwardBatch& batch, const Tensor& x, Tensor& out) const {
  Workspace& workspace = *batch.context->workspace;
  const Workspace::Scope scope(workspace);
  const int64_t block = std::min(x.rows(), kRowBlock);
  const Tensor gate_up_rows = workspace.tensor(block, gate_up_proj_.out_features());
  const Tensor hidden_rows = workspace.tensor(block, down_proj_.in_features());
  for (int64_t first = 0; first < x.rows(); first += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, x.rows() - first);
    Tensor gate_up = gate_up_rows.slice_rows(0, rows);
    Tensor hidden = hidden_rows.slice_rows(0, rows);
    Tensor result = out.slice_rows(first, rows);
    gate_up_proj_.forward(batch, x.slice_rows(first, rows), gate_up, first);
    ops::gated_activation(*batch.context, activation_, gate_up, hidden);
    down_proj_.forward(batch, hidden, result, first);
  }
}

}  // namespace quire
