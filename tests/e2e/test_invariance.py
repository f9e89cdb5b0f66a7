"""Same request, same tokens: logprobs are compared with ==, as JSON numbers."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from conftest import MODELS, running

COUNT = 32
SEQUENCES = 8  # of the servers whose budget is smaller than COUNT


def make_bodies():
    """Greedy and seeded requests of many lengths; some begin alike."""
    numbers = random.Random(5)
    stem = [numbers.randrange(3, 512) for _ in range(48)]
    bodies = []
    for i in range(COUNT):
        own = [numbers.randrange(3, 512) for _ in range(numbers.choice([1, 5, 15, 16, 17, 63, 150]))]
        body = {"prompt": (stem if i % 3 == 0 else []) + own, "max_tokens": numbers.choice([2, 9, 24]), "logprobs": 3,
                "ignore_eos": True, "return_token_ids": True, "temperature": 0}
        if i % 2:
            body |= {"temperature": 0.9, "seed": 1000 + i, "top_p": 0.95, "top_k": [-1, 20][i % 4 == 1]}
        if i % 5 == 0:
            body["prompt_logprobs"] = 2
        bodies.append(body)
    return bodies


BODIES = make_bodies()


def ask(server, body, salt):
    answer = requests.post(server.url + "/v1/completions", json={**body, "cache_salt": salt}, timeout=120)
    assert answer.status_code == 200, answer.text
    answer = answer.json()
    choice = answer["choices"][0]
    kept = {name: choice.get(name) for name in ("text", "token_ids", "logprobs", "prompt_logprobs", "finish_reason")}
    return kept, answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def ask_all(server, salt, together=True):
    with ThreadPoolExecutor(COUNT if together else 1) as pool:
        return list(pool.map(lambda body: ask(server, body, salt), BODIES))


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def solo(request):
    """The type, and each request's answer alone, each on cold pages."""
    with running(MODELS / "llama", "--dtype", request.param, "--threads", "2", "--no-enable-prefix-caching") as server:
        answers = ask_all(server, "alone", together=False)
        assert all(cached == 0 for _, cached in answers)
        yield request.param, [answer for answer, _ in answers]


def check(answers, expected):
    for number, ((answer, _), reference) in enumerate(zip(answers, expected)):
        assert answer == reference, f"request {number} differs"


def test_samp_01_and_samp_26_alone_or_among_31_others(solo):
    dtype, expected = solo
    with running(MODELS / "llama", "--dtype", dtype) as server:
        cold = ask_all(server, "together")
        check(cold, expected)
        warm = ask_all(server, "together")  # the same salt: prompts come from the cache
        check(warm, expected)
        assert sum(cached > 0 for _, cached in warm) >= COUNT // 2


@pytest.mark.parametrize("budget, sequences", [(1, 1), (7, 7), (16, SEQUENCES), (64, 64), (4096, COUNT)])
def test_chnk_01_and_chnk_03_chunk_sizes(solo, budget, sequences):
    dtype, expected = solo
    with running(MODELS / "llama", "--dtype", dtype, "--max-num-batched-tokens", str(budget), "--max-num-seqs",
                 str(sequences)) as server:
        check(ask_all(server, "chunks"), expected)


@pytest.mark.parametrize("flags", [("--no-enable-chunked-prefill",), ("--block-size", "64"), ("--threads", "1"),
                                   ("--target-itl-ms", "1"), ("--max-num-batched-tokens", "auto", "--target-itl-ms", "20"),
                                   ("--scheduling-policy", "priority", "--max-num-seqs", "3"),
                                   ("--long-prefill-token-threshold", "32", "--max-num-batched-tokens", "48",
                                    "--max-num-seqs", "16")], ids=lambda flags: flags[0][2:])
def test_other_ways_to_run(solo, flags):
    dtype, expected = solo
    with running(MODELS / "llama", "--dtype", dtype, *flags) as server:
        check(ask_all(server, "ways"), expected)


def test_a_pool_for_few_requests(solo):
    dtype, expected = solo
    with running(MODELS / "llama", "--dtype", dtype, "--num-gpu-blocks-override", "20") as server:
        check(ask_all(server, "small"), expected)
        check(ask_all(server, "small"), expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_chnk_09_preempted_requests(dtype):
    """Eight requests of 512 tokens, long enough to run at once whatever the machine's speed, in a pool for about two."""
    bodies = [{"prompt": [10 + i] * 8, "max_tokens": 512, "ignore_eos": True, "logprobs": 2, "return_token_ids": True,
               "temperature": i % 2, "seed": i} for i in range(8)]
    with running(MODELS / "llama", "--dtype", dtype, "--num-gpu-blocks-override", "72") as server:
        alone = [ask(server, body, "alone")[0] for body in bodies]
        assert server.metric("vllm:num_preemptions_total") == 0
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda body: ask(server, body, "together")[0], bodies))
        assert server.metric("vllm:num_preemptions_total") > 0
        assert together == alone
        server.wait_idle()
        assert server.metric("vllm:kv_cache_usage_perc") == 0


def test_samp_01_seed_beside_unseeded_neighbours(server):
    seeded = {"prompt": [7, 8, 9], "max_tokens": 24, "temperature": 0.8, "seed": 42, "ignore_eos": True}
    unseeded = {**seeded, "seed": None, "prompt": [7, 8]}
    texts = set()
    for neighbours in (0, 1, 3, 7):
        with ThreadPoolExecutor(neighbours + 1) as pool:
            answers = pool.map(lambda body: requests.post(server.url + "/v1/completions", json=body, timeout=60).json(),
                               [unseeded] * neighbours + [seeded])
            texts.add(list(answers)[-1]["choices"][0]["text"])
    assert len(texts) == 1
