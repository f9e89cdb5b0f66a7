"""Adapters for tests: copies of the golden ones, changed."""

import json
import shutil
from pathlib import Path

from conftest import MODELS
from safetensors_files import read_tensors, write_tensors

GOLDEN = MODELS / "llama"
NAMES = ["qv-r4", "all-r8", "rslora-r16", "rank-pattern", "dora-r4", "trained-head", "embed-and-head"]


def copy_adapter(target: Path, name: str = "qv-r4", rename=None, config: dict | None = None, edit=None) -> Path:
    """A copy of a golden adapter: `rename` maps tensor names, `edit` changes name -> (dtype, shape, bytes)."""
    shutil.copytree(GOLDEN / name, target)
    path = target / "adapter_model.safetensors"
    tensors = read_tensors(path)
    if rename:
        tensors = {rename(key): value for key, value in tensors.items()}
    if edit:
        edit(tensors)
    write_tensors(path, tensors)
    if config:
        file = target / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | config))
    return target
