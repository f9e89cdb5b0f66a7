"""Sampling parameters of the running server, through the real client; tests bear the ids of the cases they show."""

import json
import math
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
import requests

from conftest import MODELS, running

PROMPT = list(range(5, 25))


def complete(client, **arguments):
    """Fields that the client does not know go along as extra_body."""
    known = {"model", "prompt", "max_tokens", "temperature", "seed", "n", "logprobs", "stop", "stream", "echo", "top_p", "logit_bias",
             "presence_penalty", "frequency_penalty", "stream_options"}
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 16, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **arguments}
    extra = {name: body.pop(name) for name in list(body) if name not in known}
    return client.completions.create(**body, extra_body=extra)


def choices_of(answer):
    return [choice.model_dump() for choice in answer.choices]


def ids(client, **arguments):
    return choices_of(complete(client, **arguments))[0]["token_ids"]


def joined(chunks):
    """A stream's texts and token ids by choice."""
    texts, tokens = {}, {}
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            tokens.setdefault(choice.index, []).extend(choice.model_dump().get("token_ids") or [])
    return texts, tokens


def refused(server, **body):
    answer = requests.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 2, **body}, timeout=30)
    assert answer.status_code == 400, answer.text
    assert requests.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 1}, timeout=30).status_code == 200
    return answer.json()["error"]["param"]


# Seeds, choices

def test_samp_01_a_seed_among_unseeded_neighbours(client):
    own = {"seed": 42, "temperature": 0.8, "repetition_penalty": 1.2, "min_p": 0.01}
    alone = ids(client, **own)
    with ThreadPoolExecutor(8) as pool:
        for neighbours in (1, 4, 7):
            others = [pool.submit(ids, client, temperature=1.0, max_tokens=24) for _ in range(neighbours)]
            assert ids(client, **own) == alone
            [other.result() for other in others]


def test_samp_02_choices_of_a_seed_differ_and_repeat(client):
    body = {"n": 4, "seed": 1, "temperature": 1.0, "max_tokens": 32}
    first, second = ([choice["token_ids"] for choice in choices_of(complete(client, **body))] for _ in range(2))
    assert first == second and len({tuple(tokens) for tokens in first}) == 4
    assert first[0] == ids(client, **{**body, "n": 1})


def test_samp_23_always_all_choices(client):
    for _ in range(10):
        answer = complete(client, n=8, temperature=1.0, max_tokens=4)
        assert [choice.index for choice in answer.choices] == list(range(8))
        assert answer.usage.prompt_tokens == len(PROMPT) and answer.usage.completion_tokens == 32


def test_the_prompt_of_several_choices_is_computed_once(server, client):
    prompt = [7 + i % 90 for i in range(160)]
    before = server.metric("vllm:prompt_tokens_cached_total")
    complete(client, prompt=prompt, n=5, temperature=1.0, max_tokens=2, cache_salt="once")
    assert server.metric("vllm:prompt_tokens_cached_total") - before >= 4 * 144


def test_strm_12_prompts_and_choices(client):
    body = {"prompt": [[5, 6], [7, 8, 9], [10]], "n": 2, "temperature": 1.0, "seed": 3, "max_tokens": 6}
    plain = complete(client, **body)
    assert [choice.index for choice in plain.choices] == list(range(6))
    assert plain.usage.prompt_tokens == 6 and plain.usage.completion_tokens == 36
    for prompt in range(3):
        alone = choices_of(complete(client, **{**body, "prompt": body["prompt"][prompt]}))
        assert [c["token_ids"] for c in alone] == [c["token_ids"] for c in choices_of(plain)[2 * prompt : 2 * prompt + 2]]
    chunks = list(complete(client, **body, stream=True, stream_options={"include_usage": True}))
    texts, tokens = joined(chunks)
    assert texts == {choice.index: choice.text for choice in plain.choices}
    assert tokens == {choice["index"]: choice["token_ids"] for choice in choices_of(plain)}
    assert chunks[-1].usage.completion_tokens == 36 and chunks[-1].usage.prompt_tokens == 6


