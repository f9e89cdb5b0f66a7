#include "layers/all_heads_norm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "distributed/communication_op.h"
#include "layers/parameter_table.h"
#include "layers/weight_loading.h"
#include "ops/copy.h"
#include "ops/divided_norm.h"
#include "ops/norm.h"

namespace quire {
namespace {

Range heads_of(AllHeadsRMSNorm::Of of, int64_t query_heads, int64_t kv_heads, ParallelRank place) {
  const HeadPartition heads = partition_heads(query_heads, kv_heads, place).value();
  return of == AllHeadsRMSNorm::Of::kQueries ? heads.query_heads : heads.kv_heads;
}

Range times(Range heads, int64_t head_dim) { return {heads.begin * head_dim, heads.end * head_dim}; }

}  // namespace

AllHeadsRMSNorm::AllHeadsRMSNorm(LayerContext& context, const std::string& prefix, Of of, int64_t query_heads,
                                 int64_t kv_heads, int64_t head_dim, double epsilon)
    : size_((of == Of::kQueries ? query_heads : kv_heads) * head_dim),
      divided_(context.tensor_parallel.size > 1),
      epsilon_(static_cast<float>(epsilon)) {
  const ParallelRank place = context.tensor_parallel;
  own_ = counted_ = times(heads_of(of, query_heads, kv_heads, place), head_dim);
  if (place.rank > 0) {
    const Range before = times(heads_of(of, query_heads, kv_heads, {place.rank - 1, place.size}), head_dim);
    counted_.begin = std::clamp(before.end, own_.begin, own_.end);
  }
  weight_ = Tensor::empty(1, own_.size(), DType::kFloat32, context.op_context.device);
  context.parameters.add(
      prefix + ".weight", {size_}, {},
      [this, &op_context = context.op_context, storage = context.storage](
          const WeightSource& source, const WeightInfo& weight, std::string_view) -> Status {
        QUIRE_ASSIGN_OR_RETURN(const std::vector<float> all, load_vector(source, weight, storage));
        ops::copy_from_host(op_context, std::vector<float>(all.begin() + own_.begin, all.begin() + own_.end), weight_);
        return {};
      });
}

void AllHeadsRMSNorm::forward(const ForwardBatch& batch, Tensor& x) const {
  OpContext& context = *batch.context;
  if (!divided_) return ops::rms_norm(context, x, weight_, epsilon_, x);
  const Workspace::Scope scope(*context.workspace);
  Tensor sums = context.workspace->tensor(x.rows(), 1);
  ops::sum_of_squares(context, x.slice_cols(counted_.begin - own_.begin, counted_.size()), sums);
  tensor_model_parallel_all_reduce(context, sums);
  ops::rms_norm_by_sums(context, x, sums, size_, weight_, epsilon_, x);
}

}  // namespace quire
