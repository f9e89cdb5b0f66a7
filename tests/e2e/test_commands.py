"""The other commands, run for real."""

import json
import re
import signal
import subprocess
import threading
import time

import pytest

from conftest import MODELS, binary, run_quire, running

COMMANDS = [(), ("serve",), ("pull",), ("chat",), ("complete",), ("bench",), ("bench", "serve"), ("bench", "throughput"),
            ("bench", "latency"), ("bench", "machine"), ("collect-env",)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command) or "quire")
def test_help(command):
    answer = run_quire(*command, "--help")
    assert answer.returncode == 0 and answer.stderr == "" and "Usage: quire" in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) < 250


@pytest.mark.parametrize("command, word", [
    (("nonsense",), "nonsense"),
    (("serve",), "needs a model"),
    (("serve", MODELS / "llama", "--no-such-flag"), "--no-such-flag"),
    (("serve", MODELS / "llama", "--port", "99999"), "--port"),
    (("serve", MODELS / "llama", "--dtype", "int3"), "--dtype"),
    (("serve", MODELS / "llama", "-dp", "2"), "parallel"),
    (("serve", MODELS / "llama", "--served-model-name", ""), "--served-model-name"),
    (("bench", "serve", "--num-prompts", "0"), "--num-prompts"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_command_line_is_one_sentence(command, word):
    answer = run_quire(*command)
    assert answer.returncode == 2 and answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1 and answer.stderr.startswith("quire: ") and word in answer.stderr


@pytest.mark.parametrize("flags, words", [
    (("--no-enable-chunked-prefill", "--max-num-batched-tokens", "256"), ("256", "1024")),  # CHNK-12
    (("--max-num-batched-tokens", "4", "--max-num-seqs", "8"), ("4", "8")),  # CHNK-13
    (("--long-prefill-token-threshold", "2000"), ("2000",)),
    (("--max-model-len", "100000"), ("100000", "1024")),
], ids=lambda value: value[0] if value[0].startswith("--") else "")
def test_chnk_12_and_chnk_13_contradictions_are_refused(flags, words):
    answer = run_quire("serve", MODELS / "llama", "--port", "0", *flags)
    assert answer.returncode in (1, 2)
    sentence = answer.stderr.splitlines()[-1]
    assert sentence.startswith("quire: ") and all(word in sentence for word in words)


@pytest.mark.parametrize("flags, setting", [((), "on"), (("--no-enable-chunked-prefill", "--max-num-batched-tokens", "1024"), "off")],
                         ids=("default", "off"))
def test_chnk_12_the_start_states_the_setting(flags, setting):
    with running(MODELS / "llama", *flags) as server:
        assert any(f"Chunked prefill {setting}," in line for line in server.log)


@pytest.mark.parametrize("flags, weights, cache", [((), "float32", "float32"), (("--dtype", "bfloat16"), "bfloat16", "bfloat16"),
                                                   (("--dtype", "half", "--kv-cache-dtype", "float32"), "float16", "float32")],
                         ids=("as-stored", "bfloat16", "half"))
def test_load_18_the_start_states_the_types(flags, weights, cache):
    with running(MODELS / "llama", *flags) as server:
        assert any(re.search(rf"weights \S+ GiB \({weights} .*KV cache {cache} ", line) for line in server.log), server.log


@pytest.mark.parametrize("model", ["/no/such/folder", "", str(MODELS), "/etc/passwd", "/dev/null"])
def test_a_model_that_is_none(model):
    answer = run_quire("serve", model, "--port", "0")
    assert answer.returncode in (1, 2) and answer.stderr.splitlines()[-1].startswith("quire: ")


def test_a_tokenizer_that_is_none():
    answer = run_quire("serve", MODELS / "llama", "--port", "0", "--tokenizer", "/no/such/tokenizer")
    assert answer.returncode == 1 and "tokenizer's path '/no/such/tokenizer' does not exist" in answer.stderr.splitlines()[-1]


def test_a_taken_port(server):
    port = server.url.rpartition(":")[2]
    answer = run_quire("serve", MODELS / "no-such-model", "--port", port)
    assert answer.returncode == 1 and port in answer.stderr.splitlines()[-1]
    assert "no-such-model" not in answer.stderr  # it is said before the model is looked at


def test_complete_in_this_process_and_by_a_server(server):
    flags = ("-q", "The quick brown fox", "--temperature", "0", "--max-tokens", "12")
    local = run_quire("complete", "--model", MODELS / "llama", "--dtype", "float32", *flags)
    remote = run_quire("complete", "--url", server.url + "/v1", *flags, "--stats")
    assert local.returncode == remote.returncode == 0 and len(local.stdout) > 1
    assert remote.stdout.startswith(local.stdout.rstrip("\n"))
    assert re.search(r"14 prompt tokens, 12 output tokens", remote.stdout + remote.stderr)


def test_complete_reads_a_prompt_a_line(server):
    flags = ("--url", server.url + "/v1", "--temperature", "0", "--max-tokens", "4")
    answer = run_quire("complete", *flags, stdin="one\ntwo\n")
    each = [run_quire("complete", *flags, "-q", prompt).stdout.rstrip("\n") for prompt in ("one", "two")]
    assert answer.returncode == 0 and all(text in answer.stdout for text in each)


def test_chat_holds_a_conversation(server):
    flags = ("--url", server.url + "/v1", "--temperature", "0", "--max-tokens", "8")
    answer = run_quire("chat", *flags, stdin="Hello\n/system Be brief\n/reset\n/help\nMore\n/quit\nnever sent\n")
    assert answer.returncode == 0 and "/reset" in answer.stdout + answer.stderr
    quick = run_quire("chat", *flags, "-q", "Hello")
    assert quick.returncode == 0 and quick.stdout.strip() in answer.stdout


def test_clients_without_a_server_say_so():
    for command in (("chat",), ("complete",), ("bench", "serve", "--num-prompts", "1")):
        flags = ("--base-url", "http://127.0.0.1:9") if command[0] == "bench" else ("--url", "http://127.0.0.1:9/v1", "-q", "a")
        answer = run_quire(*command, *flags)
        assert answer.returncode == 1 and len(answer.stderr.splitlines()) == 1 and "127.0.0.1" in answer.stderr


@pytest.mark.parametrize("backend", ["openai", "openai-chat"])
def test_bench_serve(server, tmp_path, backend):
    answer = run_quire("bench", "serve", "--base-url", server.url, "--backend", backend, "--num-prompts", "24",
                       "--random-input-len", "40", "--random-output-len", "16", "--random-range-ratio", "0.5", "--ignore-eos",
                       "--max-concurrency", "8", "--num-warmups", "2", "--metric-percentiles", "50,99", "--save-result",
                       "--save-detailed", "--result-dir", tmp_path, "--result-filename", "result.json", "--metadata", "run=e2e",
                       "--disable-tqdm")
    assert answer.returncode == 0, answer.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["completed"] == 24 and result["failed"] == 0 and result["run"] == "e2e"
    assert result["total_output_tokens"] == sum(result["output_lens"]) and 8 * 24 <= result["total_output_tokens"] <= 24 * 24
    for name in ("ttft", "tpot", "itl", "e2el"):
        assert 0 < result[f"p50_{name}_ms"] <= result[f"p99_{name}_ms"] and result[f"mean_{name}_ms"] > 0
    assert result["mean_e2el_ms"] > result["mean_ttft_ms"]
    assert "Request throughput" in answer.stdout and "P99 TTFT" in answer.stdout


def test_bench_serve_counts_failures(server):
    answer = run_quire("bench", "serve", "--base-url", server.url, "--model", "no-such-model", "--num-prompts", "3",
                       "--random-vocab-size", "500", "--disable-tqdm")
    assert answer.returncode == 1 and "no-such-model" in answer.stderr


@pytest.mark.parametrize("command, flags, key", [
    ("throughput", ("--num-prompts", "12", "--input-len", "24", "--output-len", "8"), "tokens_per_second"),
    ("latency", ("--batch-size", "2", "--num-iters", "2", "--num-iters-warmup", "1", "--output-len", "8"), "avg_latency"),
])
def test_offline_benches(tmp_path, command, flags, key):
    answer = run_quire("bench", command, "--model", MODELS / "llama", *flags, "--output-json", tmp_path / "out.json", "--disable-tqdm")
    assert answer.returncode == 0, answer.stderr
    assert json.loads((tmp_path / "out.json").read_text())[key] > 0


def test_collect_env():
    answer = run_quire("collect-env", environment={"QUIRE_API_KEY": "do-not-print"})
    assert answer.returncode == 0 and "do-not-print" not in answer.stdout + answer.stderr
    assert re.search(r"generic|avx2|avx512", answer.stdout)


def test_output_into_a_closed_pipe_ends_the_program():
    process = subprocess.Popen([binary(), "complete", "--model", MODELS / "llama", "-q", "a", "--max-tokens", "900"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(timeout=30) in (0, 1)


def test_an_interrupt_ends_a_command():
    process = subprocess.Popen([binary(), "bench", "throughput", "--model", MODELS / "llama", "--num-prompts", "100000"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               # a shell's background jobs, and what they start, ignore it
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) != 0
