// Lists of plain values in the step's memory.
#pragma once

#include <cstdint>
#include <new>
#include <span>

#include "tensor/workspace.h"

namespace quire::ops::cpu {

/// `count` values as T{} makes them, valid until the workspace's scope ends; none is destroyed.
template <typename T>
std::span<T> workspace_span(Workspace& workspace, int64_t count) {
  T* const memory = static_cast<T*>(workspace.allocate(static_cast<size_t>(count) * sizeof(T)));
  for (int64_t i = 0; i < count; ++i) new (memory + i) T{};
  return {memory, static_cast<size_t>(count)};
}

}  // namespace quire::ops::cpu
