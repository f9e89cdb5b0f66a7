#!/usr/bin/env bash
# Builds the fast set of unit tests with a sanitizer and runs it.   scripts/sanitizer_test.sh asan|tsan
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
preset=$1
# What handles input, memory and threads. Kernels and models run there through the engine's and the models' tests.
targets=(base_test tensor_test ops_test checkpoint_test kv_cache_test layers_test text_test sampling_test engine_test api_test)
if [ "$preset" = tsan ]; then targets=(base_test engine_test api_test); fi
cmake --preset "$preset" >/dev/null
cmake --build "build-$preset" --target "${targets[@]}"
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
for target in "${targets[@]}"; do
  filter='*'
  # Under TSan only what has threads: the engine's own, and one model over the compute pool.
  if [ "$preset-$target" = tsan-engine_test ]; then filter='Engine.*:*/GoldenModel.AgreesWith*/llama'; fi
  echo "== $preset: $target"
  "build-$preset/bin/$target" --gtest_brief=1 --gtest_filter="$filter"
done
