// A GGUF file's tensors as a WeightSource under Hugging Face's names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/weight_source.h"

namespace quire {

/// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; names without a counterpart stay as they are.
std::string gguf_to_hugging_face_name(std::string_view name);

/// Takes the file over. The rows of q and k are given in Hugging Face's order for architecture llama, whose converters
/// interleave the halves of each head; rope_freqs.weight is left out, since gguf_model_config() has used it.
Result<std::unique_ptr<WeightSource>> make_gguf_source(GgufFile file, const ModelConfig& config);

}  // namespace quire
