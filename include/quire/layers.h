// The layers that models are composed of. They load their own weights, hold this rank's part of them, and are changed
// by LoRA adapters.
#pragma once

#include "layers/all_heads_norm.h"
#include "layers/attention.h"
#include "layers/forward_batch.h"
#include "layers/gated_mlp.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/make_layers.h"
#include "layers/norm.h"
#include "layers/rotary_embedding.h"
#include "layers/vocab_parallel_embedding.h"
#include "layers/weight_loading.h"
