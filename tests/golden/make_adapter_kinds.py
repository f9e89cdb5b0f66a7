#!/usr/bin/env python3
"""Writes adapters of rarer kinds beside the golden models, and what PEFT computes with them.

make_adapter_kinds.py [NAME ...]     (needs torch, transformers and peft; writes into models/ beside this script)

Each adapter is a folder MODEL/NAME as PEFT saves it, with a golden.json of its own in the format of the model's
golden.json: the first three prompts of the model, under that adapter. The numbers are those of the saved folder loaded
onto the base model in float32, not those of the model that was saved: only the folder is what a reader gets.
"""
import json
import pathlib
import shutil
import sys

import peft
import torch
from transformers import AutoModelForCausalLM, Phi3Config, Phi3ForCausalLM

MODELS = pathlib.Path(__file__).resolve().parent / "models"
GREEDY_STEPS = 16
TOKENS = [1, 262, 300, 411]  # and some of the prompts' own tokens
TIED, UNTIED = "llama-tied-bias", "llama"


def prompt_tokens(model):
    prompts = json.loads((MODELS / model / "golden.json").read_text())["prompts"]
    return [prompt["token_ids"] for prompt in prompts[:3]]


def tokens_of(model, first):
    """Tokens to train: some that the prompts have, and some that they may reach."""
    longest = prompt_tokens(model)[-1]
    return sorted(set(TOKENS + longest[first : first + 12]))


ADAPTERS = {
    f"{TIED}/tied-embedding-r4": dict(r=4, lora_alpha=8, target_modules=["embed_tokens", "q_proj"]),
    f"{TIED}/tied-head-r4": dict(r=4, lora_alpha=8, target_modules=["lm_head", "v_proj"]),
    f"{TIED}/tied-embedding-and-head-r4": dict(r=4, lora_alpha=8, target_modules=["embed_tokens", "lm_head"]),
    f"{TIED}/tied-trained-embedding": dict(r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens"]),
    f"{TIED}/tied-trained-head": dict(r=2, target_modules=["q_proj"], modules_to_save=["lm_head"]),
    f"{TIED}/tied-tokens": dict(r=2, target_modules=["q_proj"], trainable_token_indices=tokens_of(TIED, 3)),
    f"{TIED}/tied-tokens-of-head": dict(
        r=2, target_modules=["q_proj"], trainable_token_indices={"lm_head": tokens_of(TIED, 3)}
    ),
    f"{TIED}/tied-tokens-of-both": dict(
        r=2,
        target_modules=["q_proj"],
        trainable_token_indices={"embed_tokens": tokens_of(TIED, 3), "lm_head": tokens_of(TIED, 20)},
    ),
    f"{TIED}/tied-dora-embedding": dict(r=4, lora_alpha=8, use_dora=True, target_modules=["embed_tokens", "o_proj"]),
    f"{TIED}/lora-bias": dict(r=4, lora_alpha=16, lora_bias=True, target_modules=["q_proj", "v_proj", "down_proj"]),
    f"{UNTIED}/lora-bias": dict(r=4, lora_alpha=16, lora_bias=True, target_modules=["k_proj", "up_proj", "lm_head"]),
    f"{UNTIED}/tokens": dict(r=2, target_modules=["q_proj"], trainable_token_indices=tokens_of(UNTIED, 3)),
    f"{UNTIED}/dora-embedding": dict(r=4, lora_alpha=8, use_dora=True, target_modules=["embed_tokens", "lm_head"]),
    f"{TIED}/tied-together-r4": dict(
        r=4, lora_alpha=8, target_modules=["embed_tokens", "q_proj"], ensure_weight_tying=True
    ),
    f"{TIED}/tied-together-dora": dict(
        r=4, lora_alpha=8, use_dora=True, target_modules=r".*\.v_proj|.*embed_tokens|lm_head", ensure_weight_tying=True
    ),
    f"{TIED}/tied-together-trained": dict(
        r=2, target_modules=["q_proj"], modules_to_save=["lm_head"], ensure_weight_tying=True
    ),
    f"{UNTIED}/trained-norms": dict(
        r=2, target_modules=["v_proj"], modules_to_save=["norm", "input_layernorm", "post_attention_layernorm"]
    ),
    "qwen3/trained-norms": dict(r=2, target_modules=["o_proj"], modules_to_save=["q_norm", "k_norm", "norm"]),
    f"{UNTIED}/only-q": dict(r=3, lora_alpha=8, target_modules=["q_proj"]),
    f"{UNTIED}/only-up": dict(r=3, lora_alpha=8, target_modules=["up_proj"]),
    f"{UNTIED}/regex-patterns": dict(
        r=8,
        lora_alpha=16,
        target_modules=["q_proj", "k_proj", "gate_proj", "up_proj"],
        alpha_pattern={r"layers\.0\..*q_proj": 64, r"(gate|up)_proj": 3, "1.self_attn.k_proj": 40},
        rank_pattern={r"^model\.layers\.\d+\.mlp\.(gate|up)_proj$": 2, "self_attn.k_proj": 5},
    ),
    f"{UNTIED}/fused-r4": dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "gate_up_proj"]),
}
MERGED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def base(model, targets=()):
    folder = MODELS / model
    llama = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    return fused(llama) if set(MERGED) & set(targets) else llama


