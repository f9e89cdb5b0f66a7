"""Starts the real binary on small models and hands out clients.

QUIRE_BIN is the program under test (default: build/bin/quire). Servers live as long as the test session.
"""

import os
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import openai
import pytest
import requests

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "golden" / "models"
START_SECONDS = 60


def binary() -> Path:
    return Path(os.environ.get("QUIRE_BIN", ROOT / "build" / "bin" / "quire"))


@dataclass
class Server:
    """A running `quire serve`."""

    process: subprocess.Popen
    url: str
    log: list = field(default_factory=list)
    reader: threading.Thread | None = None  # of the log, to the end of the output

    @property
    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=120)

    def metric(self, name: str, **labels) -> float:
        """The sum of a metric's samples that carry all of `labels`."""
        total, found = 0.0, False
        for line in requests.get(self.url + "/metrics", timeout=10).text.splitlines():
            match = re.match(r"^([^{#\s]+)(\{.*\})? (\S+)", line)
            if match and match[1] == name and all(f'{k}="{v}"' in (match[2] or "") for k, v in labels.items()):
                total, found = total + float(match[3]), True
        assert found, f"/metrics has no {name} {labels}"
        return total

    def wait_idle(self, seconds: float = 5.0) -> None:
        end = time.monotonic() + seconds
        while self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting") > 0:
            assert time.monotonic() < end, "requests still run"
            time.sleep(0.05)

    def stop(self, sig=signal.SIGTERM, seconds: float = 40.0) -> int:
        self.process.send_signal(sig)
        return self.process.wait(timeout=seconds)


def start_server(model: Path, *flags: str, environment: dict | None = None, under: tuple = (), tls: dict | None = None) -> Server:
    """Starts `quire serve MODEL --port 0 FLAGS` and waits until /health answers. `under` is a program to run it under, `tls`
    what requests needs to reach it."""
    command = [*under, str(binary()), "serve", str(model), "--port", "0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **(environment or {})})
    server = Server(process, "")
    ready = threading.Event()

    def read() -> None:
        for line in process.stdout:
            server.log.append(line)
            match = re.search(r"listening on (https?://\S+)", line)
            if match and not server.url:
                server.url = match[1]
                ready.set()
        ready.set()

    server.reader = threading.Thread(target=read, daemon=True)
    server.reader.start()
    if not ready.wait(START_SECONDS) or not server.url:
        process.kill()
        pytest.fail("the server did not start: " + " ".join(command) + "\n" + "".join(server.log[-20:]))
    assert requests.get(server.url + "/health", timeout=10, **(tls or {})).status_code == 200
    return server


@contextmanager
def running(model: Path, *flags: str, **options):
    """A server that lives as long as the with block."""
    server = start_server(model, *flags, **options)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def run_quire(*arguments: str, environment: dict | None = None, stdin: str = "", under: tuple = (), seconds: float = 120):
    """One command to its end."""
    return subprocess.run([*under, str(binary()), *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          errors="replace", timeout=seconds, env={**os.environ, **(environment or {})})


@pytest.fixture(scope="session")
def launch():
    """Starts servers with flags of a test's own; they are stopped at the end of the session."""
    servers = []

    def start(model: str = "llama", *flags: str) -> Server:
        servers.append(start_server(MODELS / model, *flags))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


@pytest.fixture(scope="session")
def server(launch) -> Server:
    """One server on the small llama in float32, for the tests that need no flags."""
    return launch("llama", "--dtype", "float32", "--served-model-name", "tiny", "alias")


@pytest.fixture(scope="session")
def client(server) -> openai.OpenAI:
    return server.client
