"""One model over several ranks, as real processes: answers, memory, ends."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import requests

from conftest import MODELS, binary, run_quire, running
from mpi_jobs import mpirun, needs_mpi

PROMPTS = [[5, 6, 7], list(range(20, 90)), [300] * 20, [9]]
SECONDS_TO_END = 5


def ask(server, prompt, **fields):
    body = {"prompt": prompt, "max_tokens": 16, "temperature": 0, "logprobs": 2, "ignore_eos": True,
            "return_token_ids": True, **fields}
    answer = requests.post(server.url + "/v1/completions", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def check_same_within_rounding(choice, reference):
    """Tokens are equal up to the first place where the best two are as good as equal."""
    for step, token in enumerate(reference["token_ids"]):
        best = sorted(reference["logprobs"]["top_logprobs"][step].values(), reverse=True)
        if choice["token_ids"][step] != token:
            assert best[0] - best[1] <= 1e-3
            return
        assert choice["logprobs"]["token_logprobs"][step] == pytest.approx(
            reference["logprobs"]["token_logprobs"][step], abs=1e-4)


def ranks_of(server):
    """Process ids of the ranks that a server has started."""
    children = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    return [int(pid) for file in children for pid in file.read_text().split()]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids):
    end = time.monotonic() + SECONDS_TO_END
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < end, "orphans"
        time.sleep(0.02)


@pytest.mark.parametrize("ranks", [2, 3])
def test_tp_09_same_answers_as_one_rank(server, ranks):
    with running(MODELS / "llama", "--dtype", "float32", "-tp", str(ranks)) as divided:
        for prompt in PROMPTS:
            choice = ask(divided, prompt)
            check_same_within_rounding(choice, ask(server, prompt))
            assert ask(divided, prompt) | {"index": 0} == choice | {"index": 0}, "repeatable"
        seeded = [ask(divided, [5, 6, 7], temperature=1.0, seed=7)["token_ids"] for _ in range(2)]
        assert seeded[0] == seeded[1]
        pids = ranks_of(divided)
        assert len(pids) == ranks - 1
        assert divided.stop() == 0
        wait_until_gone(pids)


def test_stages_change_no_bit(server):
    with running(MODELS / "llama", "--dtype", "float32", "-pp", "2") as stages, \
            running(MODELS / "llama", "--dtype", "float32", "-pp", "2", "-tp", "2") as both:
        for prompt in PROMPTS:
            reference = ask(server, prompt)
            assert ask(stages, prompt) == reference
            check_same_within_rounding(ask(both, prompt), reference)
        pids = ranks_of(both)
        assert len(pids) == 3
        assert both.stop() == 0
        wait_until_gone(pids)


def test_stages_of_given_layers(server):
    with running(MODELS / "llama", "--dtype", "float32", "-pp", "2",
                 environment={"QUIRE_PP_LAYER_PARTITION": "1,1"}) as stages:
        assert ask(stages, PROMPTS[1]) == ask(server, PROMPTS[1])
    for flags, sentence in [
            (["-pp", "2", "--pipeline-layer-partition", "1,2"], "1,2 adds up to 3 layers, but the model has 2"),
            (["-pp", "2", "--pipeline-layer-partition", "2"], "2 names 1 stages, but --pipeline-parallel-size is 2"),
            (["-pp", "2", "--pipeline-layer-partition", "0,2"], "--pipeline-layer-partition: 0 is below the least value"),
            (["-pp", "2", "--pipeline-layer-partition", "1,"], "'' is not a whole number")]:
        done = run_quire("serve", MODELS / "llama", "--port", "0", *flags)
        assert done.returncode != 0
        assert sentence in done.stderr
    done = run_quire("serve", MODELS / "llama", "--port", "0", environment={"QUIRE_PP_LAYER_PARTITION": "a"})
    assert done.returncode == 2
    assert "QUIRE_PP_LAYER_PARTITION: 'a' is not a whole number." in done.stderr


def test_bench_tells_the_shares_of_collectives_and_of_imbalance():
    done = run_quire("bench", "throughput", "--model", MODELS / "llama", "-tp", "2", "--profile", "--num-prompts", "4",
                     "--input-len", "20", "--output-len", "30")
    assert done.returncode == 0, done.stderr
    shares = r"Rank {}: [\d.]+% computing, [\d.]+% in collectives \(\d+ operations\), [\d.]+% waiting for other ranks"
    assert re.search(shares.format(0), done.stdout)
    assert re.search(shares.format(1), done.stdout)
    assert re.search(r"All ranks: [\d.]+% collectives, [\d.]+% imbalance", done.stdout)


def test_adapters_come_and_go_on_all_ranks():
    lora = ["--enable-lora", "--lora-modules", f"doubled={MODELS / 'llama' / 'dora-r4'}", "--dtype", "float32"]
    with running(MODELS / "llama", *lora) as whole, running(MODELS / "llama", *lora, "-tp", "2") as divided:
        for prompt in PROMPTS:
            check_same_within_rounding(ask(divided, prompt, model="doubled"), ask(whole, prompt, model="doubled"))
        assert ask(divided, PROMPTS[1], model="doubled")["token_ids"] != ask(divided, PROMPTS[1])["token_ids"]
        for _ in range(3):
            path = str(MODELS / "llama" / "all-r8")
            loaded = requests.post(divided.url + "/v1/load_lora_adapter", json={"lora_name": "a", "lora_path": path})
            assert loaded.status_code == 200, loaded.text
            ask(divided, [5, 6], model="a")
            gone = requests.post(divided.url + "/v1/unload_lora_adapter", json={"lora_name": "a"})
            assert gone.status_code == 200, gone.text
        wrong = requests.post(divided.url + "/v1/load_lora_adapter",
                              json={"lora_name": "b", "lora_path": str(MODELS / "qwen3" / "attn-r8")})
        assert wrong.status_code == 400
        assert "has shape" in wrong.text
        ask(divided, [5, 6])


def test_tp_01_more_ranks_than_heads_are_refused_with_the_sizes_that_fit():
    begin = time.monotonic()
    done = run_quire("serve", MODELS / "llama", "-tp", "5", "--port", "0")
    assert done.returncode == 1
    assert "5 is more than the model's 4 query heads: sizes 1 to 4 fit" in done.stderr
    assert time.monotonic() - begin < 10
    done = run_quire("serve", MODELS / "llama", "-pp", "3", "--port", "0")
    assert done.returncode == 1
    assert "a pipeline parallel size of 3 is more than the model's 2 layers" in done.stderr


def begin_streams(server):
    """Four streams that are under way, and go on until the server ends them."""

    def read():
        body = {"prompt": [5, 6], "max_tokens": 450, "ignore_eos": True, "stream": True}
        try:
            with requests.post(server.url + "/v1/completions", json=body, stream=True, timeout=60) as stream:
                for _ in stream.iter_lines():
                    under_way.release()
        except requests.RequestException:
            pass

    under_way = threading.Semaphore(0)
    for _ in range(4):
        threading.Thread(target=read, daemon=True).start()
    assert under_way.acquire(timeout=30)


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGINT])
def test_the_end_of_rank_0_leaves_nothing(sig):
    with running(MODELS / "llama", "-tp", "3") as server:
        pids = ranks_of(server)
        assert len(pids) == 2
        shared = set(os.listdir("/dev/shm"))
        begin_streams(server)
        server.process.send_signal(sig)
        server.process.wait(timeout=30)
        wait_until_gone(pids)
        assert set(os.listdir("/dev/shm")) <= shared


def streams_of(server, count, tokens, model):
    """Reads `count` streams at once; gives a function that waits for their texts."""
    texts, started = [[] for _ in range(count)], [threading.Event() for _ in range(count)]

    def read(index):
        body = {"prompt": [5 + index, 6, 7], "max_tokens": tokens, "ignore_eos": True, "stream": True, "temperature": 0.8,
                "seed": index, "model": model[index % len(model)]}
        with requests.post(server.url + "/v1/completions", json=body, stream=True, timeout=120) as stream:
            for line in stream.iter_lines():
                texts[index].append(line.decode())
                started[index].set()

    threads = [threading.Thread(target=read, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for event in started:
        assert event.wait(30)

    def finish():
        for thread in threads:
            thread.join(120)
        for lines in texts:
            assert lines[-2] == "data: [DONE]", lines[-3:]
        return ["".join(json.loads(line[6:])["choices"][0]["text"] for line in lines
                        if line.startswith("data: {") and json.loads(line[6:])["choices"]) for lines in texts]

    return finish


FAULTS_FLAGS = ["--dtype", "float32", "--enable-lora", "--lora-modules", f"a={MODELS / 'llama' / 'dora-r4'}",
                "--served-model-name", "m"]


def leave_no_memory(server):
    """Rank 1 can take no more from now on, and a prompt longer than all before needs more."""
    resource.prlimit(ranks_of(server)[0], resource.RLIMIT_AS, (4096, 4096))
    ask(server, [5 + i % 90 for i in range(900)], model="a", max_tokens=4)


HARM = {"killed": lambda server: os.kill(ranks_of(server)[0], signal.SIGKILL),
        "stopped": lambda server: os.kill(ranks_of(server)[0], signal.SIGSTOP),
        "out of memory": leave_no_memory}


def test_tp_06_streams_go_on_after_a_rank_has_failed():
    with running(MODELS / "llama", "-tp", "2", *FAULTS_FLAGS) as server:
        expected = streams_of(server, 16, 700, ["m", "a"])()
        for way, harm in HARM.items():
            before = len(server.log)
            finish = streams_of(server, 16, 700, ["m", "a"])
            pids = ranks_of(server)
            harm(server)
            assert finish() == expected, way
            wait_until_gone(pids)
            assert len(ranks_of(server)) == 1
            assert requests.get(server.url + "/health", timeout=10).status_code == 200
            log = "".join(server.log[before:])
            assert "rank 1" in log and re.search("; 1[0-9] requests are recomputed", log), log
            assert ("there is not enough memory" in log) == (way == "out of memory")
        assert server.stop() == 0


def wait_for_another_rank(server, pids):
    """Until the rank of those processes has been started again; its new process ids."""
    end = time.monotonic() + SECONDS_TO_END
    while True:
        now = ranks_of(server)
        if len(now) == len(pids) and not set(now) & set(pids):
            return now
        assert time.monotonic() < end, "not started again"
        time.sleep(0.02)


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_fails_while_nothing_runs_is_started_again(sig):
    with running(MODELS / "llama", "-tp", "2", "--dtype", "float32") as server:
        reference = ask(server, [5, 6, 7])
        pids = ranks_of(server)
        os.kill(pids[0], sig)
        wait_for_another_rank(server, pids)
        assert ask(server, [5, 6, 7]) == reference
        assert server.stop() == 0


def test_ranks_that_keep_failing_end_the_server():
    with running(MODELS / "llama", "-tp", "2", "--dtype", "float32") as server:
        pids = ranks_of(server)
        for _ in range(3):
            os.kill(pids[0], signal.SIGKILL)
            pids = wait_for_another_rank(server, pids)
            ask(server, [5, 6, 7])
        os.kill(pids[0], signal.SIGKILL)
        assert server.process.wait(timeout=SECONDS_TO_END) == 1
        server.reader.join()
        assert "quire: the engine has stopped, and the server with it: the ranks have failed 4 times within 10 minutes " \
            "(--max-rank-restarts 3)" in "".join(server.log)


def copy_of_model(folder):
    """The small llama as a folder of its own, with one adapter in it."""
    shutil.copytree(MODELS / "llama", folder / "model", ignore=lambda path, names: [
        name for name in names if (Path(path) / name).is_dir() and name != "dora-r4"])
    return folder / "model"


def test_streams_need_nothing_but_the_weights_to_be_computed_again(tmp_path):
    model = copy_of_model(tmp_path)
    adapter = tmp_path / "adapter"
    (model / "dora-r4").rename(adapter)
    with running(model, "-tp", "2", "--dtype", "float32", "--served-model-name", "m", "--enable-lora",
                 "--lora-modules", f"a={adapter}") as server:
        expected = streams_of(server, 4, 200, ["m", "a"])()
        finish = streams_of(server, 4, 200, ["m", "a"])
        shutil.rmtree(adapter)
        (model / "tokenizer.json").unlink(missing_ok=True)
        (model / "other.safetensors").write_bytes(b"no part of the model")
        os.kill(ranks_of(server)[0], signal.SIGKILL)
        assert finish() == expected
        assert server.stop() == 0


def test_changed_weights_end_the_streams_and_the_server(tmp_path):
    """Told by the header alone: size and time are as they were."""
    model = copy_of_model(tmp_path)
    with running(model, "-tp", "2", "--dtype", "float32") as server:
        weights = next(iter(model.glob("*.safetensors")))
        content, status = weights.read_bytes(), weights.stat()
        length = int.from_bytes(content[:8], "little")
        changed = content[8:8 + length].replace(b'{"format":"pt"}', b'{"format":"xx"}')
        assert len(changed) == length and changed != content[8:8 + length]
        # A file of its own: rank 0 goes on with the old one.
        (model / "new").write_bytes(content[:8] + changed + content[8 + length:])
        body = {"prompt": [5, 6, 7], "max_tokens": 400, "ignore_eos": True, "stream": True}
        with requests.post(server.url + "/v1/completions", json=body, stream=True, timeout=60) as stream:
            lines = stream.iter_lines()
            next(lines)
            (model / "new").rename(weights)
            os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.kill(ranks_of(server)[0], signal.SIGKILL)
            events = [line.decode() for line in lines if line]
        assert any('"error"' in event and "have changed since rank 0 loaded them" in event for event in events), events[-3:]
        assert server.process.wait(timeout=2 * SECONDS_TO_END) == 1


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3])
def test_rank_0_killed_while_it_starts_leaves_nothing(seconds):
    """The ranks have a process group of their own, so they are found by what they are."""

    def ranks():
        found = set()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if b"QUIRE_RANK_PARENT=%d\0" % process.pid in (folder / "environ").read_bytes():
                    found.add(int(folder.name))
            except OSError:
                continue
        return found

    shared = set(os.listdir("/dev/shm"))
    process = subprocess.Popen([binary(), "serve", MODELS / "llama", "-tp", "3", "--port", "0"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.kill()
    process.wait()
    end = time.monotonic() + SECONDS_TO_END
    while any(is_alive(pid) for pid in ranks()):
        assert time.monotonic() < end, "orphans"
        time.sleep(0.02)
    assert set(os.listdir("/dev/shm")) <= shared


DEMO = os.environ.get("QUIRE_DEMO_MODEL")


@pytest.mark.skipif(not DEMO, reason="QUIRE_DEMO_MODEL is not set (scripts/demo_model.sh)")
def test_the_demo_model_on_two_ranks():
    """5 and 4 of its 9 heads; each rank has less than the whole."""

    def resident(pid):
        return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])

    flags = ["--kv-cache-memory-bytes", "100M", "--dtype", "float32"]
    with running(DEMO, *flags) as whole, running(DEMO, *flags, "-tp", "2") as divided:
        for prompt in ["The capital of France is", "Once upon a time"]:
            check_same_within_rounding(ask(divided, prompt, max_tokens=32), ask(whole, prompt, max_tokens=32))
        all_of_it = resident(whole.process.pid)
        for pid in [divided.process.pid, *ranks_of(divided)]:
            assert resident(pid) < 0.75 * all_of_it


@needs_mpi
def test_ranks_that_mpirun_starts_give_the_same_bits():
    flags = ["complete", "--model", MODELS / "llama", "--dtype", "float32", "--max-tokens", "12", "-q", "abc"]
    divided = run_quire(*flags, "-tp", "2")
    assert divided.returncode == 0, divided.stderr
    under_mpi = run_quire(*flags, "-tp", "2", under=mpirun("2"))
    assert under_mpi.returncode == 0, under_mpi.stderr
    assert under_mpi.stdout == divided.stdout


@needs_mpi
def test_ranks_end_with_the_launcher_of_their_job():
    with running(MODELS / "llama", "-tp", "2", under=mpirun("2")) as job:
        pids = ranks_of(job)
        assert len(pids) == 2
        begin_streams(job)
        job.process.kill()
        wait_until_gone(pids)
