// The collectives that layers and models call in a forward pass, on the calling thread's tensor parallel group (see
// parallel_state.h). Contracts are those of GroupCoordinator's operations, but for errors: a forward pass is plain
// code, so the first error is kept in the context (OpContext::failure) and everything after it does nothing.
#pragma once

#include <span>

#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire {

/// x = sum over the ranks, in place: for a partial result that nobody needs afterwards.
void tensor_model_parallel_all_reduce(OpContext& context, Tensor& x);
/// out = sum over the ranks; x stays.
void tensor_model_parallel_all_reduce(OpContext& context, const Tensor& x, Tensor& out);
void tensor_model_parallel_all_gather(OpContext& context, const Tensor& x, Tensor& out, int dim = -1,
                                      std::span<const int64_t> sizes = {});
void tensor_model_parallel_reduce_scatter(OpContext& context, const Tensor& x, Tensor& out, int dim = -1,
                                          std::span<const int64_t> sizes = {});
void tensor_model_parallel_gather(OpContext& context, const Tensor& x, Tensor& out, int destination = 0, int dim = -1,
                                  std::span<const int64_t> sizes = {});
void tensor_model_parallel_broadcast(OpContext& context, Tensor& x, int source = 0);

}  // namespace quire
