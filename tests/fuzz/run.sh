#!/usr/bin/env bash
# Runs every fuzzer of a build for some seconds on a copy of its corpus; fails if one finds anything.
#   tests/fuzz/run.sh BUILD SECONDS [NAME...]
# What it finds is kept in BUILD/fuzz-findings/NAME; make it a unit test, and put it in corpus/NAME.
set -uo pipefail
if [ $# -lt 2 ]; then
  echo "usage: $0 BUILD SECONDS [NAME...]" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
build=$1 seconds=$2
shift 2
names=("$@")
if [ ${#names[@]} -eq 0 ]; then names=(safetensors gguf model_config adapter); fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UBSAN_OPTIONS=print_stacktrace=1

failed=0
for name in "${names[@]}"; do
  findings=$build/fuzz-findings/$name log=$work/$name.log
  mkdir -p "$findings" "$work/$name"
  cp "$here/corpus/$name"/* "$work/$name"
  flags=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1
         -artifact_prefix="$findings/")
  if [ -f "$here/$name.dict" ]; then flags+=(-dict="$here/$name.dict"); fi
  "$build/bin/${name}_fuzzer" "${flags[@]}" "$work/$name" >"$log" 2>&1
  status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
  kept=$(find "$work/$name" -type f | wc -l)
  if [ $status -eq 0 ]; then
    echo "$name: no finding in $seconds s, ${runs:-0} runs, ${coverage:-0} edges, $kept inputs kept"
  else
    failed=1
    echo "$name: FAILED with status $status after ${runs:-0} runs; inputs are in $findings"
    tail -60 "$log"
  fi
done
exit $failed
