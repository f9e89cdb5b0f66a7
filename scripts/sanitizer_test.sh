#!/usr/bin/env bash
# Builds unit tests with a sanitizer and runs them.
#   scripts/sanitizer_test.sh asan|tsan         the fast set, a part of ./test
#   scripts/sanitizer_test.sh asan|tsan all     every target of that sanitizer
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
preset=${1:-}
# asan (with UBSan): what reads files and text, and whole models and the engine over them, of which layers, cache and sampling are part.
# tsan: what has threads. The fuzzers build the file readers with ASan and UBSan once more, and server_test, with its input tests, is under tsan.
case "$preset" in
  asan) targets=(base_test distributed_test checkpoint_test lora_test text_test hub_test engine_test api_test) more=(ops_test) ;;
  tsan) targets=(base_test distributed_test engine_test api_test) more=(server_test) ;;
  *) echo "usage: $0 asan|tsan [all]" >&2; exit 2 ;;
esac
if [ "${2:-}" = all ]; then targets+=("${more[@]}"); fi
scripts/setup.sh --test
cmake --preset "$preset" >/dev/null
cmake --build "build-$preset" --target "${targets[@]}"
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
for target in "${targets[@]}"; do
  filter='-*avx512*:PagedAttention.LongContexts*'
  # Under mpirun it is Open MPI's own locks and leaks that are found.
  if [ "$target" = distributed_test ]; then filter='-*Mpi*'; fi
  # Under TSan only what has threads: the engine's own, and one model over the compute pool.
  if [ "$preset-$target" = tsan-engine_test ]; then filter='Engine.*:*/GoldenModel.AgreesWith*/llama'; fi
  echo "== $preset: $target"
  "build-$preset/bin/$target" --gtest_brief=1 --gtest_filter="$filter"
done
