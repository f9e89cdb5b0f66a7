"""Safetensors files as dictionaries, for tests that change them."""

import json
import struct
from pathlib import Path


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