def fused(llama):
    """The same function with merged projections: of the model classes Phi3 has them and computes as Llama does."""
    settings = llama.config.to_dict()
    config = Phi3Config(**{key: settings[key] for key in settings if key not in ("model_type", "architectures")})
    config._attn_implementation = "eager"
    weights = llama.state_dict()
    for name in [name for name in weights if ".q_proj." in name or ".gate_proj." in name]:
        for merged, pieces in MERGED.items():
            if pieces[0] not in name:
                continue
            parts = [weights.pop(name.replace(pieces[0], piece)) for piece in pieces]
            weights[name.replace(pieces[0], merged)] = torch.cat(parts)
    model = Phi3ForCausalLM(config).eval()
    model.load_state_dict(weights)
    return model


def train(model, generator):
    """Random values for all that an adapter would have learned."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "magnitude" in name:
                parameter.mul_(1 + 0.2 * noise)
            elif "lora_embedding" in name:
                parameter.copy_(noise * 0.3)
            elif "lora_" in name:
                parameter.copy_(noise * (0.6 / parameter.shape[1] ** 0.5 if parameter.ndim == 2 else 0.1))
            elif "trainable_tokens_delta" in name or "modules_to_save" in name:
                parameter.add_(0.05 * noise)


def answers(model, prompts):
    out = []
    for token_ids in prompts:
        logits = model(torch.tensor([token_ids]), use_cache=False).logits[0]
        logprobs = torch.log_softmax(logits, -1)
        tokens, greedy, margins = list(token_ids), [], []
        for _ in range(GREEDY_STEPS):
            top = torch.topk(model(torch.tensor([tokens]), use_cache=False).logits[0, -1], 2)
            greedy.append(int(top.indices[0]))
            margins.append(round(float(top.values[0] - top.values[1]), 6))
            tokens.append(greedy[-1])
        out.append(
            dict(
                token_ids=token_ids,
                last_logits=[round(float(x), 6) for x in logits[-1]],
                prompt_logprobs=[round(float(logprobs[i - 1, t]), 6) for i, t in enumerate(token_ids) if i > 0],
                greedy_token_ids=greedy,
                greedy_margins=margins,
            )
        )
    return out


def main():
    chosen = sys.argv[1:] or ADAPTERS
    for number, (path, options) in enumerate(ADAPTERS.items()):
        if path not in chosen:
            continue
        model, folder = path.split("/")[0], MODELS / path
        shutil.rmtree(folder, ignore_errors=True)
        targets = options["target_modules"]
        adapted = peft.get_peft_model(base(model, targets), peft.LoraConfig(task_type="CAUSAL_LM", **options))
        train(adapted, torch.Generator().manual_seed(700 + number))
        adapted.peft_config["default"].base_model_name_or_path = model
        adapted.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        prompts = prompt_tokens(model)
        with torch.no_grad():
            live = answers(adapted.eval(), prompts)
            loaded = answers(peft.PeftModel.from_pretrained(base(model, targets), folder).eval(), prompts)
            plain = answers(base(model), prompts)
        (folder / "golden.json").write_text(json.dumps(dict(prompts=loaded), separators=(",", ":")))

        def distance(a, b):
            return max(abs(x - y) for p, q in zip(a, b) for x, y in zip(p["last_logits"], q["last_logits"]))

        print(f"{path}: from live {distance(loaded, live):.2g}, from the base {distance(loaded, plain):.2g}")


if __name__ == "__main__":
    main()
