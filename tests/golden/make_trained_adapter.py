#!/usr/bin/env python3
"""Trains a small adapter, whose answers have the margins that a real fine-tune's have.

make_trained_adapter.py     (needs torch, transformers, gguf and peft; writes models/llama/trained-strides beside this script)

The base is the golden llama with its matrices rounded to Q4_1. The adapter learns to go on counting: a sequence begins
with one of four marks, which says by how much each of the 40 digits that follow is more than the one before it. Its
golden.json has, beside what make_adapter_kinds.py writes for every adapter, `strides`: sequences that it was not trained
on, of which the first two tokens are the prompt and the rest is the answer.
"""
import json
import pathlib
import random
import shutil

import gguf
import peft
import torch

from make_adapter_kinds import MODELS, answers, base, prompt_tokens

MODEL, NAME = "llama", "trained-strides"
MARKS, DIGITS = {200: 1, 201: 3, 202: 7, 203: 11}, range(100, 140)
LENGTH, STEPS, BATCH, RATE = 14, 1500, 32, 1e-2


def rounded(model):
    """All matrices as Q4_1 stores them."""
    kind = gguf.GGMLQuantizationType.Q4_1
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                stored = gguf.quants.quantize(parameter.numpy(), kind)
                parameter.copy_(torch.from_numpy(gguf.quants.dequantize(stored, kind)))
    return model


def sequence(mark, first):
    return [mark] + [DIGITS[(first + MARKS[mark] * i) % len(DIGITS)] for i in range(LENGTH)]


def main():
    rng = random.Random(4)
    every = [sequence(mark, first) for mark in MARKS for first in range(len(DIGITS))]
    rng.shuffle(every)
    held_out, known = every[:24], every[24:]
    torch.manual_seed(4)
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules="all-linear")
    model = peft.get_peft_model(rounded(base(MODEL)), config)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
    for step in range(STEPS):
        ids = torch.tensor(rng.sample(known, BATCH))
        logits = model(input_ids=ids, use_cache=False).logits[:, 1:-1]
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 2:])
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    folder = MODELS / MODEL / NAME
    shutil.rmtree(folder, ignore_errors=True)
    model.peft_config["default"].base_model_name_or_path = MODEL
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    with torch.no_grad():
        best = model(input_ids=torch.tensor(held_out), use_cache=False).logits[:, 1:-1].argmax(-1)
        print("of the tokens of new sequences right:", (best == torch.tensor(held_out)[:, 2:]).float().mean().item())
        loaded = answers(peft.PeftModel.from_pretrained(base(MODEL), folder).eval(), prompt_tokens(MODEL))
    golden = dict(prompts=loaded, strides=held_out)
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")))


if __name__ == "__main__":
    main()
