#include "tensor/workspace.h"

#include <algorithm>

namespace quire {

namespace {
constexpr size_t kWorkspaceAlignment = 64;
constexpr size_t kFirstChunk = size_t{1} << 20;
}  // namespace

Tensor Workspace::tensor(int64_t rows, int64_t cols, DType dtype) {
  void* memory = allocate(static_cast<size_t>(rows) * static_cast<size_t>(cols) * dtype_size(dtype));
  return Tensor::view(memory, rows, cols, dtype, device_);
}

void* Workspace::allocate(size_t bytes) {
  bytes = (std::max<size_t>(bytes, 1) + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].size) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const size_t size = std::max({bytes, capacity(), kFirstChunk});
    chunks_.push_back({Tensor::empty(1, static_cast<int64_t>(size), DType::kUInt8, device_), size});
    used_ = 0;
  }
  void* memory = static_cast<char*>(chunks_[chunk_].memory.raw()) + used_;
  used_ += bytes;
  return memory;
}

size_t Workspace::capacity() const {
  size_t total = 0;
  for (const Chunk& chunk : chunks_) total += chunk.size;
  return total;
}

Workspace::Scope::Scope(Workspace& workspace)
    : workspace_(workspace), chunk_(workspace.chunk_), used_(workspace.used_) {}

Workspace::Scope::~Scope() {
  workspace_.chunk_ = chunk_;
  workspace_.used_ = used_;
}

}  // namespace quire
