"""Cases of public bug reports, at the level of the running server; tests bear the cases' ids."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest
import requests

from conftest import MODELS, run_quire, running

BLOCK = 16


def post(server, path="/v1/completions", **body):
    return requests.post(server.url + path, json=body, timeout=60)


def complete(server, **body):
    answer = post(server, **{"max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(server, path="/v1/completions", **body):
    """The data of a stream's events, [DONE] last."""
    with requests.post(server.url + path, json={**body, "stream": True}, stream=True, timeout=60) as answer:
        assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/event-stream")
        return [line[6:].decode() for line in answer.iter_lines() if line.startswith(b"data: ")]


@pytest.fixture
def altered(tmp_path):
    """A copy of the small llama whose JSON files are changed, or dropped (None)."""
    def make(**changes):
        folder = tmp_path / "model"
        shutil.copytree(MODELS / "llama", folder)
        for name, change in changes.items():
            path = folder / (name + ".json")
            if change is None:
                path.unlink()
            else:
                path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        return folder
    return make


# Chunked prefill and scheduling

def test_chnk_04_larger_than_the_pool():
    with running(MODELS / "llama", "--num-gpu-blocks-override", "16") as server:
        with ThreadPoolExecutor(2) as pool:
            large, small = pool.map(lambda n: post(server, prompt=[5] * n, max_tokens=4), (600, 10))
        assert large.status_code == 400 and small.status_code == 200
        message = large.json()["error"]["message"]
        assert "600" in message and re.search(r"\b2[45]\d\b", message)  # 256, or what is left of it


def test_chnk_08_a_huge_request_among_tiny_ones():
    with running(MODELS / "llama", "--num-gpu-blocks-override", "40", "--max-num-seqs", "16") as server:
        prompts = [[9] * 16] * 6 + [[8] * 600] + [[7] * 10] * 12
        with ThreadPoolExecutor(len(prompts)) as pool:
            answers = list(pool.map(lambda p: post(server, prompt=p, max_tokens=40, ignore_eos=True), prompts))
        assert [answer.status_code for answer in answers] == [200] * len(prompts)
        assert all(answer.json()["choices"][0]["finish_reason"] == "length" for answer in answers)


# Prefix caching

def test_pfx_01_only_the_true_common_prefix_hits(server):
    base = [100 + i % 50 for i in range(6 * BLOCK)]
    first = [99] + base[1:]
    end_of_block = base[: BLOCK - 1] + [99] + base[BLOCK:]
    swapped = base[:BLOCK] + base[2 * BLOCK : 3 * BLOCK] + base[BLOCK : 2 * BLOCK] + base[3 * BLOCK :]
    for number, (other, shared) in enumerate([(first, 0), (end_of_block, 0), (swapped, BLOCK)]):
        uncached = complete(server, prompt=other, cache_salt=f"pfx01-{number}-cold", logprobs=2)
        complete(server, prompt=base, cache_salt=f"pfx01-{number}")
        answer = complete(server, prompt=other, cache_salt=f"pfx01-{number}", logprobs=2)
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == shared
        assert answer["choices"][0]["logprobs"] == uncached["choices"][0]["logprobs"]


def test_pfx_06_a_whole_prompt_is_cached_already(server):
    for body in ({"max_tokens": 8}, {"max_tokens": 1, "logprobs": 3}):
        body = {"prompt": list(range(50, 50 + 4 * BLOCK)), "cache_salt": f"pfx06-{body['max_tokens']}", **body}
        cold, warm = complete(server, **body), complete(server, **body)
        assert warm["choices"] == cold["choices"]
        assert 0 < warm["usage"]["prompt_tokens_details"]["cached_tokens"] < 4 * BLOCK


# Sampling

def test_samp_08_disabled_top_k(server):
    body = {"prompt": [5, 6, 7], "max_tokens": 24, "temperature": 1.0, "seed": 3}
    absent, minus_one, zero, one = (complete(server, **body, **extra)["choices"][0]["token_ids"]
                                    for extra in ({}, {"top_k": -1}, {"top_k": 0}, {"top_k": 1}))
    greedy = complete(server, **{**body, "temperature": 0})["choices"][0]["token_ids"]
    assert absent == minus_one == zero != greedy and one == greedy