def test_chat_choices_stream_as_they_are(client):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "n": 3, "seed": 5, "temperature": 1.0, "max_tokens": 8,
            "logit_bias": {"5": 3}, "extra_body": {"ignore_eos": True}}
    plain = client.chat.completions.create(**body)
    texts, ends = {}, []
    for chunk in client.chat.completions.create(**body, stream=True):
        choice = chunk.choices[0]
        texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
        ends += [choice.index] if choice.finish_reason else []
    assert texts == {choice.index: choice.message.content for choice in plain.choices} and sorted(ends) == [0, 1, 2]


def test_samp_25_too_many_choices(server):
    assert refused(server, n=1_000_000) == "n"
    assert refused(server, n=16_000, prompt=[[5]] * 100) == "n"
    assert refused(server, n=2, temperature=0) == "n"


# What changes the logits

def test_penalties_against_repetition(client):
    def repeats(**extra):
        tokens = ids(client, max_tokens=60, **extra)
        return len(tokens) - len(set(tokens))

    plain = repeats()
    assert repeats(presence_penalty=2.0) <= plain and repeats(frequency_penalty=2.0) < plain and repeats(repetition_penalty=5.0) < plain
    assert ids(client, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0) == ids(client)


def test_logit_bias_and_allowed_token_ids(client):
    assert ids(client, max_tokens=4, logit_bias={"77": 100}) == [77] * 4
    allowed = set(ids(client, max_tokens=40, temperature=1.0, seed=5, allowed_token_ids=[7, 8, 9]))
    assert 2 <= len(allowed) and allowed <= {7, 8, 9}
    plain = ids(client)
    assert plain[0] not in ids(client, logit_bias={str(plain[0]): -100})


def test_samp_18_biases_that_are_none(server):
    for bias in ({"191222": -100}, {"-1": 5}, {"abc": 1}, {"5": 1000}):
        assert refused(server, logit_bias=bias) == "logit_bias"


def test_samp_10_min_tokens_holds_off_every_eos(tmp_path):
    import shutil
    folder = tmp_path / "model"
    shutil.copytree(MODELS / "llama", folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7]}))
    with running(folder, "--dtype", "float32", "--served-model-name", "tiny") as server:
        body = {"ignore_eos": False, "logit_bias": {"2": 50, "7": 55}, "max_tokens": 40}
        assert len(ids(server.client, **body)) == 1
        tokens = ids(server.client, **body, min_tokens=20)
        assert len(tokens) == 21 and not {2, 7} & set(tokens[:20]) and tokens[20] == 7
        assert len(ids(server.client, **body, min_tokens=40)) == 40


def test_samp_20_bad_words(server, client):
    body = {"temperature": 1.0, "seed": 8, "max_tokens": 400, "prompt": [5, 6, 7]}
    text = complete(client, **body).choices[0].text
    words = [word for word in dict.fromkeys(text.split()) if word.isascii() and word.isalpha()][:4] + ["the", "two words"]
    assert any(word in text for word in words)
    kept = complete(client, **body, bad_words=words).choices[0].text
    # The tokens that would complete a word are never chosen; a word inside a longer token is not that word.
    for word in words:
        tokens = requests.post(server.url + "/tokenize", json={"prompt": " " + word, "add_special_tokens": False}, timeout=10).json()["tokens"]
        got = ids(client, **body, bad_words=words)
        assert not any(got[i : i + len(tokens)] == tokens for i in range(len(got)))
    assert kept != text


def test_samp_04_tiny_temperatures(client):
    greedy = ids(client)
    for temperature in (1e-6, 1e-10, 1e-38, 0):
        answer = choices_of(complete(client, temperature=temperature, logprobs=2))[0]
        assert answer["token_ids"] == greedy and all(map(math.isfinite, answer["logprobs"]["token_logprobs"]))


