"""A checkpoint that cannot be served is refused with one sentence and exit code 1, before the port is opened."""

import json
import shutil
import struct

import pytest
import requests

from conftest import MODELS, run_quire, running
from safetensors_files import read_tensors, write_tensors

Q_PROJ = "model.layers.0.self_attn.q_proj.weight"


def refusal(model, *flags) -> str:
    """The sentence with which `quire serve` refuses the model."""
    answer = run_quire("serve", model, "--port", "0", *flags)
    lines = answer.stderr.splitlines()
    assert answer.returncode == 1, answer.stderr
    assert answer.stdout == "" and not any("listening" in line for line in lines)
    sentences = [line for line in lines if line.startswith("quire: ")]
    assert sentences == lines[-1:], answer.stderr
    assert sentences[0].endswith(".") and 20 < len(sentences[0]) < 600
    return sentences[0]


@pytest.fixture
def folder(tmp_path):
    """A small model of one shard, for the test to damage."""
    shutil.copytree(MODELS / "qwen2", tmp_path / "model", ignore=shutil.ignore_patterns("*-r*", "golden.json"))
    return tmp_path / "model"


def edit_config(folder, **fields):
    config = json.loads((folder / "config.json").read_text())
    config.update(fields)
    (folder / "config.json").write_text(json.dumps(config))


def edit_tensors(folder, edit):
    """Lets `edit` change the dictionary name -> (dtype, shape, bytes) of model.safetensors."""
    path = folder / "model.safetensors"
    tensors = read_tensors(path)
    edit(tensors)
    write_tensors(path, tensors)


