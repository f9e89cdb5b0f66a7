// Whether an adapter fits a base checkpoint: its modules exist there and have the shapes that it was trained for.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "lora/adapter_files.h"

namespace quire {

/// The base checkpoint's tensors as an adapter's modules name them.
class AdapterBase {
 public:
  /// A tied head is the embedding, whatever copy of it the files hold.
  AdapterBase(const WeightSource& tensors, bool tied_head) : tensors_(tensors), tied_head_(tied_head) {}

  const WeightInfo* weight(const std::string& path) const;
  const WeightInfo* bias(const std::string& path) const { return tensors_.find(path + ".bias"); }
  const WeightInfo* embedding() const { return tensors_.find("model.embed_tokens.weight"); }
  bool tied_head() const { return tied_head_; }
  const WeightSource& tensors() const { return tensors_; }

 private:
  const WeightSource& tensors_;
  bool tied_head_;
};

/// Names and shapes. The Error lists modules that the base does not have, or names a tensor with its shape and the one
/// that the base asks for.
Status check_adapter_fit(const AdapterFiles& files, const AdapterBase& base);

/// Reads the copies of base weights that the adapter holds: one that differs from the base by more than rounding means
/// that the adapter is for another base.
Status check_base_copies(const AdapterFiles& files, const AdapterBase& base);

}  // namespace quire