def test_samp_05_numbers_that_are_none(server):
    for value in ("NaN", "Infinity", "-Infinity"):
        for field in ("temperature", "repetition_penalty", "min_p", "presence_penalty"):
            answer = requests.post(server.url + "/v1/completions", data='{"prompt": "a", "%s": %s}' % (field, value), timeout=30,
                                   headers={"Content-Type": "application/json"})
            assert answer.status_code == 400 and json.loads(answer.text)["error"]["message"]
    assert requests.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 1}, timeout=30).status_code == 200


def test_samp_21_prompt_ids_beyond_the_vocabulary(server):
    assert refused(server, prompt=[1, 999999]) == "prompt"


def test_samp_16_impossible_tokens_have_finite_logprobs(launch):
    modes = {mode: launch("llama", "--dtype", "float32", "--served-model-name", "tiny", "--logprobs-mode", mode)
             for mode in ("processed_logprobs", "processed_logits", "raw_logits")}
    for mode, server in modes.items():
        for extra in ({"top_k": 1}, {"allowed_token_ids": [5, 6]}, {"logit_bias": {"5": -100}}):
            body = {"prompt": PROMPT, "max_tokens": 4, "temperature": 1.0, "logprobs": 20, **extra}
            answer = requests.post(server.url + "/v1/completions", json=body, timeout=30)
            assert answer.status_code == 200
            logprobs = json.loads(answer.text, parse_constant=lambda name: pytest.fail(name))["choices"][0]["logprobs"]
            if mode == "processed_logprobs":
                for top in logprobs["top_logprobs"]:
                    assert sum(math.exp(value) for value in top.values()) < 1.0001
    raw = complete(modes["raw_logits"].client, logprobs=1).choices[0].logprobs.token_logprobs
    assert max(raw) > 0


# Logprobs, echo

def test_logprob_token_ids(client):
    top = complete(client, logprobs=0, logprob_token_ids=[9, 11], return_tokens_as_token_ids=True).choices[0].logprobs.top_logprobs
    assert all({"token_id:9", "token_id:11"} <= entry.keys() for entry in top)


