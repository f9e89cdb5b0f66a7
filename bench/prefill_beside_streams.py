#!/usr/bin/env python3
"""What a long prompt does to running streams: with --max-num-batched-tokens auto, and with fixed budgets.

Per setting and round: streams decode, a long prompt arrives, and until its first token comes the gaps between the
streams' tokens are taken. Prints a row per setting, medians of the rounds. Settings alternate within each round, each
with a server of its own. Needs nothing beyond Python.

    bench/prefill_beside_streams.py --model SmolLM2-135M-Instruct.Q4_1.gguf
"""

import argparse
import http.client
import json
import math
import random
import socket
import statistics
import subprocess
import threading
import time


class Stream:
    """A streaming completion, read by a thread; `times` are the moments its tokens came at, in seconds."""

    def __init__(self, port, prompt, max_tokens):
        self.times = []
        self.thread = threading.Thread(target=self.run, args=(port, prompt, max_tokens), daemon=True)
        self.thread.start()

    def run(self, port, prompt, max_tokens):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": True, "temperature": 0,
                "return_token_ids": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(answer.read().decode())
        for line in answer:
            if line.startswith(b"data: {") and b'"finish_reason"' in line:
                self.times.append(time.monotonic())
        connection.close()

    def wait_for(self, tokens):
        while len(self.times) < tokens:
            if not self.thread.is_alive():
                raise RuntimeError("a stream ended before its time")
            time.sleep(0.002)


def start_server(arguments, flags):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([arguments.quire, "serve", arguments.model, "--port", str(port), "--log-level", "warning",
                               *flags], stdout=subprocess.DEVNULL)
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return server, port
        except OSError:
            pass
        if server.poll() is not None:
            raise SystemExit(f"{arguments.quire} serve ended with {server.returncode}")
        time.sleep(0.1)
    server.kill()
    raise SystemExit("the server did not start within 60 s")


def measure(arguments, flags, seed):
    """Gaps between the streams' tokens while the long prompt is computed, and its time to first token; seconds."""
    draw = random.Random(seed)
    prompt = lambda length: [draw.randrange(1000, 30000) for _ in range(length)]
    server, port = start_server(arguments, flags)
    try:
        Stream(port, prompt(arguments.prompt_tokens), 1).thread.join()  # touches the cache's pages once
        streams = [Stream(port, prompt(64), 4000) for _ in range(arguments.streams)]
        for stream in streams:
            stream.wait_for(48)
        sent = time.monotonic()
        late = Stream(port, prompt(arguments.prompt_tokens), 4)
        late.wait_for(1)
        first = late.times[0]
        for stream in streams:
            stream.wait_for(len(stream.times) + 2)
        gaps = [after - before for stream in streams for before, after in zip(stream.times, stream.times[1:])
                if after > sent and before < first]
        return gaps, first - sent
    finally:
        server.kill()  # the streams would be waited for
        server.wait()


def percentile(values, share):
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default="build/bin/quire")
    parser.add_argument("--model", required=True)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=4096)
    parser.add_argument("--budgets", nargs="+", default=["auto", "512", "2048", "4096"])
    parser.add_argument("--target-itl-ms", default="100")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()

    rows = {budget: [] for budget in arguments.budgets}
    for number in range(arguments.rounds):
        for budget in arguments.budgets:
            flags = ["--max-num-batched-tokens", budget, "--target-itl-ms", arguments.target_itl_ms]
            gaps, ttft = measure(arguments, flags, number)
            rows[budget].append((1000 * statistics.median(gaps), 1000 * percentile(gaps, 0.99), ttft))
    print("| budget | ITL p50 ms | ITL p99 ms | TTFT s |\n|---|---|---|---|")
    for budget, results in rows.items():
        median, p99, ttft = (statistics.median(column) for column in zip(*results))
        print(f"| {budget} | {median:.0f} | {p99:.0f} | {ttft:.2f} |")


if __name__ == "__main__":
    main()
