#!/usr/bin/env bash
# Configures (once) and builds into build/; quiet when there is nothing to do.   scripts/build.sh [TARGET ...]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
[ -e build/build.ninja ] || cmake --preset release >/dev/null
if ! cmake --build build --target "${@:-all}" -- -n 2>/dev/null | grep -q 'no work to do'; then
  cmake --build build --target "${@:-all}"
fi
