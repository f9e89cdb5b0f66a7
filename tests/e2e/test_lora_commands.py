"""`quire lora inspect` and `quire lora merge` as programs: what they print, what they write, what they leave behind."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from adapters import GOLDEN, copy_adapter
from conftest import MODELS, binary, run_quire, running
from safetensors_files import read_tensors, write_tensors
from test_lora import ask

TIED = MODELS / "llama-tied-bias"


def inspect(*arguments):
    return run_quire("lora", "inspect", *arguments)


def merge(model, adapter, output, *flags, **options):
    return run_quire("lora", "merge", "--model", model, "--lora", adapter, "--output", output, *flags, **options)


def one_sentence(command, *words):
    """A command that was refused, in one line that has all of `words`."""
    lines = command.stderr.splitlines()
    assert command.stdout == "" and command.returncode == 1 and len(lines) == 1 and lines[0].startswith("quire: "), (command.returncode, command.stderr)
    assert all(word in lines[0] for word in words), lines[0]
    return True


def test_inspect_says_what_an_adapter_holds():
    shown = inspect(GOLDEN / "rank-pattern", "--model", MODELS / "llama")
    assert shown.returncode == 0 and shown.stderr == ""
    assert "trained on  llama" in shown.stdout and f"It fits {MODELS / 'llama'}." in shown.stdout
    report = json.loads(inspect(GOLDEN / "embed-and-head", "--json", "--model", MODELS / "llama").stdout)
    assert report["fits"] and report["base_model_name"] == "llama"
    kinds = {module["path"]: module["kind"] for module in report["modules"]}
    assert kinds["model.embed_tokens"] == "embedding pair" and kinds["lm_head"] == "pair"
    shown = inspect(TIED / "tied-together-r4", "--model", TIED)
    assert shown.returncode == 0 and "lm_head" in shown.stdout


def wide_adapter(target):
    """One for a model of twice the hidden size."""

    def widen(tensors):
        for name, (dtype, (rows, columns), data) in list(tensors.items()):
            if "lora_A" in name:
                tensors[name] = (dtype, [rows, 2 * columns], data * 2)

    return copy_adapter(target, edit=widen)


def test_inspect_of_an_adapter_for_another_model(tmp_path):
    adapter = wide_adapter(tmp_path / "wide")
    other = inspect(adapter, "--model", MODELS / "llama")
    assert other.returncode == 1 and other.stderr.startswith("quire: ") and len(other.stderr.splitlines()) == 1
    assert "trained on  llama" in other.stdout and "It fits" not in other.stdout
    report = json.loads(inspect(adapter, "--json", "--model", MODELS / "llama").stdout)
    assert report["fits"] is False and f"quire: {report['reason']}." == other.stderr.strip()
    assert "lora_A" in report["reason"] and "64" in report["reason"] and "128" in report["reason"]
    tied = inspect(TIED / "tied-together-r4", "--model", MODELS / "llama")
    assert tied.returncode == 1 and "'lm_head'" in tied.stderr and "head of its own" in tied.stderr


def test_inspect_of_what_is_no_adapter(tmp_path):
    (tmp_path / "empty").mkdir()
    for path, word in [("nowhere", "not found"), ("empty", "adapter_config.json")]:
        assert one_sentence(inspect(tmp_path / path), path, word)
    broken = copy_adapter(tmp_path / "broken")
    weights = broken / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    assert one_sentence(inspect(broken), "adapter_model.safetensors")
    shutil.copy(GOLDEN / "qv-r4" / "adapter_model.safetensors", broken)
    for text in ("{", "[]", '{"peft_type": "LORA", "r": "8"}', '{"peft_type": "IA3"}'):
        (broken / "adapter_config.json").write_text(text)
        assert one_sentence(inspect(broken), "adapter_config.json")
    assert one_sentence(inspect(GOLDEN / "qv-r4", "--model", tmp_path / "none"), "none")
    assert inspect().returncode == 2


def float32_copy(model, target):
    """The model with its weights widened, so that merging rounds nothing."""
    target.mkdir()
    tensors = {}
    for path in model.iterdir():
        if path.suffix == ".safetensors":
            tensors |= read_tensors(path)
        elif path.is_file() and not path.name.endswith(".index.json"):
            shutil.copy(path, target)
    for name, (dtype, shape, data) in tensors.items():
        assert dtype in ("F32", "BF16"), f"{name} is {dtype}"
        if dtype == "BF16":
            wide = bytearray(2 * len(data))
            wide[2::4], wide[3::4] = data[0::2], data[1::2]
            tensors[name] = ("F32", shape, bytes(wide))
    write_tensors(target / "model.safetensors", tensors)
    return target


@pytest.mark.parametrize("model, adapter", [("llama", "all-r8"), ("llama", "dora-embedding"), ("llama", "trained-head"),
                                            ("llama-tied-bias", "tied-together-r4"), ("llama-tied-bias", "tied-tokens"),
                                            ("qwen2", "mlp-r2")])
def test_a_merged_model_answers_as_the_adapter(model, adapter, tmp_path):
    exact = float32_copy(MODELS / model, tmp_path / "exact")
    merged = merge(exact, MODELS / model / adapter, tmp_path / "merged", "--max-shard-size", "100k")
    assert merged.returncode == 0, merged.stderr
    assert str(tmp_path / "merged") in merged.stdout and (tmp_path / "merged" / "model.safetensors.index.json").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exact", "merged"]
    exactly = ("--dtype", "float32")
    lora = ("--enable-lora", "--lora-modules", f"it={MODELS / model / adapter}")
    with running(exact, "--served-model-name", "base", *exactly, *lora) as server:
        base, adapted = ask(server, "base"), ask(server, "it")
    with running(tmp_path / "merged", "--served-model-name", "it", *exactly) as server:
        answer = ask(server, "it")
    assert answer["token_ids"] == adapted["token_ids"]
    distances = [abs(a - b) for a, b in zip(answer["logprobs"]["token_logprobs"], adapted["logprobs"]["token_logprobs"])]
    assert max(distances) < 1e-4
    assert base["logprobs"] != adapted["logprobs"]


def test_merge_refuses_an_output_that_exists(tmp_path):
    taken = tmp_path / "taken"
    taken.mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for output in ("taken", "file", "link", "taken/"):
        assert one_sentence(merge(MODELS / "llama", GOLDEN / "qv-r4", f"{tmp_path}/{output}"), "exists already")
    assert one_sentence(merge(MODELS / "llama", GOLDEN / "qv-r4", MODELS / "llama"), "exists already")
    assert one_sentence(merge(MODELS / "llama", GOLDEN / "qv-r4", tmp_path / "file" / "new"), "file")
    assert one_sentence(merge(MODELS / "llama", wide_adapter(tmp_path / "wide"), tmp_path / "new"), "wide", "lora_A")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "taken", "wide"] and not list(taken.iterdir())
    assert (tmp_path / "file").read_text() == "mine"


def wide_model(folder):
    """A model of one wide projection, and an adapter for it whose merge takes seconds."""
    size, rank, layers = 4096, 256, 12
    model, adapter = folder / "wide", folder / "wide-adapter"
    model.mkdir()
    shutil.copy(MODELS / "llama" / "config.json", model)
    names = [f"model.layers.{layer}.self_attn.q_proj" for layer in range(layers)]
    weight = ("BF16", [size, size], bytes(2 * size * size))
    write_tensors(model / "model.safetensors", {f"{name}.weight": weight for name in names})

    def widen(tensors):
        tensors.clear()
        for name in names:
            tensors[f"base_model.model.{name}.lora_A.weight"] = ("BF16", [rank, size], b"\x01\x3c" * (rank * size))
            tensors[f"base_model.model.{name}.lora_B.weight"] = ("BF16", [size, rank], b"\x01\x3c" * (rank * size))

    copy_adapter(adapter, config={"r": rank}, edit=widen)
    return model, adapter


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda ending: ending.name)
def test_a_signal_leaves_nothing_of_a_merge(tmp_path, ending):
    model, adapter = wide_model(tmp_path)
    output = tmp_path / "out" / "merged"
    command = [binary(), "lora", "merge", "--model", model, "--lora", adapter, "--output", output]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not list(tmp_path.glob("out/.merged.partial-*/*.safetensors")):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    assert not output.exists()
    process.send_signal(ending)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + ending and "interrupted" in stderr.splitlines()[-1], (process.returncode, stderr)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_full_disk_ends_a_merge_with_a_sentence(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk], capture_output=True)
    if not mounted or mounted.returncode != 0:
        pytest.skip("cannot mount a small file system here")
    try:
        for _ in range(2):
            assert one_sentence(merge(MODELS / "llama", GOLDEN / "qv-r4", disk / "merged"), "No space left on device", str(disk))
            assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)
