"""One model over two hosts that only a link joins, with MPI between them: the same answers, and the end when the link drops."""

import re
import subprocess
import sys
import threading
import time

import pytest

from conftest import MODELS, binary, run_quire
from mpi_jobs import needs_mpi, two_hosts, why_not

pytestmark = [needs_mpi, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

SECONDS_TO_END = 15  # of which the launcher takes four to notice and five to end what does not end by itself


@pytest.mark.parametrize(("ranks_per_host", "sizes"), [(1, ("-tp", "2")), (2, ("-tp", "2", "-pp", "2"))],
                         ids=["tp2", "stage-per-host"])
def test_two_hosts_give_the_bits_of_one(tmp_path, ranks_per_host, sizes):
    command = ["complete", "--model", MODELS / "llama", "--dtype", "float32", "--max-tokens", "24", "-q", "abc", *sizes]
    alone = run_quire(*command)
    assert alone.returncode == 0, alone.stderr
    with two_hosts(tmp_path) as hosts:
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


@pytest.mark.parametrize("busy", [True, False], ids=["streaming", "idle"])
def test_a_link_that_drops_ends_the_job(tmp_path, busy):
    with two_hosts(tmp_path) as hosts:
        log, url = [], []
        job = subprocess.Popen([*hosts.mpirun(), binary(), "serve", MODELS / "llama", "--dtype", "float32", "--port",
                                "0", "-tp", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ready = threading.Event()

        def read():
            for line in job.stdout:
                log.append(line)
                match = re.search(r"listening on (http://\S+)", line)
                if match:
                    url.append(match[1])
                    ready.set()
            ready.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert ready.wait(60) and url, "".join(log)
        stream = None
        if busy:
            stream = subprocess.Popen(["ip", "netns", "exec", hosts.names[0], sys.executable, "-c", READ_STREAM, url[0]],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert stream.stdout.readline().startswith("data: ")
        begin = time.monotonic()
        hosts.drop_link()
        assert job.wait(timeout=SECONDS_TO_END) != 0
        reader.join(5)
        assert "lost communication with a remote daemon" in "".join(log), "".join(log)
        assert hosts.addresses[1] in "".join(log)
        if stream:
            stream.wait(timeout=SECONDS_TO_END)
        while hosts.processes():
            assert time.monotonic() - begin < SECONDS_TO_END, "orphans"
            time.sleep(0.1)
