#include "distributed/communication_op.h"

#include "distributed/parallel_state.h"

namespace quire {
namespace {

template <typename Operation>
void run(OpContext& context, Operation&& operation) {
  if (!context.failure) context.keep(operation(get_tp_group()));
}

}  // namespace

void tensor_model_parallel_all_reduce(OpContext& context, Tensor& x) {
  run(context, [&](GroupCoordinator& group) { return group.all_reduce(x); });
}

void tensor_model_parallel_all_reduce(OpContext& context, const Tensor& x, Tensor& out) {
  run(context, [&](GroupCoordinator& group) { return group.all_reduce(x, out); });
}

void tensor_model_parallel_all_gather(OpContext& context, const Tensor& x, Tensor& out, int dim,
                                      std::span<const int64_t> sizes) {
  run(context, [&](GroupCoordinator& group) { return group.all_gather(x, out, dim, sizes); });
}

void tensor_model_parallel_reduce_scatter(OpContext& context, const Tensor& x, Tensor& out, int dim,
                                          std::span<const int64_t> sizes) {
  run(context, [&](GroupCoordinator& group) { return group.reduce_scatter(x, out, dim, sizes); });
}

void tensor_model_parallel_gather(OpContext& context, const Tensor& x, Tensor& out, int destination, int dim,
                                  std::span<const int64_t> sizes) {
  run(context, [&](GroupCoordinator& group) { return group.gather(x, out, destination, dim, sizes); });
}

void tensor_model_parallel_broadcast(OpContext& context, Tensor& x, int source) {
  run(context, [&](GroupCoordinator& group) { return group.broadcast(x, source); });
}

}  // namespace quire
