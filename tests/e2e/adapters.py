"""Adapters for tests: copies of the golden ones, changed."""

import json
import shutil
import struct
from pathlib import Path

from conftest import MODELS

GOLDEN = MODELS / "llama"
NAMES = ["qv-r4", "all-r8", "rslora-r16", "rank-pattern", "dora-r4", "trained-head", "embed-and-head"]


def read_tensors(path: Path) -> dict:
    """name -> (dtype, shape, bytes) of a safetensors file."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], content[8 + size + begin : 8 + size + end])
    return tensors


def write_tensors(path: Path, tensors: dict) -> None:
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


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
