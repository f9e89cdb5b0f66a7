"""use_beam_search against the same search written out over single-token requests."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from conftest import MODELS, running

EOS = (2, 7)


def post(server, **body):
    return requests.post(server.url + "/v1/completions", json=body, timeout=120)


def next_tokens(server, prompt, count):
    """The most likely next tokens with their log-probabilities, the best first."""
    answer = post(server, prompt=prompt, max_tokens=1, temperature=0, logprobs=count, return_tokens_as_token_ids=True).json()
    top = answer["choices"][0]["logprobs"]["top_logprobs"][0]
    ranked = sorted(top.items(), key=lambda entry: -entry[1])
    return [(int(name.removeprefix("token_id:")), logprob) for name, logprob in ranked]


def plain_search(server, prompt, width, max_tokens, length_penalty, ignore_eos):
    """Every round: 2 * width continuations of each beam; EOS completes one; the best of the others go on."""
    def score(beam):
        tokens, logprob, ended = beam
        return logprob / (len(prompt) + len(tokens) - ended) ** length_penalty

    live, completed = [([], 0.0, False)], []
    for _ in range(max_tokens):
        candidates = []
        for tokens, logprob, _ in live:
            for token, more in next_tokens(server, prompt + tokens, 2 * width):
                ended = token in EOS and not ignore_eos
                (completed if ended else candidates).append((tokens + [token], logprob + more, ended))
        live = sorted(candidates, key=score, reverse=True)[:width]
    best = sorted(completed + live, key=score, reverse=True)[:width]
    return [(tokens, "stop" if ended else "length") for tokens, _, ended in best]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beam") / "model"
    shutil.copytree(MODELS / "llama", folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": list(EOS), "repetition_penalty": 1.2}))
    with running(folder, "--dtype", "float32", "--max-logprobs", "30") as server:
        yield server


@pytest.mark.parametrize("width", [1, 3, 6])
@pytest.mark.parametrize("length_penalty", [1.0, 0.0, 2.5, -1.0])
def test_it_is_the_search_written_out(server, width, length_penalty):
    for prompt, ignore_eos in (([5, 6, 7], False), (list(range(30, 60)), True)):
        answer = post(server, prompt=prompt, n=width, use_beam_search=True, length_penalty=length_penalty, max_tokens=6,
                      ignore_eos=ignore_eos, return_token_ids=True)
        assert answer.status_code == 200, answer.text
        choices = answer.json()["choices"]
        assert [choice["index"] for choice in choices] == list(range(width))
        expected = plain_search(server, prompt, width, 6, length_penalty, ignore_eos)
        assert [(choice["token_ids"], choice["finish_reason"]) for choice in choices] == expected
        assert answer.json()["usage"]["completion_tokens"] == sum(len(tokens) for tokens, _ in expected)


def test_width_one_is_greedy(server):
    body = {"prompt": [5, 6, 7], "max_tokens": 12, "ignore_eos": True}
    greedy = post(server, **body, temperature=0, repetition_penalty=1.0).json()["choices"][0]["text"]
    assert post(server, **body, use_beam_search=True).json()["choices"][0]["text"] == greedy


def test_wide_searches_are_not_bound_by_max_logprobs(server):
    choices = post(server, prompt=[5, 6, 7], n=40, use_beam_search=True, max_tokens=3, return_token_ids=True).json()["choices"]
    assert len({tuple(choice["token_ids"]) for choice in choices}) == 40


def test_logprobs_and_neighbours(server):
    body = {"prompt": [5, 6, 7], "n": 3, "use_beam_search": True, "max_tokens": 8, "logprobs": 2, "ignore_eos": True,
            "return_tokens_as_token_ids": True}
    alone = post(server, **body).json()["choices"]
    with ThreadPoolExecutor(8) as pool:
        others = [pool.submit(post, server, prompt=[40 + i], max_tokens=30) for i in range(6)]
        assert post(server, **body).json()["choices"] == alone
        assert all(other.result().status_code == 200 for other in others)
    logprobs = alone[0]["logprobs"]
    assert len(logprobs["tokens"]) == 8 and all(2 <= len(top) <= 3 for top in logprobs["top_logprobs"])


def test_chat(server):
    body = {"messages": [{"role": "user", "content": "hi"}], "n": 2, "use_beam_search": True, "max_tokens": 5}
    answer = requests.post(server.url + "/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200 and len(answer.json()["choices"]) == 2


@pytest.mark.parametrize("field, value", [("stream", True), ("stop", "a"), ("stop_token_ids", [5]), ("presence_penalty", 1), ("n", 257),
                                          ("repetition_penalty", 1.1), ("logit_bias", {"5": 1}), ("bad_words", ["a"]), ("min_tokens", 1),
                                          ("allowed_token_ids", [5]), ("prompt_logprobs", 1), ("logprobs", 5), ("use_beam_search", 1),
                                          ("length_penalty", "1")])
def test_what_does_not_go_with_it_is_refused(server, field, value):
    answer = post(server, **{"prompt": "a", "n": 2, "use_beam_search": True, field: value})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == field


def test_length_penalty_needs_it(server):
    assert post(server, prompt="a", length_penalty=2.0).json()["error"]["param"] == "length_penalty"


def test_a_client_that_goes_away_ends_it(server):
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.post(server.url + "/v1/completions", timeout=0.3,
                      json={"prompt": [5] * 200, "n": 60, "use_beam_search": True, "max_tokens": 200, "ignore_eos": True})
    server.wait_idle(3.0)
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    assert post(server, prompt="a", max_tokens=1).status_code == 200
