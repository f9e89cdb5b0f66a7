#!/usr/bin/env python3
"""Sends requests of all kinds to a server it starts, for a long time, and checks that memory and descriptors stay flat.

    soak.py BINARY [--requests 20000]                 a small random model
    soak.py BINARY --adapter-cycles 2000              the same, while adapters are loaded, replaced and unloaded that many times
    soak.py BINARY --demo [--seconds 600]             the demo model with random adapters; both of the above at once
    soak.py BINARY --model PATH [--requests N]        another model

What is sent: short and long prompts, plain and streamed, chats, prompts beyond the context, clients that leave, and requests that are wrong; with
adapters, requests to names that come and go (a 404 between an unload and the next load is right). Prints RssAnon + VmSwap and the number of
descriptors as it goes; exits 1 when an answer had another status than it should, or when, after the first quarter, memory has grown by more than
32 MiB or descriptors by more than 64.
"""
import argparse
import http.client
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
from safetensors_files import write_tensors  # noqa: E402

GOLDEN = ROOT / "tests/golden/models/llama"
SLOTS = ["a", "b", "c"]
CONTEXT = 1024


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def footprint(pid):
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    memory = sum(int(status[key].split()[0]) for key in ("RssAnon", "VmSwap")) * 1024
    return memory, len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def post(port, path, body, leave_after=None):
    """The status of the answer, and the answer; with `leave_after` the client reads that many bytes and is gone."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("POST", path, body if isinstance(body, str) else json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read(leave_after)
    finally:
        connection.close()


def some_tokens(rng, longest):
    return [rng.randrange(5, 500) for _ in range(rng.randrange(1, longest))]


def any_request(rng, models):
    """(path, body, the status it must get, bytes to read before leaving)."""
    body = {"model": rng.choice(models), "prompt": some_tokens(rng, 60), "max_tokens": rng.randrange(1, 24), "stream": rng.random() < 0.5}
    kind = rng.random()
    if kind < 0.03:
        return "/v1/completions", {**body, "temperature": -1}, 400, None
    if kind < 0.05:
        return "/v1/completions", json.dumps(body)[:-3], 400, None
    if kind < 0.07:
        return "/v1/completions", {**body, "model": "no-such-model"}, 404, None
    if kind < 0.09:
        return "/v1/completions", {**body, "prompt": [7] * (CONTEXT + 5)}, 400, None
    if kind < 0.14:
        return "/v1/completions", {**body, "stream": True, "max_tokens": 400, "ignore_eos": True}, 200, 64
    if kind < 0.17:
        return "/v1/completions", {**body, "prompt": some_tokens(rng, CONTEXT - 30)}, 200, None
    if kind < 0.20:
        return "/v1/completions", {**body, "logprobs": 3, "prompt_logprobs": 2, "stream": False}, 200, None
    if kind < 0.30:
        del body["prompt"]
        messages = [{"role": "user", "content": "Count to " + str(rng.randrange(1000))}]
        return "/v1/chat/completions", {**body, "messages": messages}, 200, None
    return "/v1/completions", body, 200, None


class Work:
    """What there is to do, shared by the threads: a number of items or a length of time."""

    def __init__(self, items, seconds):
        self.items, self.seconds, self.begin = items, seconds, time.monotonic()
        self.lock, self.done, self.wrong = threading.Lock(), 0, []

    def share(self):
        return (time.monotonic() - self.begin) / self.seconds if self.seconds else self.done / self.items

    def count(self):
        with self.lock:
            self.done += 1


def client(port, work, models, counts, seed):
    rng = random.Random(seed)
    while work.share() < 1:
        path, body, expected, leave_after = any_request(rng, models)
        try:
            status, answer = post(port, path, body, leave_after)
            unloaded = status == 404 and isinstance(body, dict) and body["model"] in SLOTS
            if status != expected and not unloaded:
                work.wrong.append(f"{status} instead of {expected}: {answer[:200]}")
        except OSError as error:
            work.wrong.append(repr(error))
        if counts:
            work.count()


def adapter_cycles(port, work, adapters, counts):
    """Loads, replaces and unloads."""
    rng = random.Random(7)
    while work.share() < 1:
        name = rng.choice(SLOTS)
        load = {"lora_name": name, "lora_path": str(rng.choice(adapters)), "load_inplace": True}
        requests = [("load", load)] + [("unload", {"lora_name": name})] * (rng.random() < 0.7)
        for verb, body in requests:
            status, answer = post(port, f"/v1/{verb}_lora_adapter", body)
            if status != 200:
                work.wrong.append(f"{verb}: {status} {answer[:200]}")
        if counts:
            work.count()


def demo_adapter(folder, rank, seed):
    """Random matrices for q_proj and v_proj of SmolLM2-135M, as PEFT saves them, small enough to leave it sane."""
    layers, hidden, outputs = 30, 576, {"q_proj": 576, "v_proj": 192}
    rng = random.Random(seed)
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank, "target_modules": list(outputs)}))

    def bfloat16(count):  # of either sign, between 2**-8 and 2**-7
        return b"".join(bytes((rng.randrange(128), 0x3B + 0x80 * rng.randrange(2))) for _ in range(count))

    tensors = {}
    for layer in range(layers):
        for name, out in outputs.items():
            prefix = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{prefix}.lora_A.weight"] = ("BF16", [rank, hidden], bfloat16(rank * hidden))
            tensors[f"{prefix}.lora_B.weight"] = ("BF16", [out, rank], bfloat16(out * rank))
    write_tensors(folder / "adapter_model.safetensors", tensors)
    return folder


def watch(server, work, threads):
    """Prints as long as the threads run; returns the growth in bytes and descriptors since the first quarter."""
    warm, printed = None, 0
    while any(thread.is_alive() for thread in threads):
        time.sleep(2)
        memory, descriptors = footprint(server.pid)
        if time.monotonic() - printed > 10:
            printed = time.monotonic()
            print(f"{work.done} done, {memory / 2**20:.1f} MiB, {descriptors} descriptors, {len(work.wrong)} wrong", flush=True)
        if warm is None and work.share() >= 0.25:
            warm = (memory, descriptors)
    time.sleep(2)
    memory, descriptors = footprint(server.pid)
    return memory, descriptors, memory - warm[0], descriptors - warm[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--model", type=pathlib.Path, default=GOLDEN)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--adapter-cycles", type=int, default=0)
    args = parser.parse_args()
    scratch = tempfile.TemporaryDirectory()
    adapters = [GOLDEN / name for name in ("qv-r4", "all-r8", "rslora-r16", "rank-pattern")] if args.adapter_cycles else []
    if args.demo:
        args.model = ROOT / subprocess.run([ROOT / "scripts/demo_model.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        args.seconds = args.seconds or 600
        adapters = [demo_adapter(pathlib.Path(scratch.name) / str(rank), rank, rank) for rank in (4, 8, 16)]
    port = free_port()
    server = subprocess.Popen([args.binary, "serve", args.model, "--served-model-name", "model", "--port", str(port), "--max-model-len", str(CONTEXT),
                               "--kv-cache-memory-bytes", "128M" if args.demo else "64M", "--enable-lora"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        cycles_count = args.adapter_cycles > 0
        work = Work(args.adapter_cycles or args.requests, args.seconds)
        models = ["model", *SLOTS] if adapters else ["model"]
        threads = [threading.Thread(target=client, args=(port, work, models, not cycles_count, seed)) for seed in range(args.clients)]
        if adapters:
            threads.append(threading.Thread(target=adapter_cycles, args=(port, work, adapters, cycles_count)))
        for thread in threads:
            thread.start()
        memory, descriptors, grown, leaked = watch(server, work, threads)
        wrong = work.wrong
        print(f"{work.done} done, {memory / 2**20:.1f} MiB and {descriptors} descriptors; since the first quarter {grown / 2**20:+.1f} MiB and "
              f"{leaked:+d} descriptors; wrong answers {len(wrong)} {wrong[:3]}")
        return 1 if grown > 32 * 2**20 or leaked > 64 or wrong else 0
    finally:
        server.terminate()
        server.wait(40)
        scratch.cleanup()


if __name__ == "__main__":
    sys.exit(main())
