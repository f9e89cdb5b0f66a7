// Where models come from that lie in a hub.
#pragma once

#include <string>

namespace quire {

/// The environment's (HF_HOME, HF_TOKEN, ...) where a text is empty.
struct HubOptions {
  std::string revision;      ///< --revision: a branch, tag or commit; empty: main
  std::string download_dir;  ///< --download-dir: the folder of the cache
  std::string token;         ///< --hf-token
};

}  // namespace quire
