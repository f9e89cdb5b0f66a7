#include "cli/hub_flags.h"

namespace quire::cli {

void add_hub_flags(FlagSet& flags, HubOptions& options) {
  flags.group("Hub")
      .value("--revision", "NAME", "Branch, tag or commit of a model from the hub (default: main)",
             into(&options.revision))
      .value("--download-dir", "DIR",
             "Folder for downloads, in the layout of Hugging Face's cache (default: HF_HUB_CACHE, else HF_HOME/hub)",
             into(&options.download_dir))
      .value(
          "--hf-token", "TOKEN",
          "Token for gated and private repositories; other users of the machine see it in the list of processes, not "
          "HF_TOKEN (default: HF_TOKEN, else the one that 'hf auth login' saved)",
          into(&options.token));
}

}  // namespace quire::cli
