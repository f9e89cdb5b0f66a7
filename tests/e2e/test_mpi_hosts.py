"""One model over two hosts that only a link joins, with MPI between them: the same answers, and the end when the link drops."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import MODELS, binary, run_quire
from mpi_jobs import KEEPALIVE, needs_mpi, two_hosts, why_not

pytestmark = [needs_mpi, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

SECONDS_TO_END = 15  # of which the launcher takes four to notice and five to end what does not end by itself


def same_bits(folder, ranks_per_host, *sizes):
    command = ["complete", "--model", MODELS / "llama", "--dtype", "float32", "--max-tokens", "24", "-q", "abc", *sizes]
    alone = run_quire(*command)
    assert alone.returncode == 0, alone.stderr
    with two_hosts(folder) as hosts:
        apart = run_quire(*command, under=hosts.mpirun(ranks_per_host))
        assert apart.returncode == 0, apart.stderr
        assert apart.stdout == alone.stdout
        assert hosts.processes() == []


READ_STREAM = """
import sys, urllib.request
body = b'{"prompt": [5, 6, 7], "max_tokens": 900, "ignore_eos": true, "stream": true}'
request = urllib.request.Request(sys.argv[1] + "/v1/completions", body, {"content-type": "application/json"})
for line in urllib.request.urlopen(request, timeout=60):
    print(line.decode(), end="", flush=True)
"""


class Job:
    """A server over both hosts, and what it and its launcher have said."""

    def __init__(self, hosts, keepalive=KEEPALIVE):
        self.hosts, self.lines, self._url = hosts, [], None
        self.process = subprocess.Popen([*hosts.mpirun(keepalive=keepalive), binary(), "serve", MODELS / "llama",
                                         "--dtype", "float32", "--port", "0", "-tp", "2"], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._ready.wait(60) and self._url, self.log()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            match = re.search(r"listening on (http://\S+)", line)
            if match:
                self._url = match[1]
                self._ready.set()
        self._ready.set()

    def log(self) -> str:
        return "".join(self.lines)

    def stream(self) -> subprocess.Popen:
        """A client on the first host, which reads a stream that has begun."""
        client = subprocess.Popen(["ip", "netns", "exec", self.hosts.names[0], sys.executable, "-c", READ_STREAM,
                                   self._url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert client.stdout.readline().startswith("data: ")
        return client

    def wait_for(self, words: str, begin: float) -> None:
        while words not in self.log():
            assert time.monotonic() - begin < SECONDS_TO_END, self.log()
            time.sleep(0.05)

    def ends(self, begin: float) -> None:
        """With an exit code other than 0, in time, and leaves nothing."""
        assert self.process.wait(timeout=SECONDS_TO_END) != 0
        self._reader.join(5)
        while self.hosts.processes():
            assert time.monotonic() - begin < SECONDS_TO_END, "orphans"
            time.sleep(0.1)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def link_drops(folder, busy):
    with two_hosts(folder) as hosts:
        job = Job(hosts)
        time.sleep(1)  # the launcher must have finished its own start, or it takes the loss for a failed one and may hang
        stream = job.stream() if busy else None
        begin = time.monotonic()
        hosts.drop_link()
        job.ends(begin)
        # Whoever is first: the launcher after four seconds, the ranks after five.
        assert re.search(r"lost communication with a remote daemon|rank 1 \(host .+\) has given no sign of life",
                         job.log()), job.log()
        if "lost communication with a remote daemon" in job.log():
            assert hosts.addresses[1] in job.log(), job.log()
        if stream:
            stream.wait(timeout=SECONDS_TO_END)


def process_hangs(folder, busy):
    with two_hosts(folder) as hosts:
        job = Job(hosts)
        stream = job.stream() if busy else None
        begin = time.monotonic()
        [rank] = [pid for pid in hosts.processes(hosts.names[1:]) if name_of(pid) == "quire"]
        os.kill(rank, signal.SIGSTOP)
        job.ends(begin)
        assert re.search(r"quire: the engine has stopped, .*: .*rank 1 \(host .+\) has given no sign of life", job.log())
        if stream:
            stream.wait(timeout=SECONDS_TO_END)


def link_drops_behind_the_launcher(folder):
    """Ranks notice by themselves, also where the launcher was not told to look after the link."""
    with two_hosts(folder) as hosts:
        job = Job(hosts, keepalive=())
        begin = time.monotonic()
        hosts.drop_link()
        job.wait_for("rank 1 (host", begin)
        while [pid for pid in hosts.processes() if name_of(pid) == "quire"]:
            assert time.monotonic() - begin < SECONDS_TO_END, "orphans"
            time.sleep(0.1)


# Each is a job on two hosts of its own and mostly waits, so they run beside one another.
CASES = {
    "same bits, tp 2": (same_bits, 1, "-tp", "2"),
    "same bits, a stage for each host": (same_bits, 2, "-tp", "2", "-pp", "2"),
    "same bits, tp 4": (same_bits, 2, "-tp", "4"),
    "a link that drops ends the job, streaming": (link_drops, True),
    "a link that drops ends the job, idle": (link_drops, False),
    "a process that hangs ends the job, streaming": (process_hangs, True),
    "a process that hangs ends the job, idle": (process_hangs, False),
    "a link that drops is noticed without the launcher": (link_drops_behind_the_launcher,),
}


@pytest.fixture(scope="module")
def running_cases(request, tmp_path_factory):
    chosen = [item.callspec.params["case"] for item in request.session.items if item.module is request.module]
    with ThreadPoolExecutor(4) as pool:
        yield {case: pool.submit(CASES[case][0], tmp_path_factory.mktemp("hosts"), *CASES[case][1:]) for case in chosen}


@pytest.mark.parametrize("case", CASES)
def test_two_hosts(running_cases, case):
    running_cases[case].result()