def test_samp_13_a_stop_string_over_two_tokens(server):
    body = {"prompt": [300, 301], "max_tokens": 60, "temperature": 1.0, "seed": 11}
    choice = complete(server, **body, logprobs=0)["choices"][0]
    tokens, text = choice["logprobs"]["tokens"], choice["text"]
    pairs = [(a[-1] + b[0]) for a, b in zip(tokens, tokens[1:]) if a and b and "\ufffd" not in a + b]
    stop = next(pair for pair in pairs[3:] if text.find(pair) > 0)
    expected = text[: text.index(stop)]
    stopped = complete(server, **body, stop=[stop])["choices"][0]
    assert (stopped["text"], stopped["finish_reason"], stopped["stop_reason"]) == (expected, "stop", stop)
    deltas = [json.loads(event)["choices"][0] for event in events(server, **body, ignore_eos=True, stop=[stop])[:-1]]
    assert "".join(delta["text"] for delta in deltas) == expected and deltas[-1]["finish_reason"] == "stop"


def test_samp_14_a_held_back_tail_is_delivered(server):
    body = {"prompt": [300, 301], "max_tokens": 20, "temperature": 1.0, "seed": 12}
    text = complete(server, **body)["choices"][0]["text"]
    stop = text[-3:] + "never follows"
    assert complete(server, **body, stop=[stop])["choices"][0]["text"] == text
    deltas = [json.loads(event)["choices"][0]["text"] for event in events(server, **body, ignore_eos=True, stop=[stop])[:-1]]
    assert "".join(deltas) == text