def gguf(architecture: str = "llama", **extra: int) -> bytes:
    """A GGUF file with the metadata of a small model and its embedding alone."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    numbers = {"context_length": 64, "embedding_length": 32, "feed_forward_length": 32, "block_count": 1,
               "attention.head_count": 2, **extra}
    values = [text("general.architecture") + struct.pack("<I", 8) + text(architecture),
              text(f"{architecture}.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)]
    values += [text(f"{architecture}.{key}") + struct.pack("<II", 4, value) for key, value in numbers.items()]
    tensor = text("token_embd.weight") + struct.pack("<IQQIQ", 2, 32, 8, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(values)) + b"".join(values) + tensor
    return head + bytes(-len(head) % 32) + bytes(32 * 8 * 4)


def test_a_missing_path(tmp_path, monkeypatch):
    assert "Hugging Face" in refusal(tmp_path / "nowhere")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "no path some-org/some-model" in refusal("some-org/some-model")


def test_an_empty_folder(tmp_path):
    assert "config.json" in refusal(tmp_path)


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert "notes.txt" in refusal(tmp_path / "notes.txt")


def test_load_01_a_truncated_shard(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(MODELS / "llama", folder)
    shard = sorted(folder.glob("*.safetensors"))[2]
    size = shard.stat().st_size
    shard.write_bytes(shard.read_bytes()[:-100])
    sentence = refusal(folder)
    assert shard.name in sentence and str(size) in sentence and str(size - 100) in sentence
    shard.unlink()
    assert shard.name in refusal(folder)


def test_a_file_beside_the_index_is_told_of(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(MODELS / "llama", folder)
    shutil.copy(MODELS / "qwen2" / "model.safetensors", folder)
    with running(folder) as server:
        assert any("model.safetensors is not read" in line for line in server.log)
    with running(MODELS / "llama") as server:
        assert not any("is not read" in line for line in server.log)


@pytest.mark.parametrize("content, word", [
    ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "LFS pointer"),
    ("<!DOCTYPE html><html><body>Sign in</body></html>", "web page"),
    ("", "empty"),
], ids=["pointer", "page", "empty"])
def test_load_02_something_else_in_place_of_the_weights(folder, content, word):
    (folder / "model.safetensors").write_text(content)
    sentence = refusal(folder)
    assert word in sentence and "model.safetensors" in sentence


def test_pickles_only(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert ".bin" in refusal(folder) and "convert" in refusal(folder)


@pytest.mark.parametrize("fields, words", [
    ({"quantization_config": {"quant_method": "gptq", "bits": 3, "group_size": 128}}, ("gptq", "bits 3")),
    ({"quantization_config": {"quant_method": "foo", "bits": 4}}, ("foo",)),
    ({"quantization_config": {"load_in_4bit": True}}, ("bitsandbytes",)),
    ({"quantization_config": {"quant_method": "awq", "bits": 5}}, ("awq", "bits 5")),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"}}, ("gptq_v2",)),
], ids=["gptq-3-bit", "foo", "bitsandbytes", "awq-5-bit", "gptq-v2"])
def test_quan_05_unsupported_quantization(folder, fields, words):
    (folder / "model.safetensors").unlink()  # the config alone must decide
    edit_config(folder, **fields)
    sentence = refusal(folder)
    assert all(word in sentence for word in words) and "supported are" in sentence


def test_an_unknown_architecture(folder):
    edit_config(folder, architectures=["NoSuchForCausalLM"], model_type="no_such")
    sentence = refusal(folder)
    assert "NoSuchForCausalLM" in sentence and "LlamaForCausalLM" in sentence


@pytest.mark.parametrize("fields, word", [
    ({"hidden_act": "xielu"}, "xielu"),
    ({"num_key_value_heads": 3}, "num_key_value_heads"),
    ({"hidden_size": "large"}, "hidden_size"),
    ({"eos_token_id": 1_000_000}, "eos_token_id"),
    ({"architectures": []}, "architectures"),
    ({"attn_logit_softcapping": 30.0}, "attn_logit_softcapping"),
    ({"rope_scaling": {"rope_type": "longrope", "factor": 2}}, "longrope"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_a_config_that_cannot_be(folder, fields, word):
    edit_config(folder, **fields)
    assert word in refusal(folder)


def test_a_missing_tensor(folder):
    edit_tensors(folder, lambda tensors: tensors.pop(Q_PROJ))
    assert Q_PROJ in refusal(folder) and "missing" in refusal(folder)


def test_an_unexpected_tensor(folder):
    edit_tensors(folder, lambda tensors: tensors.update({"model.layers.0.surprise.weight": ("F32", [1], bytes(4))}))
    assert "model.layers.0.surprise.weight" in refusal(folder)


def test_a_misshapen_tensor(folder):
    def transpose_shape(tensors):
        dtype, shape, values = tensors[Q_PROJ]
        tensors[Q_PROJ] = (dtype, [shape[0] // 2, shape[1] * 2], values)

    edit_tensors(folder, transpose_shape)
    sentence = refusal(folder)
    assert Q_PROJ in sentence and "shape" in sentence


def test_a_tensor_of_integers(folder):
    def as_integers(tensors):
        _, shape, values = tensors[Q_PROJ]
        tensors[Q_PROJ] = ("I8", shape, values[: shape[0] * shape[1]])

    edit_tensors(folder, as_integers)
    sentence = refusal(folder)
    assert Q_PROJ in sentence and "I8" in sentence


def test_weights_that_are_no_numbers_are_told_of(folder):
    """The file is sound, so it is served; but nobody should look for the fault in the prompt."""
    edit_tensors(folder, lambda tensors: tensors.update({Q_PROJ: (*tensors[Q_PROJ][:2], b"\xff" * len(tensors[Q_PROJ][2]))}))
    with running(folder) as server:
        assert not any("finite" in line for line in server.log)
        for _ in range(2):
            answer = requests.post(server.url + "/v1/completions", json={"prompt": [5, 6], "max_tokens": 2, "logprobs": 1}, timeout=30)
            assert answer.status_code == 200
            json.loads(answer.text, parse_constant=lambda name: pytest.fail(name))
        assert sum("not finite numbers" in line for line in server.log) == 1


def test_a_config_that_is_no_json(folder):
    (folder / "config.json").write_text('{"architectures": [')
    assert "config.json" in refusal(folder)


@pytest.mark.parametrize("content", [None, "", '{"a":', "{}", "[]", "\x00\x01"], ids=repr)
def test_a_missing_or_corrupt_tokenizer(folder, content):
    (folder / "tokenizer.json").unlink()
    if content is not None:
        (folder / "tokenizer.json").write_text(content)
    assert "tokenizer.json" in refusal(folder)


def test_load_01_a_gguf_file_cut_short(tmp_path):
    path = tmp_path / "model.gguf"
    whole = gguf()
    for size in (3, 20, 100, len(whole) - 2000, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "model.gguf" in refusal(path), size


def test_a_gguf_file_of_an_unknown_architecture(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf("gemma9"))
    assert "gemma9" in refusal(path)


def test_a_gguf_file_that_asks_for_experts(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(expert_count=8))
    assert "llama.expert_count" in refusal(path)


def test_a_gguf_file_without_most_tensors(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf())
    assert "missing" in refusal(path, "--tokenizer", MODELS / "llama")


def test_load_02_a_pointer_in_place_of_a_gguf_file(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert "LFS pointer" in refusal(path)
