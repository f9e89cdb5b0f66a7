#!/usr/bin/env python3
"""Makes checkpoint/, sequential/ and adapter/: small random StableLMs and a LoRA adapter, each with golden.json, what
transformers and peft compute with them in float32.

Needs torch, transformers and peft. Usage: make_checkpoint.py TOKENIZER_FOLDER (its tokenizer is copied)
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import StableLmConfig, StableLmForCausalLM

HERE = Path(__file__).resolve().parent
GREEDY_STEPS = 12
TARGETS = ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]


def make_model(parallel: bool, seed: int) -> StableLmForCausalLM:
    config = StableLmConfig(
        vocab_size=512,
        hidden_size=96,
        intermediate_size=112,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=3,
        max_position_embeddings=512,
        use_qkv_bias=parallel,
        use_parallel_residual=parallel,
        bos_token_id=1,
        eos_token_id=2,
        dtype="float32",
    )
    generator = torch.Generator().manual_seed(seed)
    model = StableLmForCausalLM(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm.weight" in name:
                parameter.copy_(1 + 0.2 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.2 * noise)
            else:
                parameter.copy_(noise / parameter.shape[1] ** 0.5)
    return model


def prompts():
    return [[1] + [5 + (i * step) % 490 for i in range(1, length)] for length, step in ((2, 11), (9, 37), (70, 53))]


def golden(model) -> dict:
    """What the model scores and continues each prompt with."""
    answers = []
    with torch.no_grad():
        for token_ids in prompts():
            logits = model(torch.tensor([token_ids]), use_cache=False).logits[0]
            logprobs = torch.log_softmax(logits, -1)
            tokens, greedy, margins = list(token_ids), [], []
            for _ in range(GREEDY_STEPS):
                top = torch.topk(model(torch.tensor([tokens]), use_cache=False).logits[0, -1], 2)
                greedy.append(int(top.indices[0]))
                margins.append(round(float(top.values[0] - top.values[1]), 6))
                tokens.append(greedy[-1])
            answers.append(
                dict(
                    token_ids=token_ids,
                    last_logits=[round(float(x), 6) for x in logits[-1]],
                    prompt_logprobs=[round(float(logprobs[i - 1, t]), 6) for i, t in enumerate(token_ids) if i > 0],
                    greedy_token_ids=greedy,
                    greedy_margins=margins,
                )
            )
    return dict(prompts=answers)


def write_golden(folder: Path, model) -> None:
    (folder / "golden.json").write_text(json.dumps(golden(model), separators=(",", ":")))


def main() -> None:
    tokenizer = Path(sys.argv[1])
    for name, parallel, seed in (("checkpoint", True, 41), ("sequential", False, 42)):
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model = make_model(parallel, seed)
        model.save_pretrained(folder)
        write_golden(folder, StableLmForCausalLM.from_pretrained(folder, dtype=torch.float32).eval())
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / file, HERE / "checkpoint" / file)

    shutil.rmtree(HERE / "adapter", ignore_errors=True)
    adapted = get_peft_model(make_model(True, 41), LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=TARGETS))
    generator = torch.Generator().manual_seed(43)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise * 0.6 / parameter.shape[1] ** 0.5)
    adapted.peft_config["default"].base_model_name_or_path = "checkpoint"
    adapted.save_pretrained(HERE / "adapter")
    (HERE / "adapter" / "README.md").unlink(missing_ok=True)
    write_golden(HERE / "adapter", PeftModel.from_pretrained(make_model(True, 41), HERE / "adapter").eval())


if __name__ == "__main__":
    main()
