#!/usr/bin/env python3
"""Holds a running quire against a folder's golden.json: `check_parity.py http://127.0.0.1:8000 checkpoint`.

The file has what transformers computed in float32 (make_checkpoint.py writes it), so serve with --dtype float32. Exit
code 1 and a sentence where log-probabilities differ by more than 1e-4, or a greedy token does whose margin is clear.
Only Python's standard library is used.
"""

import argparse
import json
import math
import sys
import urllib.request
from pathlib import Path

TOLERANCE = 1e-4
CLEAR_MARGIN = 1e-3


def post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def served_name(url: str) -> str:
    with urllib.request.urlopen(url + "/v1/models", timeout=30) as answer:
        return json.load(answer)["data"][0]["id"]


def differences(url: str, model: str, prompt: dict):
    """What differs between the server's answer to one prompt and the golden one, in words."""
    body = dict(
        model=model,
        prompt=prompt["token_ids"],
        max_tokens=len(prompt["greedy_token_ids"]),
        temperature=0,
        ignore_eos=True,
        logprobs=1,
        prompt_logprobs=0,
        return_token_ids=True,
    )
    choice = post(url + "/v1/completions", body)["choices"][0]
    for position, expected in enumerate(prompt["prompt_logprobs"], 1):
        token = str(prompt["token_ids"][position])
        got = choice["prompt_logprobs"][position][token]["logprob"]
        if not abs(got - expected) <= TOLERANCE:
            yield f"prompt token {position}: log-probability {got}, transformers has {expected}"
    logits = prompt["last_logits"]
    top = max(logits)
    log_sum = top + math.log(sum(math.exp(logit - top) for logit in logits))
    got = choice["logprobs"]["token_logprobs"][0]
    if not abs(got - (top - log_sum)) <= TOLERANCE:
        yield f"first new token: log-probability {got}, transformers has {top - log_sum:.6f}"
    steps = zip(choice["token_ids"], prompt["greedy_token_ids"], prompt["greedy_margins"], strict=True)
    for step, (mine, expected, margin) in enumerate(steps):
        if margin <= CLEAR_MARGIN:
            break  # from here on both continuations are right
        if mine != expected:
            yield f"new token {step}: {mine}, transformers has {expected}"


def check_parity(url: str, folder: Path, model: str | None = None) -> list:
    """Every difference, as a sentence; an empty list is parity."""
    found = []
    for number, prompt in enumerate(json.loads((folder / "golden.json").read_text())["prompts"]):
        found += [f"prompt {number}, {what}" for what in differences(url, model or served_name(url), prompt)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", help="name of the model or adapter (default: the first that is served)")
    arguments = parser.parse_args()
    found = check_parity(arguments.url, arguments.folder, arguments.model)
    print("\n".join(found) or f"{arguments.folder}: agrees with transformers")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
