#include "distributed/communication_op.h"

#include "distributed/parallel_state.h"

namespace quire {

Status tensor_model_parallel_all_reduce(Tensor& x) { return get_tp_group().all_reduce(x); }

Status tensor_model_parallel_all_reduce(const Tensor& x, Tensor& out) { return get_tp_group().all_reduce(x, out); }

Status tensor_model_parallel_all_gather(const Tensor& x, Tensor& out, int dim, std::span<const int64_t> sizes) {
  return get_tp_group().all_gather(x, out, dim, sizes);
}

Status tensor_model_parallel_reduce_scatter(const Tensor& x, Tensor& out, int dim, std::span<const int64_t> sizes) {
  return get_tp_group().reduce_scatter(x, out, dim, sizes);
}

Status tensor_model_parallel_gather(const Tensor& x, Tensor& out, int destination, int dim,
                                    std::span<const int64_t> sizes) {
  return get_tp_group().gather(x, out, destination, dim, sizes);
}

Status tensor_model_parallel_broadcast(Tensor& x, int source) { return get_tp_group().broadcast(x, source); }

}  // namespace quire
