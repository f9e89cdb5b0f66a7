"""Errors, keys, disconnects, drain, metrics: the server around the endpoints."""

import json
import signal
import threading
import time

import openai
import pytest
import requests


def post(server, path="/v1/completions", **body):
    return requests.post(server.url + path, json=body, timeout=60)


def test_srvr_01_unknown_model(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.completions.create(model="does-not-exist", prompt="a")
    assert error.value.code == "model_not_found" and "tiny" in error.value.message


def test_srvr_02_wrong_types(server):
    for field, value in {"prompt": 5, "stop": 5, "stream": "yes", "max_tokens": "ten", "temperature": True}.items():
        answer = post(server, **{"prompt": "a", field: value})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == field
    assert post(server, "/v1/chat/completions", messages={}).json()["error"]["param"] == "messages"
    assert post(server, prompt="a", max_tokens=1).status_code == 200


def test_srvr_04_max_tokens_is_clamped(server):
    limit = requests.get(server.url + "/v1/models", timeout=10).json()["data"][0]["max_model_len"]
    prompt = [5] * (limit - 8)
    answer = post(server, prompt=prompt, max_tokens=100000, ignore_eos=True, temperature=0).json()
    assert answer["choices"][0]["finish_reason"] == "length" and answer["usage"]["total_tokens"] <= limit


def test_chnk_14_too_long_prompt(server):
    limit = requests.get(server.url + "/v1/models", timeout=10).json()["data"][0]["max_model_len"]
    answer = post(server, prompt=[5] * (limit + 50))
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert str(limit) in message.replace(",", "") and str(limit + 50) in message.replace(",", "")


def test_samp_05_and_samp_21(server):
    for body in ('{"prompt": "a", "temperature": NaN}', '{"prompt": "a", "temperature": -Infinity}', '{"prompt": [1, 999999]}'):
        answer = requests.post(server.url + "/v1/completions", data=body, timeout=10)
        assert answer.status_code == 400
        json.loads(answer.text, parse_constant=lambda name: pytest.fail(name))
    assert post(server, prompt="a", max_tokens=1).status_code == 200


def test_samp_04_tiny_temperature_is_greedy(server):
    texts = {post(server, prompt="a b c", max_tokens=8, temperature=t).json()["choices"][0]["text"] for t in (0, 1e-6, 1e-10, 1e-38)}
    assert len(texts) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_strm_07_and_08_disconnect_cancels(server, stream):
    before = server.metric("vllm:request_success_total", finished_reason="abort")
    body = {"prompt": "a", "max_tokens": 100000, "ignore_eos": True, "stream": stream}
    if stream:
        with requests.post(server.url + "/v1/completions", json=body, stream=True, timeout=30) as answer:
            next(answer.iter_lines())
    else:
        with pytest.raises(requests.exceptions.ReadTimeout):
            prompts = [[5, 6, 7]] * 64  # long enough to be cut off while it runs
            requests.post(server.url + "/v1/completions", json={**body, "prompt": prompts}, timeout=0.05)
    server.wait_idle()
    if stream:
        after = server.metric("vllm:request_success_total", finished_reason="abort")
        finished = server.metric("vllm:request_success_total", finished_reason="length")
        assert after == before + 1 or finished > 0


def test_srvr_11_health_under_load(server):
    def run():
        post(server, prompt="a", max_tokens=64, ignore_eos=True)

    threads = [threading.Thread(target=run) for _ in range(32)]
    for thread in threads:
        thread.start()
    begin = time.monotonic()
    assert requests.get(server.url + "/health", timeout=10).status_code == 200
    assert time.monotonic() - begin < 1.0
    for thread in threads:
        thread.join()


def test_metr_03_counters_never_fall(server):
    names = ["vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:prefix_cache_queries_total"]
    before = [server.metric(name) for name in names]
    post(server, prompt="count me", max_tokens=4, ignore_eos=True)
    after = [server.metric(name) for name in names]
    assert all(new >= old for old, new in zip(before, after))
    assert after[1] >= before[1] + 4
    assert server.metric("vllm:time_to_first_token_seconds_count") > 0


def test_srvr_06_api_key(launch):
    guarded = launch("llama", "--api-key", "secret", "--served-model-name", "tiny")
    for path in ("/v1/models", "//v1/models", "/v1/completions", "/tokenize", "/version", "/%76%31/models"):
        assert requests.get(guarded.url + path, timeout=10).status_code == 401
        assert requests.post(guarded.url + path, json={}, timeout=10).status_code == 401
    assert requests.get(guarded.url + "/metrics", timeout=10).status_code == 200
    client = openai.OpenAI(base_url=guarded.url + "/v1", api_key="secret", max_retries=0)
    assert client.models.list().data[0].id == "tiny"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=guarded.url + "/v1", api_key="wrong", max_retries=0).models.list()
    assert guarded.stop() == 0


def test_srvr_08_drain(launch):
    drained = launch("llama", "--served-model-name", "tiny")
    limit = requests.get(drained.url + "/v1/models", timeout=10).json()["data"][0]["max_model_len"]
    body = {"prompt": "a", "max_tokens": limit - 8, "ignore_eos": True, "stream": True}
    answer = requests.post(drained.url + "/v1/completions", json=body, stream=True, timeout=60)
    lines = answer.iter_lines()
    assert next(lines).startswith(b"data: ")
    drained.process.send_signal(signal.SIGTERM)
    assert [line for line in lines if line][-1] == b"data: [DONE]"
    assert drained.process.wait(timeout=40) == 0
