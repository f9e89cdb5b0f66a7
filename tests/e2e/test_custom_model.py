"""A model in a plugin: examples/custom-model built against an installed quire and held against transformers, alone, with
a LoRA adapter, over ranks and stages; and plugins that are wrong, each refused with one sentence.

Needs a build folder (QUIRE_BUILD, default build/) beside the program, since quire is installed from it.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from conftest import ROOT, binary, run_quire, running
from mpi_jobs import mpirun, needs_mpi
from safetensors_files import read_tensors, write_tensors

EXAMPLE = ROOT / "examples" / "custom-model"
BUILD = Path(os.environ.get("QUIRE_BUILD", binary().parent.parent))
sys.path.insert(0, str(EXAMPLE))

from check_parity import check_parity  # noqa: E402

FLOAT32 = ("--dtype", "float32", "--kv-cache-memory-bytes", "64M", "--served-model-name", "custom")

pytestmark = pytest.mark.skipif(not (BUILD / "cmake_install.cmake").exists(), reason="no build folder to install from")


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Where quire is installed: the program and what plugins are built with."""
    prefix = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "plugin")
    assert run(prefix / "bin" / "quire", "--version")
    return prefix


def cmake_builds(source: Path, folder: Path, installed: Path) -> None:
    run("cmake", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={installed}", "-DCMAKE_CXX_FLAGS=-O1")
    run("cmake", "--build", folder)


@pytest.fixture(scope="session")
def plugin(installed, tmp_path_factory):
    """The example, built as its README says."""
    folder = tmp_path_factory.mktemp("example")
    cmake_builds(EXAMPLE, folder, installed)
    return folder / "libstablelm.so"


@pytest.fixture(scope="session")
def faults(installed, tmp_path_factory):
    """The library of wrong models."""
    library = tmp_path_factory.mktemp("faults") / "libfaults.so"
    source = Path(__file__).parent / "plugins" / "faults.cc"
    run(compiler(), "-std=c++20", "-O0", "-fPIC", "-shared", f"-I{installed / 'include'}", source, "-o", library)
    return library


def compiler() -> str:
    return os.environ.get("CXX", "g++")


def c_library(folder: Path, name: str, text: str, *flags: str) -> Path:
    source = folder / f"{name}.c"
    source.write_text(text)
    run("cc", "-shared", "-fPIC", source, "-o", folder / f"lib{name}.so", *flags)
    return folder / f"lib{name}.so"


def refusal(model: Path, *flags) -> str:
    """The sentence with which `quire serve` ends, with exit code 1."""
    answer = run_quire("serve", model, "--port", "0", "--kv-cache-memory-bytes", "64M", *flags)
    assert answer.returncode == 1, answer.stderr
    sentence = answer.stderr.splitlines()[-1]
    assert sentence.startswith("quire: ") and sentence.endswith("."), answer.stderr
    return sentence


def test_every_public_header_compiles_alone(installed, tmp_path):
    headers = sorted((installed / "include").rglob("*.h"))
    assert len(headers) > 40
    listed = {line.split("/", 1)[1].removeprefix("quire/") for line in
              (ROOT / "cmake" / "public_headers.txt").read_text().split()} | {"abi.h"}
    assert {str(path.relative_to(installed / "include" / "quire")) for path in headers} == listed
    processes = []
    for number, header in enumerate(headers):
        source = tmp_path / f"{number}.cc"
        name = header.relative_to(installed / "include")
        source.write_text(f"#include <{name}>\n#include <{name}>\n")
        command = [compiler(), "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                   f"-I{installed / 'include'}", str(source)]
        processes.append((name, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)))
        if len(processes) % 2 == 0:
            for done, process in processes[-2:]:
                assert process.wait() == 0, f"{done}: {process.stderr.read()}"
    for name, process in processes:
        assert process.wait() == 0, f"{name}: {process.stderr.read()}"


def test_the_model_and_an_adapter_agree_with_transformers(plugin):
    flags = ("--model-plugin", plugin, "--enable-lora", "--lora-modules", f"tuned={EXAMPLE / 'adapter'}")
    with running(EXAMPLE / "checkpoint", *FLOAT32, *map(str, flags)) as server:
        assert check_parity(server.url, EXAMPLE / "checkpoint", "custom") == []
        assert check_parity(server.url, EXAMPLE / "adapter", "tuned") == []
        assert check_parity(server.url, EXAMPLE / "checkpoint", "custom") == []
        assert check_parity(server.url, EXAMPLE / "adapter", "custom") != []


def test_loaded_by_name_and_with_a_sequential_residual(plugin):
    flags = ("--model-plugin", f"StableLmForCausalLM={plugin}", "--tokenizer", str(EXAMPLE / "checkpoint"))
    with running(EXAMPLE / "sequential", *FLOAT32, *flags) as server:
        assert check_parity(server.url, EXAMPLE / "sequential", "custom") == []


@pytest.mark.parametrize(("ranks", "sizes"), [(2, ("-tp", "2")), (3, ("-tp", "3")), (4, ("-tp", "2", "-pp", "2"))],
                         ids=["tp2", "tp3", "tp2-pp2"])
def test_over_ranks(plugin, ranks, sizes):
    flags = ("--model-plugin", plugin, "--enable-lora", "--lora-modules", f"tuned={EXAMPLE / 'adapter'}", *sizes)
    with running(EXAMPLE / "checkpoint", *FLOAT32, *map(str, flags)) as server:
        assert any(f"{ranks} ranks" in line for line in server.log), "".join(server.log)
        assert check_parity(server.url, EXAMPLE / "checkpoint", "custom") == []
        assert check_parity(server.url, EXAMPLE / "adapter", "tuned") == []


@needs_mpi
def test_over_the_ranks_of_an_mpi_job(plugin):
    flags = ("--model-plugin", str(plugin), "--enable-lora", "--lora-modules", f"tuned={EXAMPLE / 'adapter'}", "-tp", "2")
    with running(EXAMPLE / "checkpoint", *FLOAT32, *flags, under=mpirun("2")) as server:
        assert check_parity(server.url, EXAMPLE / "checkpoint", "custom") == []
        assert check_parity(server.url, EXAMPLE / "adapter", "tuned") == []
        server.stop()


def test_a_program_that_embeds_quire_loads_the_plugin_too(installed, plugin, tmp_path):
    run("cmake", "--build", BUILD, "--target", "quire_library")
    run("cmake", "--install", BUILD, "--prefix", installed, "--component", "embedding")
    shutil.copy(Path(__file__).parent / "plugins" / "embedder.cc", tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(embedder LANGUAGES CXX)\nfind_package(quire REQUIRED)\n"
        "add_executable(embedder embedder.cc)\ntarget_link_libraries(embedder PRIVATE quire::quire)\n")
    cmake_builds(tmp_path, tmp_path / "build", installed)
    for prompt in json.loads((EXAMPLE / "checkpoint" / "golden.json").read_text())["prompts"][:1]:
        lines = run(tmp_path / "build" / "embedder", EXAMPLE / "checkpoint", plugin, *prompt["token_ids"]).splitlines()
        assert [int(line) for line in lines] == prompt["greedy_token_ids"]  # and nothing of the library's log


def test_a_plugin_for_another_architecture_is_not_loaded(tmp_path):
    sentence = refusal(EXAMPLE / "checkpoint", "--model-plugin", f"OtherForCausalLM={tmp_path / 'missing.so'}")
    assert "StableLmForCausalLM is not supported" in sentence and "--model-plugin" in sentence


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(EXAMPLE / "checkpoint", tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder: Path, **fields) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"layer_norm_eps": "small"}, ["layer_norm_eps", "number", "small"]),
        ({"use_qkv_bias": 3}, ["use_qkv_bias", "true or false"]),
        ({"qk_layernorm": True}, ["qk_layernorm", "false", "true"]),
        ({"sliding_window": 64}, ["sliding attention", "StableLmForCausalLM"]),
        ({"attention_bias": True}, ["attention_bias", "StableLmForCausalLM"]),
        ({"num_local_experts": 8}, ["num_local_experts", "StableLmForCausalLM"]),
        ({"a_new_trick": 1}, ["a_new_trick", "ArchitectureConfig"]),
        ({"hidden_size": None}, ["hidden_size is missing"]),
        ({"model_type": "llama"}, ["model_type", "StableLmForCausalLM"]),
        ({"use_parallel_residual": False}, ["missing", "model.layers.0.post_attention_layernorm"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_config_fields_are_judged(plugin, folder, fields, words):
    edit_config(folder, **fields)
    sentence = refusal(folder, "--model-plugin", plugin)
    assert all(word in sentence for word in words), sentence


def test_unexpected_weights_are_refused_unless_they_are_ignored_knowingly(plugin, folder):
    path = folder / "model.safetensors"
    tensors = read_tensors(path)
    tensors["model.vision.weight"] = ("F32", [2], struct.pack("<2f", 1, 2))
    tensors["model.audio.weight"] = tensors["model.vision.weight"]
    write_tensors(path, tensors)
    flags = ("--model-plugin", str(plugin))
    sentence = refusal(folder, *flags)
    assert "model.vision.weight" in sentence and "model.audio.weight" in sentence
    sentence = refusal(folder, *flags, "--ignore-unexpected-weights", "vision")
    assert "model.audio.weight" in sentence and "model.vision.weight" not in sentence
    assert "regular expression" in refusal(folder, *flags, "--ignore-unexpected-weights", "(")
    with running(folder, *FLOAT32, *flags, "--ignore-unexpected-weights", r"^model\.(vision|audio)\.") as server:
        assert any("model.vision.weight" in line and "ignored" in line for line in server.log)
        assert check_parity(server.url, EXAMPLE / "checkpoint", "custom") == []


@pytest.mark.parametrize(
    ("fault", "words"),
    {
        "ThrowsInFactory": ["ThrowsInFactory", "libfaults.so", "no luck with the factory"],
        "GivesNothing": ["GivesNothing", "returned nothing"],
        "Refuses": ["does not like its config"],
        "WrongShape": ["model.norm.weight has shape [96]", "[97]"],
        "MissingWeight": ["missing", "model.no_such_norm.weight", "would not be used", "model.norm.weight"],
        "ThrowsInLoad": ["no luck with the weights"],
        "ThrowsInForward": ["ThrowsInForward", "first tokens"],
        "WrongLayer": ["WrongLayer", "first tokens"],
        "AllRows": ["AllRows", "hidden states of shape"],
        "WrongLogits": ["WrongLogits", "logits of shape"],
        "NoAttention": ["NoAttention", "no attention layer"],
        "NoHeads": ["NoHeads", "without heads"],
        "ThrowsInSpecs": ["no std::exception"],
        "ThrowsInNames": ["no luck with the names"],
        "NoTensor": ["NoTensor", "hidden states of shape [0, 0]"],
        "ThrowsInLogits": ["ThrowsInLogits", "first tokens", "no luck with the logits"],
        "ThrowsInNoexcept": ["noexcept", "no luck at all"],
    }.items(),
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_wrong_model_is_a_sentence_at_load(faults, folder, fault, words):
    choose_fault(folder, fault)
    for flags in ((), ("-tp", "2")):
        sentence = refusal(folder, "--model-plugin", faults, *flags)
        assert all(word in sentence for word in words), sentence


def test_a_step_that_the_model_breaks_costs_only_its_requests(faults, folder):
    """Over ranks too, however often."""
    choose_fault(folder, "ThrowsForLongPrompts")
    flags = ("--model-plugin", str(faults), "--kv-cache-memory-bytes", "64M")
    with running(folder, *flags) as alone, running(folder, *flags, "-tp", "2") as divided:
        for server in (alone, divided):
            for _ in range(5):
                answers = [requests.post(server.url + "/v1/completions", json={"prompt": [5] * tokens, "max_tokens": 2},
                                         timeout=60) for tokens in (50, 3)]
                assert [answer.status_code for answer in answers] == [500, 200]
                assert "the prompt is too long for me" in answers[0].text


def choose_fault(folder: Path, fault: str) -> None:
    edit_config(folder, architectures=[fault], model_type="", num_hidden_layers=1, head_dim=16)
    config = json.loads((folder / "config.json").read_text())
    for own in ("layer_norm_eps", "use_qkv_bias", "use_parallel_residual", "partial_rotary_factor", "rope_parameters"):
        config.pop(own)
    (folder / "config.json").write_text(json.dumps(config))
    path = folder / "model.safetensors"
    write_tensors(path, {name: tensor for name, tensor in read_tensors(path).items() if ".layers." not in name})


def test_replacing_a_built_in_model_is_logged(faults):
    model = ROOT / "tests" / "golden" / "models" / "llama"
    answer = run_quire("serve", model, "--port", "0", "--model-plugin", faults)
    assert "does not like its config" in answer.stderr.splitlines()[-1]
    assert any("LlamaForCausalLM (built in) is replaced" in line for line in answer.stderr.splitlines())
    # A plugin that registers a name twice is told so, and its last one counts.
    assert any("Refuses" in line and "is replaced" in line for line in answer.stderr.splitlines())


def test_a_file_that_is_no_plugin_is_refused(tmp_path, plugin):
    model = EXAMPLE / "checkpoint"
    assert "is not found" in refusal(model, "--model-plugin", tmp_path / "none.so")
    (tmp_path / "text.so").write_text("not a library")
    assert "no shared library" in refusal(model, "--model-plugin", tmp_path / "text.so")
    (tmp_path / "cut.so").write_bytes(plugin.read_bytes()[:5000])
    assert "cut short" in refusal(model, "--model-plugin", tmp_path / "cut.so")
    empty = c_library(tmp_path, "empty", "int nothing;")
    assert "no plugin of quire" in refusal(model, "--model-plugin", empty)
    other = c_library(tmp_path, "other", 'const char* quire_plugin_abi() { return "quire 0.0.1"; }'
                                         "void quire_plugin_register() { __builtin_trap(); }")
    sentence = refusal(model, "--model-plugin", other)
    assert "built for quire 0.0.1" in sentence and "this is quire " in sentence
    nothing = c_library(tmp_path, "symbols", "void missing_symbol(); void quire_plugin_register() { missing_symbol(); }"
                                             'const char* quire_plugin_abi() { return ""; }')
    assert "missing_symbol" in refusal(model, "--model-plugin", nothing)


def test_another_abi_is_refused_before_any_code_of_the_plugin_runs(tmp_path, plugin):
    changed = tmp_path / "libchanged.so"
    data = plugin.read_bytes()
    at = data.index(b"quire plugin ABI: quire ") + len(b"quire plugin ABI: quire ")
    changed.write_bytes(data[:at] + b"9" + data[at + 1 :])
    # Were it loaded, an initialiser would end the program.
    trap = c_library(tmp_path, "trap", '__attribute__((constructor)) static void run() { __builtin_trap(); }'
                                       'const char abi[] = "quire plugin ABI: quire 9.9.9, headers 0";')
    for library, version in ((changed, "quire 9"), (trap, "quire 9.9.9")):
        sentence = refusal(EXAMPLE / "checkpoint", "--model-plugin", library)
        assert f"was built for {version}" in sentence and "this is quire " in sentence and "headers" in sentence


def test_a_plugin_of_another_standard_library_mode_or_without_models_is_refused(installed, tmp_path):
    (tmp_path / "none.cc").write_text("#include <quire/plugin.h>\nQUIRE_PLUGIN() {}\n")
    for flags, words in ((["-D_GLIBCXX_DEBUG"], "in debug mode, but this is quire "), (["-O3", "-DNDEBUG"], "registers no model")):
        run(compiler(), "-std=c++20", "-fPIC", "-shared", *flags, f"-I{installed / 'include'}", tmp_path / "none.cc", "-o",
            tmp_path / "none.so")
        assert words in refusal(EXAMPLE / "checkpoint", "--model-plugin", tmp_path / "none.so")


def test_a_library_that_registers_nothing_is_refused_for_the_name_it_is_given(plugin, folder):
    edit_config(folder, architectures=["OtherForCausalLM"])
    sentence = refusal(folder, "--model-plugin", f"OtherForCausalLM={plugin}")
    assert "OtherForCausalLM" in sentence and "registers no such model" in sentence


def test_adapters_are_merged_and_inspected_with_the_plugin(plugin, tmp_path):
    model = ("--model", EXAMPLE / "checkpoint", "--model-plugin", plugin)
    answer = run_quire("lora", "inspect", EXAMPLE / "adapter", *model)
    assert answer.returncode == 0, answer.stderr
    answer = run_quire("lora", "merge", *model, "--lora", EXAMPLE / "adapter", "--output", tmp_path / "merged")
    assert answer.returncode == 0, answer.stderr
    with running(tmp_path / "merged", *FLOAT32, "--model-plugin", str(plugin)) as server:
        assert check_parity(server.url, EXAMPLE / "adapter", "custom") == []
