#!/usr/bin/env bash
# Configures (once, and after each new setup) and builds into build/; quiet when there is nothing to do.
#   scripts/build.sh [TARGET ...]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
if [ ! -e build/build.ninja ] || [ -n "$(find build -maxdepth 1 -name '.setup-*' -newer build/build.ninja)" ]; then
  cmake --preset release >/dev/null
  touch build/build.ninja  # cmake leaves it as it is where nothing has changed
fi
# A dry run could not tell whether there is work, since it always lists the check of the globbed folders. Standard output
# stays free for the command that follows.
cmake --build build --target "${@:-all}" |
  { grep --line-buffered -v -e 'ninja: no work to do' -e 'Re-checking globbed directories' || true; } >&2
