"""Wrong set-ups of ranks: all of them end, with a sentence from the one that knows, within ten seconds."""

import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import MODELS, binary
from mpi_jobs import mpirun_each, needs_mpi

LONGEST = 10  # seconds
MODEL = MODELS / "llama"


def serve(*flags, model=MODEL, program=None) -> list:
    return [program or binary(), "serve", model, "--port", "0", *flags]


def processes_with(variable: str) -> list[int]:
    """What runs with that in its environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def refused(command: list, *words: str, environment: dict | None = None) -> None:
    """It ends in time with a sentence that has all of `words`, no other, and leaves no process."""
    mark = ("QUIRE_TEST_RUN", f"{os.getpid()}-{time.monotonic_ns()}")
    begin = time.monotonic()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(environment or {}), mark[0]: mark[1]})
    seconds = time.monotonic() - begin
    assert done.returncode != 0
    sentences = {line for line in done.stderr.splitlines() if line.startswith("quire: ")}
    assert sentences, done.stderr
    for sentence in sentences:
        assert sentence.endswith(".") and all(word in sentence for word in words), sentences
    assert seconds < LONGEST
    assert processes_with("=".join(mark)) == []


@contextmanager
def taken_port():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield str(other.getsockname()[1])


@pytest.fixture
def other_build(tmp_path):
    """The program under another build id."""
    shutil.copy(binary(), tmp_path)
    shutil.copy(binary().parent / "libquire_mpi.so", tmp_path)
    content = (tmp_path / "quire").read_bytes()
    note = re.search(rb"\x04\0\0\0.\0\0\0\x03\0\0\0GNU\0", content, re.DOTALL)
    assert note, "the program has no build id"
    at = note.end()
    (tmp_path / "quire").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
    return tmp_path / "quire"


def test_a_taken_port():
    with taken_port() as port:
        refused([binary(), "serve", MODEL, "-tp", "3", "--port", port], "Cannot listen on 127.0.0.1 port " + port)


def test_a_missing_model_folder(tmp_path):
    refused(serve("-tp", "3", model=tmp_path / "none"), "none is not found")


def test_a_program_that_was_made_a_rank_by_hand():
    refused(serve("-tp", "2"), "QUIRE_WORLD_SIZE", "unset QUIRE_RANK", environment={"QUIRE_RANK": "1"})


@needs_mpi
class TestUnderMpi:
    def test_a_taken_port(self):
        with taken_port() as port:
            command = [binary(), "serve", MODEL, "-tp", "2", "--port", port]
            refused(mpirun_each(command, command), "Cannot listen on 127.0.0.1 port " + port)

    @pytest.mark.parametrize(("ranks", "sizes"), [(3, ["-tp", "2"]), (2, ["-tp", "3"]), (2, []), (3, ["-tp", "2", "-pp", "2"])],
                             ids=["more", "fewer", "not-told", "stages"])
    def test_a_job_of_another_number_of_ranks(self, ranks, sizes):
        refused(mpirun_each(*[serve(*sizes)] * ranks), f"the MPI job has {ranks} ranks", "--tensor-parallel-size")

    @pytest.mark.parametrize("sizes", [(2, 1), (1, 2), (2, 3)], ids=str)
    def test_ranks_that_were_told_different_numbers(self, sizes):
        refused(mpirun_each(*[serve("-tp", size) for size in sizes]), "the MPI job has 2 ranks")

    def test_a_model_folder_that_one_host_does_not_have(self, tmp_path):
        """Hosts are folders here: the path is relative."""
        for host in ("a", "b"):
            (tmp_path / host).mkdir()
        (tmp_path / "a" / "model").symlink_to(MODEL)
        command = serve("-tp", "2", model="model")
        refused(mpirun_each(command, command, folders=[tmp_path / "a", tmp_path / "b"]), "rank 1: model path model is not found")
        refused(mpirun_each(command, command, folders=[tmp_path / "b", tmp_path / "a"]), "model path model is not found")

    def test_different_builds(self, other_build):
        for programs in ([binary(), other_build], [other_build, binary()]):
            refused(mpirun_each(*[serve("-tp", "2", program=program) for program in programs]), "is build", "and rank 1 (host",
                    "start all ranks from one build")

    def test_different_kernels(self):
        command = serve("-tp", "2")
        refused(mpirun_each(command, ["env", "QUIRE_CPU_ISA=generic", *command]), "rank 1: rank 0 computes with kernels",
                "QUIRE_CPU_ISA")

    def test_without_the_module_for_mpi(self, tmp_path):
        command = serve("-tp", "2")
        refused(mpirun_each(command, ["env", f"QUIRE_MPI_LIBRARY={tmp_path}/none.so", *command]), "MPI cannot be loaded")
