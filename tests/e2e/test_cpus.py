"""Other CPUs, emulated by qemu-x86_64, and the choice of kernels."""

import os
import re
import shutil

import pytest
import requests

from conftest import MODELS, run_quire, running

QEMU = shutil.which("qemu-x86_64")
needs_qemu = pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 is not installed (package qemu-user)")
PROMPTS = [[5, 6, 7], list(range(20, 90)), [300] * 20]
CPUS = [("Haswell", "avx2"), ("Nehalem", "generic"), ("core2duo", "generic"), ("qemu64", "generic")]


def ask(server):
    answers = []
    for prompt in PROMPTS:
        body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "logprobs": 5, "ignore_eos": True,
                "prompt_logprobs": 0, "return_token_ids": True}
        answer = requests.post(server.url + "/v1/completions", json=body, timeout=120)
        assert answer.status_code == 200, answer.text
        answers.append(answer.json()["choices"][0])
    return answers


def kernels_of(server):
    return re.search(r"CPU kernels (.*), \d+ compute threads", "".join(server.log))[1]


def check_agreement(choice, native):
    for entry, other in zip(choice["prompt_logprobs"][1:], native["prompt_logprobs"][1:]):
        assert entry.keys() == other.keys()
        for token, value in entry.items():
            assert value["logprob"] == pytest.approx(other[token]["logprob"], abs=1e-4)
    logprobs, reference = choice["logprobs"], native["logprobs"]
    for step, top in enumerate(reference["top_logprobs"]):
        best = sorted(top.values(), reverse=True)
        for name, value in logprobs["top_logprobs"][step].items():
            if name in top:
                assert value == pytest.approx(top[name], abs=1e-4)
        if choice["token_ids"][step] != native["token_ids"][step]:
            assert best[0] - best[1] <= 1e-3
            return  # what follows another token cannot be compared


@pytest.fixture(scope="module")
def native(server):
    return ask(server)


@needs_qemu
@pytest.mark.parametrize("cpu, isa", CPUS)
def test_cpus_05_older_cpus(native, cpu, isa):
    with running(MODELS / "llama", "--dtype", "float32", under=(QEMU, "-cpu", cpu)) as server:
        assert kernels_of(server).startswith(isa)
        for choice, reference in zip(ask(server), native):
            check_agreement(choice, reference)


@pytest.mark.parametrize("isa", ["generic", "avx2", "avx512"])
def test_each_isa_of_this_cpu(native, isa):
    offered = run_quire("complete", "--model", MODELS / "llama", "-q", "a", "--max-tokens", "1",
                        environment={"QUIRE_CPU_ISA": isa})
    if offered.returncode != 0:
        assert re.fullmatch(rf"quire: QUIRE_CPU_ISA={isa}: this CPU does not offer .*\n", offered.stderr)
        pytest.skip(offered.stderr.strip())
    with running(MODELS / "llama", "--dtype", "float32", environment={"QUIRE_CPU_ISA": isa}) as server:
        assert kernels_of(server).startswith(isa)
        for choice, reference in zip(ask(server), native):
            check_agreement(choice, reference)


@needs_qemu
def test_complete_on_another_cpu():
    arguments = ("complete", "--model", MODELS / "llama", "-q", "The quick brown fox", "--temperature", "0", "--max-tokens", "4")
    answer = run_quire(*arguments, under=(QEMU, "-cpu", "Nehalem"))
    assert answer.returncode == 0 and answer.stdout == run_quire(*arguments).stdout


def test_unknown_isa_is_one_sentence():
    answer = run_quire("complete", "--model", MODELS / "llama", "-q", "a", environment={"QUIRE_CPU_ISA": "sse9"})
    assert answer.returncode == 1 and answer.stdout == ""
    assert answer.stderr == "quire: QUIRE_CPU_ISA=sse9 is unknown; use generic, avx2, avx512 or avx512_bf16, or leave it unset.\n"


