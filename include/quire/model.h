// What a model is to quire: the class to derive from, the config it is built from, and where it is registered.
#pragma once

#include "checkpoint/architecture_config.h"
#include "checkpoint/model_config.h"
#include "checkpoint/weight_source.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"
#include "layers/parameter_table.h"
#include "models/model.h"
#include "models/registry.h"
