// The CPU's implementation of the ops, for any table of kernels that this CPU can run. Arguments were checked by the
// op.
#pragma once

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/cpu/kernel_table.h"
#include "ops/logits.h"
#include "ops/norm.h"
#include "ops/rotary.h"

namespace quire::ops::cpu {

void write_kv(const KernelTable& table, OpContext& context, const Tensor& k, const Tensor& v, const Tensor& slots,
              const PagedKvLayer& cache);
void paged_attention(const KernelTable& table, OpContext& context, const AttentionParams& params, const Tensor& q,
                     const PagedKvLayer& cache, std::span<const AttentionSequence> sequences, Tensor& out);

void rms_norm(const KernelTable& table, OpContext& context, const Tensor& x, const Tensor& weight, float epsilon,
              Tensor& out);
void add_rms_norm(const KernelTable& table, OpContext& context, const Tensor& x, Tensor& residual, const Tensor& weight,
                  float epsilon, Tensor& out);
void sum_of_squares(OpContext& context, const Tensor& x, Tensor& sums);
void rms_norm_by_sums(OpContext& context, const Tensor& x, const Tensor& sums, int64_t size, const Tensor& weight,
                      float epsilon, Tensor& out);
void rms_norm_heads(const KernelTable& table, OpContext& context, Tensor& x, int64_t heads, int64_t head_dim,
                    const Tensor& weight, float epsilon);

void layer_norm(const KernelTable& table, OpContext& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                float epsilon, Tensor& out);

void rotary_embedding(const KernelTable& table, OpContext& context, const Tensor& positions, const Tensor& cos_sin,
                      int64_t heads, int64_t head_dim, Tensor& x);

void gated_activation(const KernelTable& table, OpContext& context, Activation activation, const Tensor& gate_up,
                      Tensor& out);
void activation(const KernelTable& table, OpContext& context, Activation activation, const Tensor& x, Tensor& out);
void add(const KernelTable& table, OpContext& context, const Tensor& y, Tensor& x);
void scale(const KernelTable& table, OpContext& context, float factor, Tensor& x);

void row_statistics(const KernelTable& table, OpContext& context, const Tensor& logits, std::span<RowStatistics> out);
std::vector<TokenValue> top_logits(const KernelTable& table, const Tensor& logits, int64_t row, int64_t count);
int64_t count_larger(const KernelTable& table, const Tensor& logits, int64_t row, float value);
void gather_logits(const Tensor& logits, int64_t row, std::span<const int32_t> tokens, std::span<float> out);

void copy_from_host(const void* values, Tensor& out);
void copy_to_host(const Tensor& x, std::span<float> out);
void select_rows(const Tensor& x, std::span<const int32_t> rows, Tensor& out);

}  // namespace quire::ops::cpu
