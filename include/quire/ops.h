// The operations on tensors that a model calls between its layers.
#pragma once

#include "ops/activation.h"
#include "ops/copy.h"
#include "ops/norm.h"
#include "ops/rotary.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"
#include "tensor/workspace.h"
