// The collectives that layers call, on the calling thread's tensor parallel group (see parallel_state.h); with a group
// of one they cost nothing. Contracts are those of GroupCoordinator's operations.
#pragma once

#include <span>

#include "base/result.h"
#include "tensor/tensor.h"

namespace quire {

/// x = sum over the ranks, in place: for a partial result that nobody needs afterwards.
Status tensor_model_parallel_all_reduce(Tensor& x);
/// out = sum over the ranks; x stays.
Status tensor_model_parallel_all_reduce(const Tensor& x, Tensor& out);
Status tensor_model_parallel_all_gather(const Tensor& x, Tensor& out, int dim = -1,
                                        std::span<const int64_t> sizes = {});
Status tensor_model_parallel_reduce_scatter(const Tensor& x, Tensor& out, int dim = -1,
                                            std::span<const int64_t> sizes = {});
Status tensor_model_parallel_gather(const Tensor& x, Tensor& out, int destination = 0, int dim = -1,
                                    std::span<const int64_t> sizes = {});
Status tensor_model_parallel_broadcast(Tensor& x, int source = 0);

}  // namespace quire
