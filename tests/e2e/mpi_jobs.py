"""MPI jobs on this machine, and over hosts that are network namespaces of it with a link between them."""

import itertools
import os
import shutil
import signal
import stat
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import binary

needs_mpi = pytest.mark.skipif(shutil.which("mpirun") is None or not (binary().parent / "libquire_mpi.so").exists(),
                               reason="Open MPI is not installed (openmpi-bin, libopenmpi-dev)")

# The launcher then notices within four seconds that a host is out of reach, and ends the job.
KEEPALIVE = ("--mca", "oob_tcp_keepalive_time", "1", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca",
             "oob_tcp_keepalive_probes", "3")


def mpirun(*command: str) -> tuple:
    """What a command is put under to run as a job on this machine: the number of ranks first."""
    return ("mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "tcp,self", "-np", *command)


def mpirun_each(*commands: list, folders: list | None = None) -> list:
    """A job on this machine in which each rank runs a command of its own, each in a folder of its own."""
    parts = []
    for rank, command in enumerate(commands):
        folder = [] if folders is None else ["--wdir", folders[rank]]
        parts += [*([":"] if rank > 0 else []), "-np", "1", *folder, *command]
    return [*mpirun()[:-1], *parts]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


_numbers = itertools.count()


class Hosts:
    """Two hosts, a and b, whose only way to each other is one link."""

    def __init__(self, folder: Path):
        mark = f"q{os.getpid() % 100000}n{next(_numbers)}"
        self.names = [mark + "a", mark + "b"]
        self.addresses = ["10.203.7.1", "10.203.7.2"]
        # What mpirun starts its daemon on the other host with, instead of ssh: HOST COMMAND...
        self._agent = folder / "agent"
        self._agent.write_text("#!/bin/sh\nhost=$1; shift\ncase $host in\n" + "".join(
            f"{address}) exec ip netns exec {name} sh -c \"$*\" ;;\n"
            for address, name in zip(self.addresses, self.names)) + "esac\n")
        self._agent.chmod(self._agent.stat().st_mode | stat.S_IXUSR)

    def make(self) -> None:
        for name in self.names:
            _ip("netns", "add", name)
        _ip("link", "add", "veth0", "netns", self.names[0], "type", "veth", "peer", "name", "veth0", "netns",
            self.names[1])
        for name, address in zip(self.names, self.addresses):
            _ip("-n", name, "addr", "add", address + "/24", "dev", "veth0")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "veth0", "up")

    def remove(self) -> None:
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def drop_link(self) -> None:
        """From now on nothing gets through, and nobody is told."""
        for name in self.names:
            _ip("-n", name, "link", "set", "veth0", "down")

    def processes(self, names: list[str] | None = None) -> list[int]:
        """What still runs on both, or on those."""
        return [int(pid) for name in names or self.names for pid in
                subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()]

    def on_first(self, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(["ip", "netns", "exec", self.names[0], *command], capture_output=True, text=True,
                              timeout=120)

    def mpirun(self, ranks_per_host: int = 1, keepalive: tuple = KEEPALIVE) -> tuple:
        """What a command is put under to run on both hosts, the first rank on a."""
        hosts = ",".join(f"{address}:{ranks_per_host}" for address in self.addresses)
        return ("ip", "netns", "exec", self.names[0], "mpirun", "--allow-run-as-root", "-np", str(2 * ranks_per_host),
                "--host", hosts, "--bind-to", "none", "--mca", "plm_rsh_agent", str(self._agent), "--mca", "btl",
                "tcp,self", "--mca", "btl_tcp_if_include", "veth0", "--mca", "oob_tcp_if_include", "veth0", *keepalive)


def why_not() -> str | None:
    """Why hosts cannot be made here, or None."""
    if shutil.which("ip") is None:
        return "ip is not installed (iproute2)"
    name = f"qprobe{os.getpid() % 100000}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
        return "network namespaces need a privilege (CAP_SYS_ADMIN) that is missing here"
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return None


@contextmanager
def two_hosts(folder: Path):
    hosts = Hosts(folder)
    try:
        hosts.make()
        yield hosts
    finally:
        hosts.remove()
