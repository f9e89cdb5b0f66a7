// Answers of a tiny checkpoint against the decoder in float64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/parity.h"
#include "engine/reference_decoder.h"
#include "tensor/dtype.h"

namespace quire::testing {

/// Float32 weights and keys on two threads, whatever the machine has.
EngineConfig two_threads_in_float32();

/// For write_folder(): every tensor as it is.
DType all_float32(const std::string& name);

/// `length` tokens of a vocabulary of `vocab`, in no order.
std::vector<int32_t> prompt_for(int64_t vocab, int64_t length);

/// Checks the prompt's own scores, all scores after it, and each greedy token's score where it was chosen, to 1e-4.
void expect_reference(const ParityModel::Answer& answer, const DecoderShape& shape, const TensorMap& tensors,
                      const std::vector<int32_t>& prompt);

}  // namespace quire::testing
