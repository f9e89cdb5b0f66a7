// The tensors of a WeightSource in file order, each with the place where its kind of file stores it, found by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "checkpoint/weight_source.h"

namespace quire {

template <typename Place>
class WeightIndex {
 public:
  /// Takes the tensor in and returns nullptr, or, where its name is taken, the place of the tensor that has it.
  const Place* add(WeightInfo weight, Place place) {
    const auto [found, added] = by_name_.emplace(weight.name, weights_.size());
    if (!added) return &places_[found->second];
    weights_.push_back(std::move(weight));
    places_.push_back(std::move(place));
    return nullptr;
  }

  std::span<const WeightInfo> weights() const { return weights_; }

  /// The tensor of that name, or nullptr.
  const WeightInfo* find(std::string_view name) const {
    const auto found = by_name_.find(std::string(name));
    return found == by_name_.end() ? nullptr : &weights_[found->second];
  }

  /// The place of a tensor that is in the index.
  const Place& place_of(const WeightInfo& weight) const {
    const auto found = by_name_.find(weight.name);
    QUIRE_CHECK(found != by_name_.end());
    return places_[found->second];
  }

 private:
  std::vector<WeightInfo> weights_;
  std::vector<Place> places_;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace quire