def test_echo(client):
    body = {"prompt": "The quick brown fox", "max_tokens": 6, "logprobs": 1}
    plain, echoed = complete(client, **body), complete(client, **body, echo=True)
    choice, without = choices_of(echoed)[0], choices_of(plain)[0]
    assert choice["text"] == body["prompt"] + without["text"]
    prompt_tokens = echoed.usage.prompt_tokens
    assert len(choice["logprobs"]["tokens"]) == prompt_tokens + 6 and choice["logprobs"]["token_logprobs"][0] is None
    assert choice["logprobs"]["token_logprobs"][prompt_tokens:] == without["logprobs"]["token_logprobs"]
    asked = choices_of(complete(client, **body, prompt_logprobs=1))[0]["prompt_logprobs"]
    first_of = [next(iter(entry.values()))["logprob"] for entry in asked[1:]]
    assert choice["logprobs"]["token_logprobs"][1:prompt_tokens] == first_of
    offsets = choice["logprobs"]["text_offset"]
    assert offsets == sorted(offsets) and offsets[prompt_tokens] == len(body["prompt"])
    only = complete(client, **{**body, "max_tokens": 0}, echo=True)
    assert only.choices[0].text == body["prompt"] and only.usage.completion_tokens == 0 and only.choices[0].finish_reason == "length"
    chunks = [chunk.choices[0] for chunk in complete(client, **body, echo=True, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == choice["text"]
    assert sum((chunk.logprobs.token_logprobs for chunk in chunks if chunk.logprobs), []) == choice["logprobs"]["token_logprobs"]


def test_echo_of_ids_and_several_choices(server, client):
    text = requests.post(server.url + "/detokenize", json={"tokens": PROMPT}, timeout=10).json()["prompt"]
    answer = complete(client, n=3, temperature=1.0, seed=2, max_tokens=5, logprobs=0, echo=True)
    assert all(choice.text.startswith(text) for choice in answer.choices)
    prompts = [choice.logprobs.token_logprobs[: len(PROMPT)] for choice in answer.choices]
    assert prompts[0] == prompts[1] == prompts[2] and len(answer.choices[0].logprobs.tokens) == len(PROMPT) + 5
    streamed = list(complete(client, n=3, temperature=1.0, seed=2, max_tokens=5, logprobs=0, echo=True, stream=True))
    assert joined(streamed)[0] == {choice.index: choice.text for choice in answer.choices}


def test_chat_echo(client):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "An apple"}], "max_tokens": 4,
            "temperature": 0}
    extra = {"continue_final_message": True, "ignore_eos": True}
    plain = client.chat.completions.create(**body, extra_body=extra).choices[0].message.content
    assert client.chat.completions.create(**body, extra_body={**extra, "echo": True}).choices[0].message.content == "An apple" + plain
    chunks = client.chat.completions.create(**body, extra_body={**extra, "echo": True}, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "An apple" + plain


def test_prompt_logprobs_do_not_depend_on_chunks_or_the_cache():
    prompt = [3 + i * 7 % 400 for i in range(150)]
    wanted = None
    for flags in ((), ("--max-num-batched-tokens", "32", "--max-num-seqs", "8"), ("--no-enable-prefix-caching",)):
        with running(MODELS / "llama", "--dtype", "float32", "--served-model-name", "tiny", *flags) as server:
            complete(server.client, prompt=prompt, max_tokens=1)
            got = choices_of(complete(server.client, prompt=prompt, max_tokens=2, prompt_logprobs=3))[0]["prompt_logprobs"]
            wanted = wanted or got
            assert got == wanted and len(got) == 150


# Ends, text

def test_stop_token_ids(client):
    tokens = ids(client)
    choice = choices_of(complete(client, stop_token_ids=[tokens[3]]))[0]
    first = tokens.index(tokens[3])
    assert choice["token_ids"] == tokens[: first + 1] and (choice["finish_reason"], choice["stop_reason"]) == ("stop", tokens[3])
    assert len(ids(client, stop_token_ids=[tokens[3]], min_tokens=8)) > 8


def test_repetition_detection(client):
    choice = choices_of(complete(client, logit_bias={"77": 100}, repetition_detection={"max_pattern_size": 3, "min_count": 5}))[0]
    assert choice["token_ids"] == [77] * 5 and (choice["finish_reason"], choice["stop_reason"]) == ("repetition", "repetition_detected")


def test_special_tokens_in_the_text(client):
    body = {"logit_bias": {"2": 100}, "max_tokens": 3}
    assert complete(client, **body).choices[0].text == ""
    shown = complete(client, **body, skip_special_tokens=False).choices[0].text
    joined_up = complete(client, **body, skip_special_tokens=False, spaces_between_special_tokens=False).choices[0].text
    assert shown and joined_up == shown.replace(" ", "")


def test_truncate_prompt_tokens(client):
    def prompt_ids(**extra):
        return choices_of(complete(client, max_tokens=1, **extra))[0]["prompt_token_ids"]

    assert prompt_ids(truncate_prompt_tokens=4) == PROMPT[-4:]
    assert prompt_ids(truncate_prompt_tokens=4, truncation_side="right") == PROMPT[:4]
    assert len(prompt_ids(prompt=[5] * 5000, truncate_prompt_tokens=-1)) < 5000
    text = prompt_ids(prompt="a b c d e f g h")
    cut = prompt_ids(prompt="a b c d e f g h", truncate_prompt_tokens=5)
    assert len(cut) == 5 and cut[-3:] == text[-3:]
    with pytest.raises(openai.BadRequestError) as error:
        prompt_ids(truncate_prompt_tokens=10**9)
    assert error.value.param == "truncate_prompt_tokens"


def test_strm_01_characters_over_several_tokens(server, client):
    text = "😀 日本語 👩‍👩‍👧 café"
    tokens = requests.post(server.url + "/tokenize", json={"prompt": text, "add_special_tokens": False}, timeout=10).json()["tokens"]
    for token_ids in (tokens, tokens[:-1]):
        # Each token is the only one allowed in turn: streamed one by one, joined they are the text.
        chunks = list(complete(client, temperature=1.0, allowed_token_ids=token_ids, max_tokens=60, seed=4, stream=True))
        plain = complete(client, temperature=1.0, allowed_token_ids=token_ids, max_tokens=60, seed=4).choices[0].text
        assert joined(chunks)[0][0] == plain


@pytest.mark.parametrize("extra", [{"temperature": 1.0, "seed": 9, "n": 3}, {"stop": ["e", "zz"]}, {"max_tokens": 300},
                                   {"temperature": 1.0, "seed": 5, "frequency_penalty": 1.0, "logprobs": 2, "max_tokens": 250}])
def test_streams_are_the_plain_answer_also_across_preemption(extra):
    bodies = [{"prompt": [9 + i] * 20, "max_tokens": 150, **extra} for i in range(12)]
    with running(MODELS / "llama", "--dtype", "float32", "--served-model-name", "tiny") as server:
        roomy = [complete(server.client, **body) for body in bodies]
    with running(MODELS / "llama", "--dtype", "float32", "--served-model-name", "tiny", "--num-gpu-blocks-override", "28") as server:
        with ThreadPoolExecutor(12) as pool:
            streams = list(pool.map(lambda body: joined(complete(server.client, **body, stream=True)), bodies))
        if "stop" not in extra and "n" not in extra:  # else they may be too short to meet
            assert server.metric("vllm:num_preemptions_total") > 0
    for answer, (texts, tokens) in zip(roomy, streams):
        assert texts == {choice.index: choice.text for choice in answer.choices}
        assert tokens == {choice["index"]: choice["token_ids"] for choice in choices_of(answer)}


def test_strm_07_a_closed_stream_ends_all_choices(launch):
    server = launch("llama", "--served-model-name", "tiny")
    stream = complete(server.client, n=6, temperature=1.0, max_tokens=200, stream=True)
    for _, chunk in zip(range(5), stream):
        pass
    stream.close()
    server.wait_idle(2.0)
    assert server.metric("vllm:kv_cache_usage_perc") == 0


def test_strm_08_a_client_that_does_not_wait(launch):
    server = launch("llama", "--served-model-name", "tiny", "--max-model-len", "512")
    for extra in ({}, {"n": 6, "temperature": 1.0}):
        with pytest.raises(openai.APITimeoutError):
            while True:  # until one is slow enough to be given up
                complete(server.client.with_options(timeout=0.02), max_tokens=480, **extra)
        server.wait_idle(2.0)
        assert server.metric("vllm:kv_cache_usage_perc") == 0


def test_sampling_over_ranks(launch):
    server = launch("llama", "--dtype", "float32", "--served-model-name", "tiny", "--tensor-parallel-size", "2")
    body = {"n": 3, "seed": 4, "temperature": 0.9, "repetition_penalty": 1.3, "min_p": 0.02, "bad_words": ["a"], "min_tokens": 4, "logprobs": 2}
    answers = [choices_of(complete(server.client, **body)) for _ in range(2)]
    assert answers[0] == answers[1] and len({tuple(choice["token_ids"]) for choice in answers[0]}) == 3
    beams = complete(server.client, n=3, use_beam_search=True, max_tokens=5)
    assert len({tuple(choice["token_ids"]) for choice in choices_of(beams)}) == 3


def test_samp_26_greedy_text_does_not_depend_on_the_batch(launch):
    for dtype in ("float32", "bfloat16"):
        server = launch("llama", "--dtype", dtype, "--served-model-name", "tiny")
        body = {"presence_penalty": 0.5, "repetition_penalty": 1.1}
        alone = ids(server.client, **body)
        with ThreadPoolExecutor(16) as pool:
            others = [pool.submit(ids, server.client, prompt=[30 + i] * (i + 1), temperature=1.0) for i in range(15)]
            assert ids(server.client, **body) == alone
            [other.result() for other in others]