@needs_qemu
def test_unavailable_isa_is_one_sentence():
    for _ in range(3):  # whichever thread comes first
        answer = run_quire("serve", MODELS / "llama", "--port", "0", environment={"QUIRE_CPU_ISA": "avx512"},
                           under=(QEMU, "-cpu", "Haswell"))
        lines = [line for line in answer.stderr.splitlines() if not line.startswith(("qemu-x86_64: warning", "I ", "W "))]
        assert answer.returncode == 1 and len(lines) == 1 and lines[0].startswith("quire: QUIRE_CPU_ISA=avx512: this CPU")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_cpus_07_both_cores_are_used():
    with running(MODELS / "llama", "--threads", "2", "--no-enable-prefix-caching") as server:
        tasks = f"/proc/{server.process.pid}/task"
        busy = [0, 0]  # clock ticks of the two threads that used most
        for _ in range(40):
            body = {"prompt": [[i] * 900 for i in range(3, 35)], "max_tokens": 2, "ignore_eos": True}
            requests.post(server.url + "/v1/completions", json=body, timeout=120)
            busy = sorted((sum(map(int, open(f"{tasks}/{task}/stat").read().rpartition(") ")[2].split()[11:13]))
                           for task in os.listdir(tasks)), reverse=True)[:2]
            if busy[0] > 60:
                break
        assert busy[1] > 0.3 * busy[0], busy


def test_cpus_01_context_is_cut_to_the_cache():
    with running(MODELS / "llama", "--kv-cache-memory-bytes", "256K") as server:
        limit = requests.get(server.url + "/v1/models", timeout=10).json()["data"][0]["max_model_len"]
        assert 16 <= limit < 1024 and str(limit) in "".join(server.log)
        answer = requests.post(server.url + "/v1/completions", json={"prompt": [5] * 800}, timeout=10)
        assert answer.status_code == 400 and str(limit) in answer.json()["error"]["message"]
        assert requests.post(server.url + "/v1/completions", json={"prompt": [5] * 8}, timeout=10).status_code == 200


def test_cpus_01_a_limit_of_virtual_memory():
    """The cache fits into what `ulimit -v` leaves."""
    limit = 3 << 30
    answer = run_quire("complete", "--model", MODELS / "llama", "-q", "a", "--max-tokens", "2",
                       under=("prlimit", f"--as={limit}"))
    assert answer.returncode == 0, answer.stderr


@pytest.fixture
def control_groups():
    """Runs programs below limits of control groups (version 1), where this process may make such groups."""
    folders = []

    def limit(**settings):
        for setting, value in settings.items():
            controller, _, name = setting.partition("_")
            folder = f"/sys/fs/cgroup/{controller}/quire-test-{os.getpid()}"
            try:
                if folder not in folders:
                    os.mkdir(folder)
                    folders.append(folder)
                with open(f"{folder}/{controller}.{name}", "w") as file:
                    file.write(str(value))
            except OSError as error:
                pytest.skip(f"control groups cannot be made here: {error}")
        enter = "".join(f"echo $$ >{folder}/cgroup.procs && " for folder in folders)
        return "sh", "-c", enter + 'exec "$0" "$@"'

    yield limit
    for folder in folders:
        os.rmdir(folder)


def test_cpus_01_and_cpus_03_inside_a_container(control_groups):
    """Half a CPU and 300 MB: one thread, and a cache that fits."""
    under = control_groups(memory_limit_in_bytes=300 << 20, cpu_cfs_period_us=100_000, cpu_cfs_quota_us=100_000)
    with running(MODELS / "llama", under=under) as server:
        assert re.search(r"CPU kernels .*, 1 compute threads", "".join(server.log))
        gibibytes = float(re.search(r"KV cache \S+ up to ([0-9.]+) GiB", "".join(server.log))[1])
        assert 0 < gibibytes < 0.3
        answer = requests.post(server.url + "/v1/completions", json={"prompt": [[5] * 500] * 16}, timeout=60)
        assert answer.status_code == 200
    collected = run_quire("collect-env", under=under).stdout
    assert re.search(r"quota: +1\.00 CPUs", collected), collected
