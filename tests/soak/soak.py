#!/usr/bin/env python3
"""Sends many short requests, aborts and bad requests to a server it starts, and checks that memory and descriptors stay flat.

    soak.py BINARY [--requests 20000] [--clients 16]
    soak.py BINARY --adapter-cycles 2000 [--clients 16]

With --adapter-cycles, clients send requests to the model and to adapters for as long as it takes to load, replace and unload adapters that many times;
requests that come between an unload and the next load may get a 404. Prints RssAnon + VmSwap and the number of descriptors as it goes; exits 1 when, after the first quarter, memory has grown by more than 32 MiB or
descriptors by more than 64.
"""
import argparse
import http.client
import json
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def footprint(pid):
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    memory = sum(int(status[key].split()[0]) for key in ("RssAnon", "VmSwap")) * 1024
    return memory, len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def one_request(port, rng):
    kind = rng.random()
    body = {"prompt": [rng.randrange(5, 500) for _ in range(rng.randrange(1, 60))], "max_tokens": rng.randrange(1, 8),
            "stream": rng.random() < 0.5}
    if kind < 0.05:
        body["temperature"] = -1
    elif kind < 0.1:
        body.update(stream=True, max_tokens=400, ignore_eos=True)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if 0.05 <= kind < 0.1:
            response.read(64)  # then the client is gone
            return response.status == 200
        response.read()
        return response.status == (400 if kind < 0.05 else 200)
    finally:
        connection.close()


def client(port, todo, wrong, seed):
    rng = random.Random(seed)
    while True:
        try:
            todo.pop()
        except IndexError:
            return
        try:
            if not one_request(port, rng):
                wrong.append("unexpected status")
        except OSError as error:
            wrong.append(repr(error))


ADAPTERS = ["qv-r4", "all-r8", "rslora-r16", "rank-pattern"]
SLOTS = ["a", "b", "c"]


def post(port, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def adapter_client(port, todo, wrong, seed):
    """Requests to the model and to adapters, some cut off, until nothing is left to do."""
    rng = random.Random(seed)
    while todo:
        model = rng.choice([None, *SLOTS])
        body = {"model": model, "prompt": [rng.randrange(5, 500) for _ in range(rng.randrange(1, 60))],
                "max_tokens": rng.randrange(1, 40), "ignore_eos": True}
        try:
            status, answer = post(port, "/v1/completions", body)
            if status != 200 and not (status == 404 and model):
                wrong.append(f"{status} {answer[:200]}")
        except OSError as error:
            wrong.append(repr(error))


def adapter_cycles(port, todo, wrong):
    """Loads, replaces and unloads; each item of `todo` is one cycle."""
    rng = random.Random(7)
    while todo:
        todo.pop()
        name, path = rng.choice(SLOTS), str(ROOT / "tests/golden/models/llama" / rng.choice(ADAPTERS))
        load = {"lora_name": name, "lora_path": path, "load_inplace": True}
        status, answer = post(port, "/v1/load_lora_adapter", load)
        if status != 200:
            wrong.append(f"load: {status} {answer[:200]}")
        if rng.random() < 0.7:
            status, answer = post(port, "/v1/unload_lora_adapter", {"lora_name": name})
            if status != 200:
                wrong.append(f"unload: {status} {answer[:200]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--adapter-cycles", type=int, default=0)
    args = parser.parse_args()
    total = args.adapter_cycles or args.requests
    port = free_port()
    server = subprocess.Popen([args.binary, "serve", str(ROOT / "tests/golden/models/llama"), "--port", str(port),
                               "--kv-cache-memory-bytes", "64M", "--enable-lora"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        todo, wrong = list(range(total)), []
        work = adapter_client if args.adapter_cycles else client
        clients = [threading.Thread(target=work, args=(port, todo, wrong, seed)) for seed in range(args.clients)]
        if args.adapter_cycles:
            clients.append(threading.Thread(target=adapter_cycles, args=(port, todo, wrong)))
        for thread in clients:
            thread.start()
        warm = None
        while any(thread.is_alive() for thread in clients):
            time.sleep(2)
            memory, descriptors = footprint(server.pid)
            done = total - len(todo)
            print(f"{done} {'cycles' if args.adapter_cycles else 'requests'}, {memory / 2**20:.1f} MiB, {descriptors} descriptors, {len(wrong)} wrong", flush=True)
            if warm is None and done >= total / 4:
                warm = (memory, descriptors)
        time.sleep(2)
        memory, descriptors = footprint(server.pid)
        grown, leaked = memory - warm[0], descriptors - warm[1]
        print(f"after warm-up: memory {grown / 2**20:+.1f} MiB, descriptors {leaked:+d}, wrong answers {len(wrong)} {wrong[:3]}")
        return 1 if grown > 32 * 2**20 or leaked > 64 or wrong else 0
    finally:
        server.terminate()
        server.wait(40)


if __name__ == "__main__":
    sys.exit(main())
