// A bump arena for the tensors of one step: after the first steps have shown how much is needed, a step allocates
// nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/api.h"
#include "tensor/tensor.h"

namespace quire {

/// Hands out memory that lives until the enclosing Scope ends. Not thread-safe: used by the thread that runs the step.
class QUIRE_API Workspace {
 public:
  explicit Workspace(Device device = {}) : device_(device) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Uninitialised, 64-byte aligned; valid until the innermost Scope that is open now ends.
  Tensor tensor(int64_t rows, int64_t cols, DType dtype = DType::kFloat32);
  void* allocate(size_t bytes);

  /// Gives back, when it ends, all that was allocated since it began.
  class Scope {
   public:
    explicit Scope(Workspace& workspace);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    size_t chunk_;
    size_t used_;
  };

  /// Bytes held, in use or not.
  size_t capacity() const;

 private:
  struct Chunk {
    Tensor memory;
    size_t size;
  };
  Device device_;
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;  ///< the chunk in use
  size_t used_ = 0;   ///< bytes of it in use
};

}  // namespace quire
