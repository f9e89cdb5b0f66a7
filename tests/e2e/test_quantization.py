"""Compressed weights through the real server: what the log says, invariance, ranks, adapters, refusals."""

import json
import os
import random
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from conftest import MODELS, run_quire, running
from safetensors_files import write_tensors

DEMO = os.environ.get("QUIRE_DEMO_MODEL")
needs_demo = pytest.mark.skipif(not DEMO, reason="QUIRE_DEMO_MODEL names no demo model (scripts/demo_model.sh prints its path)")
CACHE = ("--kv-cache-memory-bytes", "100000000")


def complete(server, prompt, **fields):
    body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "logprobs": 2, "ignore_eos": True, "return_token_ids": True}
    answer = requests.post(server.url + "/v1/completions", json={**body, **fields}, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def prompts(count, vocab=500):
    numbers = random.Random(3)
    return [[numbers.randrange(3, vocab) for _ in range(numbers.choice([1, 7, 16, 33, 90]))] for _ in range(count)]


@pytest.mark.parametrize("flags", [("int8",), ("int4", "--quantize-lm-head"), ("int8", "-tp", "2")], ids=["int8", "int4-head", "int8-tp2"])
def test_alone_or_among_others_in_any_chunks(flags):
    asked = prompts(12)
    flags = ("-q", *flags, "--no-enable-prefix-caching", *CACHE)
    with running(MODELS / "llama", *flags, "--threads", "2") as server:
        assert any(flags[1] in line and "MB" in line for line in server.log), server.log
        alone = [complete(server, prompt) for prompt in asked]
        with ThreadPoolExecutor(12) as pool:
            assert [c["logprobs"] for c in pool.map(lambda p: complete(server, p), asked)] == [c["logprobs"] for c in alone]
    with running(MODELS / "llama", *flags, "--threads", "2", "--max-num-batched-tokens", "16", "--max-num-seqs", "4") as server:
        with ThreadPoolExecutor(12) as pool:
            assert [c["logprobs"] for c in pool.map(lambda p: complete(server, p), asked)] == [c["logprobs"] for c in alone]


@pytest.mark.parametrize("flags, words", [
    (("-q", "awq"), ("awq", "int8", "gguf")), (("-q", "gguf"), ("nothing to multiply as stored",)),
    (("--quantize-lm-head",), ("--quantize-lm-head", "int8"))])
def test_what_does_not_go_together_is_refused(flags, words):
    answer = run_quire("serve", MODELS / "llama", "--port", "0", *flags)
    assert answer.returncode in (1, 2)
    assert all(word in answer.stderr.splitlines()[-1] for word in words), answer.stderr


def scored(server, ids, **fields):
    """The most likely token and the log-probability of the given one, at each place of a prompt."""
    choice = complete(server, ids, max_tokens=1, prompt_logprobs=1, **fields)
    places = []
    for token, entry in zip(ids[1:], choice["prompt_logprobs"][1:]):
        best = min(entry, key=lambda name: entry[name]["rank"])
        places.append((best, entry[str(token)]["logprob"]))
    return places


@needs_demo
def test_the_demo_is_multiplied_as_stored_on_one_rank_and_two():
    ids = [i % 4000 + 100 for i in range(7, 3000, 29)]
    with running(Path(DEMO), "--dtype", "float32", *CACHE) as server:
        exact = scored(server, ids)
    for ranks in ("1", "2"):
        with running(Path(DEMO), "-tp", ranks, *CACHE) as server:
            assert any("Q4_1" in line and "MB" in line for line in server.log), server.log
            near = scored(server, ids)
        differences = [abs(a[1] - b[1]) for a, b in zip(near, exact)]
        assert sum(differences) / len(differences) < 0.15


def write_adapter(folder: Path):
    """Rank 8 on q, o and down of every layer of the demo model."""
    numbers = random.Random(9)
    folder.mkdir()
    tensors = {}
    for layer in range(30):
        for name, out, inner in (("self_attn.q_proj", 576, 576), ("self_attn.o_proj", 576, 576), ("mlp.down_proj", 576, 1536)):
            for half, shape, size in (("A", (8, inner), 0.05), ("B", (out, 8), 0.05)):
                values = [numbers.gauss(0, size) for _ in range(shape[0] * shape[1])]
                key = f"base_model.model.model.layers.{layer}.{name}.lora_{half}.weight"
                tensors[key] = ("F32", list(shape), struct.pack(f"<{len(values)}f", *values))
    write_tensors(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": 8, "lora_alpha": 8, "target_modules": ["q_proj", "o_proj", "down_proj"], "task_type": "CAUSAL_LM"}))


@needs_demo
def test_lora_33_an_adapter_over_a_4_bit_base(tmp_path):
    """Against the same adapter over the dequantized weights in float32: the best token at 200 places, but where the two
    best of the exact run lie closer than rounding moves them."""
    write_adapter(tmp_path / "adapter")
    text = (Path(__file__).resolve().parents[2] / "bench" / "perplexity.txt").read_text()[:4000]
    runs = []
    for flags in (("--dtype", "float32"), ()):
        with running(Path(DEMO), *flags, "--enable-lora", "--lora-modules", f"a={tmp_path / 'adapter'}", *CACHE) as server:
            ids = requests.post(server.url + "/tokenize", json={"prompt": text}, timeout=60).json()["tokens"][:201]
            choice = complete(server, ids, max_tokens=1, prompt_logprobs=2, model="a")
            base = complete(server, ids, max_tokens=1, prompt_logprobs=2)
            runs.append((choice["prompt_logprobs"][1:], base["prompt_logprobs"][1:]))
    (exact, exact_base), (near, _) = runs
    assert len(exact) == 200

    def ranked(entry):
        return sorted(entry.items(), key=lambda item: item[1]["rank"])

    agree = changed = clear = 0
    for a, b, c in zip(exact, near, exact_base):
        best = ranked(a)
        changed += best[0][0] != ranked(c)[0][0]
        if best[0][1]["logprob"] - best[1][1]["logprob"] < 0.2:
            continue
        clear += 1
        agree += best[0][0] == ranked(b)[0][0]
    assert changed >= 10, "the adapter does something"
    assert clear >= 120 and agree >= 0.99 * clear, (agree, clear)
