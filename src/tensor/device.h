// Where a tensor's memory lives. Only ops/<device> may dereference it.
#pragma once

#include <cstdint>

namespace quire {

enum class DeviceType : uint8_t { kCpu };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

}  // namespace quire