def test_samp_16_logprobs_are_strict_json(server):
    for extra in ({"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-30}):
        answer = post(server, **{"prompt": "a", "max_tokens": 4, "logprobs": 20, "prompt_logprobs": 20, "temperature": 1.0, **extra})
        assert answer.status_code == 200
        json.loads(answer.text, parse_constant=lambda name: pytest.fail(name))


# Streams

@pytest.mark.parametrize("body, reason", [({"max_tokens": 6, "ignore_eos": True}, "length"), ({"max_tokens": 500, "stop": ["e", "a", "o", "t"]}, "stop")])
def test_strm_04_finish_reasons(server, body, reason):
    for path, prompt in (("/v1/completions", {"prompt": "a b"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a b"}]})):
        received = events(server, path, **prompt, temperature=0, **body)
        assert received[-1] == "[DONE]"
        reasons = [json.loads(event)["choices"][0]["finish_reason"] for event in received[:-1]]
        assert reasons[:-1] == [None] * (len(reasons) - 1) and reasons[-1] == reason


def test_strm_10_empty_prompts(server):
    answer = post(server, prompt="", max_tokens=2)
    bos = post(server, "/tokenize", prompt="").json()["tokens"]
    if bos:
        assert answer.status_code == 200
    else:
        assert answer.status_code == 400 and "empty" in answer.json()["error"]["message"]


def test_srvr_05_max_tokens(server):
    chat = {"messages": [{"role": "user", "content": "a"}], "ignore_eos": True, "temperature": 0}
    for path, prompt in (("/v1/completions", {"prompt": "a"}), ("/v1/chat/completions", chat)):
        for value in (0, -1):
            assert post(server, path, **prompt, max_tokens=value).status_code == 400
        assert post(server, path, **{**prompt, "ignore_eos": False}, max_tokens=None).status_code == 200
    usage = post(server, "/v1/chat/completions", **chat, max_tokens=9, max_completion_tokens=3).json()["usage"]
    assert usage["completion_tokens"] == 3
    assert post(server, "/v1/chat/completions", **chat, max_completion_tokens=0).status_code == 400


# Chat templates

def test_chat_01_no_template(altered):
    folder = altered()
    (folder / "chat_template.jinja").unlink()
    with running(folder) as server:
        answer = post(server, "/v1/chat/completions", messages=[{"role": "user", "content": "a"}])
        assert answer.status_code == 400 and "--chat-template" in answer.json()["error"]["message"]
        assert post(server, prompt="a", max_tokens=1).status_code == 200


@pytest.mark.parametrize("template, expected", [
    ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "hi"),  # CHAT-03
    ("{{ strftime_now('%Y') }} {{ messages[0]['content'] | upper }}", f"{date.today().year} HI"),  # CHAT-04
    ("{% for m in messages %}{{ m.content.strip().split(' ')[0] }}{% endfor %}", "hi"),
])
def test_chat_03_and_chat_04_templates(template, expected):
    with running(MODELS / "llama", "--chat-template", template) as server:
        ids = post(server, "/tokenize", messages=[{"role": "user", "content": "hi"}]).json()["tokens"]
        assert post(server, "/detokenize", tokens=ids).json()["prompt"] == expected


def test_chat_06_the_template_refuses():
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('This model takes no system role.') }}{% endif %}{{ messages[0].content }}"
    with running(MODELS / "llama", "--chat-template", template) as server:
        answer = post(server, "/v1/chat/completions", messages=[{"role": "system", "content": "a"}])
        assert answer.status_code == 400 and "This model takes no system role." in answer.json()["error"]["message"]
        assert post(server, "/v1/chat/completions", messages=[{"role": "user", "content": "a"}], max_tokens=1).status_code == 200


@pytest.mark.parametrize("template", ["{% for i in range(1000000000) %}x{% endfor %}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
                                      "{{ 'x' * 1000000000 }}", "{{ messages.nothing.at.all }}",
                                      "{{ 1 // 0 }}", "{{ 99 ** 999999 }}"])
def test_templates_cannot_take_the_server_along(template):
    """A template that loops, recurses or grows without end is a 400 (or a refused start), in bounded time."""
    with running(MODELS / "llama", "--chat-template", template) as server:
        answer = post(server, "/v1/chat/completions", messages=[{"role": "user", "content": "a"}], max_tokens=1)
        assert answer.status_code == 400 and answer.json()["error"]["message"]
        assert post(server, prompt="a", max_tokens=1).status_code == 200


# Loading

def test_load_19_every_eos_of_the_generation_config_ends(altered):
    body = {"prompt": [5, 6, 7], "max_tokens": 10}
    with running(MODELS / "llama", "--dtype", "float32") as server:
        tokens = complete(server, **body)["choices"][0]["token_ids"]
    with running(altered(generation_config={"eos_token_id": [0, tokens[3]]}), "--dtype", "float32") as server:
        first = tokens.index(tokens[3])
        choice = complete(server, **body, ignore_eos=False)["choices"][0]
        assert choice["finish_reason"] == "stop" and choice["token_ids"] in (tokens[:first], tokens[: first + 1])
        assert complete(server, **body)["choices"][0]["token_ids"] == tokens


def test_sampling_defaults_come_from_the_generation_config(altered):
    with running(altered(generation_config={"temperature": 0.0, "top_k": 1}), "--dtype", "float32") as server:
        answers = {post(server, prompt=[5, 6, 7], max_tokens=12, ignore_eos=True).json()["choices"][0]["text"] for _ in range(3)}
        assert len(answers) == 1


@pytest.mark.parametrize("change, word", [({"hidden_act": "relu6"}, "relu6"), ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
                                          ({"rope_parameters": {"rope_type": "spiral"}}, "spiral"), ({"num_attention_heads": 0}, "num_attention_heads"),
                                          ({"vocab_size": 10**12}, "vocab_size"), ({"hidden_size": "64"}, "hidden_size"),
                                          ({"quantization_config": {"quant_method": "gptq"}}, "gptq"), ({"num_hidden_layers": 3}, "layers.2")])
def test_configs_that_cannot_be_served_are_refused_by_name(altered, change, word):
    answer = run_quire("serve", altered(config=change), "--port", "0")
    sentence = answer.stderr.splitlines()[-1]
    assert answer.returncode == 1 and sentence.startswith("quire: ") and word in sentence, answer.stderr


# Metrics

def test_metr_01_aborts_are_counted(launch):
    counted = launch("llama")
    body = {"prompt": "a", "max_tokens": 1000, "ignore_eos": True, "stream": True}
    for _ in range(5):
        with requests.post(counted.url + "/v1/completions", json={**body, "prompt": [[5, 6]] * 8}, stream=True, timeout=30) as answer:
            next(answer.iter_lines())
    counted.wait_idle()
    reasons = {reason: counted.metric("vllm:request_success_total", finished_reason=reason) for reason in ("abort", "length", "stop")}
    assert sum(reasons.values()) == 40 and reasons["abort"] >= 5


def test_metr_03_scrapes_parse_and_counters_never_fall():
    with running(MODELS / "llama", "--num-gpu-blocks-override", "24") as server:
        bodies = [{"prompt": [10 + i % 3] * 20, "max_tokens": 100, "ignore_eos": True} for i in range(24)]
        before = {}
        with ThreadPoolExecutor(24) as pool:
            answers = [pool.submit(post, server, **body) for body in bodies]
            for _ in range(20):
                text = requests.get(server.url + "/metrics", timeout=10).text
                for line in text.splitlines():
                    if line.startswith("#") or not line:
                        continue
                    name, value = re.fullmatch(r"([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)", line).groups()
                    if re.match(r"[\w:]+_(total|count|sum|bucket)\b", name):
                        assert float(value) >= before.get(name, 0), name
                        before[name] = float(value)
            assert all(answer.result().status_code == 200 for answer in answers)
        assert server.metric("vllm:num_preemptions_total") > 0 and server.metric("vllm:prefix_cache_hits_total") > 0
