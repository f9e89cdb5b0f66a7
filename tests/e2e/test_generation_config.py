"""Defaults that a checkpoint's generation_config.json gives, and --generation-config vllm, which does without."""

import json
import shutil

import pytest
import requests

from conftest import MODELS, start_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generation") / "model"
    shutil.copytree(MODELS / "llama", folder)
    settings = {"eos_token_id": [2, 7], "temperature": 0.0, "max_new_tokens": 3, "repetition_penalty": 1.25, "min_p": 0.1}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder


def ask(server, **body):
    body = {"prompt": "a b c", "ignore_eos": True, **body}
    return requests.post(server.url + "/v1/completions", json=body, timeout=60).json()


def test_the_files_defaults_are_taken(folder):
    server = start_server(folder)
    try:
        assert ask(server, max_tokens=10)["usage"]["completion_tokens"] == 3
        texts = {ask(server)["choices"][0]["text"] for _ in range(8)}
        assert len(texts) == 1, "temperature 0 is the default"
        spelt_out = {"temperature": 0, "repetition_penalty": 1.25, "min_p": 0.1}
        assert ask(server, **spelt_out)["choices"] == ask(server)["choices"]
    finally:
        server.stop()


def test_generation_config_vllm_does_without(folder):
    server = start_server(folder, "--generation-config", "vllm")
    try:
        assert ask(server, max_tokens=10)["usage"]["completion_tokens"] == 10
        texts = {ask(server, max_tokens=10)["choices"][0]["text"] for _ in range(8)}
        assert len(texts) > 1, "temperature 1 is the default"
    finally:
        server.stop()
