// How config.json says which layers slide.
#pragma once

#include <cstdint>

namespace quire {

enum class WindowRule : uint8_t {
  kNone,       ///< no sliding attention, whatever sliding_window says
  kAllLayers,  ///< every layer when sliding_window is given
  kQwen,       ///< only with use_sliding_window; then layer_types, else layers from max_window_layers on
  kRefused,    ///< a config that asks for sliding attention is refused
};

}  // namespace quire
