#!/usr/bin/env python3
"""Sends many short requests, aborts and bad requests to a server it starts, and checks that memory and descriptors stay flat.

    soak.py BINARY [--requests 20000] [--clients 16]

Prints RssAnon + VmSwap and the number of descriptors as it goes; exits 1 when, after the first quarter, memory has grown by more than 32 MiB or
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--clients", type=int, default=16)
    args = parser.parse_args()
    port = free_port()
    server = subprocess.Popen([args.binary, "serve", str(ROOT / "tests/golden/models/llama"), "--port", str(port),
                               "--kv-cache-memory-bytes", "64M"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        todo, wrong = list(range(args.requests)), []
        clients = [threading.Thread(target=client, args=(port, todo, wrong, seed)) for seed in range(args.clients)]
        for thread in clients:
            thread.start()
        warm = None
        while any(thread.is_alive() for thread in clients):
            time.sleep(2)
            memory, descriptors = footprint(server.pid)
            done = args.requests - len(todo)
            print(f"{done} requests, {memory / 2**20:.1f} MiB, {descriptors} descriptors, {len(wrong)} wrong", flush=True)
            if warm is None and done >= args.requests / 4:
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
