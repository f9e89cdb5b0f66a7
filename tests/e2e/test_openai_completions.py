"""/v1/completions through the real client."""

import openai
import pytest
import requests

PROMPT = "The quick brown fox"


def complete(client, **arguments):
    return client.completions.create(**{"model": "tiny", "prompt": PROMPT, "max_tokens": 12, "temperature": 0, **arguments})


def test_plain_answer(client):
    answer = complete(client)
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-") and answer.model == "tiny"
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_equals_plain(client):
    plain = complete(client, extra_body={"ignore_eos": True})
    chunks = list(complete(client, stream=True, extra_body={"ignore_eos": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks) == plain.choices[0].text
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == plain.choices[0].finish_reason == "length"


def test_strm_05_usage_chunk(client):
    chunks = list(complete(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert all(chunk.usage is None and chunk.choices for chunk in complete(client, stream=True))


def test_strm_12_prompts_keep_their_order(client):
    prompts = ["a", "b c", "d e f"]
    alone = [complete(client, prompt=prompt).choices[0].text for prompt in prompts]
    together = complete(client, prompt=prompts)
    assert [choice.index for choice in together.choices] == [0, 1, 2]
    assert [choice.text for choice in together.choices] == alone
    streamed = ["", "", ""]
    for chunk in complete(client, prompt=prompts, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == alone


def test_seeded_sampling_repeats(client):
    texts = {complete(client, temperature=0.8, seed=42, max_tokens=24).choices[0].text for _ in range(3)}
    assert len(texts) == 1


def test_token_ids_and_prompts_as_ids(server, client):
    extra = {"return_token_ids": True, "ignore_eos": True}
    choice = complete(client, extra_body=extra).choices[0].model_dump()
    again = complete(client, prompt=choice["prompt_token_ids"], extra_body=extra).choices[0].model_dump()
    assert again["token_ids"] == choice["token_ids"] and len(choice["token_ids"]) == 12
    tokens = requests.post(server.url + "/tokenize", json={"prompt": PROMPT}, timeout=10).json()
    assert tokens["tokens"] == choice["prompt_token_ids"] and tokens["count"] == len(tokens["tokens"])


def test_logprobs(client):
    answer = complete(client, logprobs=3, max_tokens=5, extra_body={"ignore_eos": True}).choices[0]
    assert len(answer.logprobs.tokens) == len(answer.logprobs.text_offset) == 5
    for token, logprob, top in zip(answer.logprobs.tokens, answer.logprobs.token_logprobs, answer.logprobs.top_logprobs):
        assert logprob <= 0 and len(top) >= 1
        assert max(top.values()) == pytest.approx(logprob) and token in top  # greedy takes the best


def test_prompt_logprobs_pfx_04(client):
    first, second = (complete(client, extra_body={"prompt_logprobs": 1, "return_token_ids": True}).choices[0].model_dump()
                     for _ in range(2))
    entries = first["prompt_logprobs"]
    assert entries == second["prompt_logprobs"]
    assert len(entries) == len(first["prompt_token_ids"]) and entries[0] is None
    for token, entry in zip(first["prompt_token_ids"][1:], entries[1:]):
        assert {"logprob", "rank", "decoded_token"} <= entry[str(token)].keys()


def test_stop_string(client):
    text = complete(client, max_tokens=40, extra_body={"ignore_eos": True}).choices[0].text
    stop = text[5:8]
    choice = complete(client, max_tokens=40, stop=[stop], extra_body={"ignore_eos": True}).choices[0]
    assert choice.text == text[: text.index(stop)]
    assert choice.finish_reason == "stop" and choice.model_dump()["stop_reason"] == stop
    kept = complete(client, max_tokens=40, stop=[stop], extra_body={"ignore_eos": True, "include_stop_str_in_output": True})
    assert kept.choices[0].text == text[: text.index(stop) + len(stop)]
    streamed = "".join(c.choices[0].text for c in complete(client, max_tokens=40, stop=stop, stream=True, extra_body={"ignore_eos": True}))
    assert streamed == choice.text


def test_pfx_02_cache_salt(client):
    prompt = list(range(3, 3 + 64))

    def cached(**extra):
        usage = complete(client, prompt=prompt, max_tokens=1, extra_body=extra).usage
        return usage.prompt_tokens_details.cached_tokens

    assert cached(cache_salt="a") == 0
    assert cached(cache_salt="a") > 0
    assert cached(cache_salt="b") == 0
    for salt in ("", 5):
        with pytest.raises(openai.BadRequestError) as error:
            complete(client, extra_body={"cache_salt": salt})
        assert error.value.param == "cache_salt"
