"""Writes blocks.bin: for each GGUF type a few blocks of bytes and the float32 values that gguf-py gives for them.

Needs numpy and gguf. Per type: number, block count (uint32 each), the blocks, the values.
"""
import struct
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

BLOCKS = 3
# Offsets of the halves that must stay finite, per type.
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.F16: [0], T.BF16: [], T.F32: []}

random = np.random.default_rng(7)
with open(Path(__file__).parent / "blocks.bin", "wb") as out:
    for kind, halves in HALVES.items():
        block_size, block_bytes = GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (BLOCKS, block_bytes), dtype=np.uint8)
        for offset in halves:
            values = random.normal(0, 0.05, BLOCKS).astype(np.float16)
            blocks[:, offset:offset + 2] = values.view(np.uint8).reshape(BLOCKS, 2)
        if kind in (T.F32, T.BF16):
            values = random.normal(0, 1, BLOCKS).astype(np.float32).view(np.uint8).reshape(BLOCKS, 4)
            blocks = values if kind == T.F32 else np.ascontiguousarray(values[:, 2:])
        expected = dequantize(blocks, kind).astype(np.float32).reshape(-1)
        assert expected.size == BLOCKS * block_size
        out.write(struct.pack("<II", int(kind), BLOCKS) + blocks.tobytes() + expected.tobytes())
