#!/usr/bin/env bash
# Configures (once) and builds into build/; quiet when there is nothing to do.   scripts/build.sh [TARGET ...]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
[ -e build/build.ninja ] || cmake --preset release >/dev/null
# A dry run could not tell whether there is work, since it always lists the check of the globbed folders. Standard output
# stays free for the command that follows.
cmake --build build --target "${@:-all}" |
  { grep --line-buffered -v -e 'ninja: no work to do' -e 'Re-checking globbed directories' || true; } >&2
