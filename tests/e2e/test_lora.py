"""Adapters over HTTP on the real engine: life cycle, identity, isolation. Answers are compared with ==."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
import requests

from adapters import GOLDEN, NAMES, copy_adapter
from conftest import MODELS, run_quire, running, start_server
from safetensors_files import read_tensors

FLAGS = ("--dtype", "float32", "--served-model-name", "tiny", "--enable-lora")
PROMPT = [5, 9, 44, 17, 300, 21, 8, 77] * 8  # four blocks of 16


def modules(*names):
    return ("--lora-modules", *[f"{name}={GOLDEN / name}" for name in names])


def post(server, path, **body):
    return requests.post(server.url + path, json=body, timeout=120)


def ask(server, model, prompt=PROMPT, max_tokens=24, **more):
    answer = post(server, "/v1/completions", model=model, prompt=prompt, max_tokens=max_tokens, temperature=0, ignore_eos=True,
                  logprobs=3, return_token_ids=True, **more)
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    return {key: choice[key] for key in ("token_ids", "text", "logprobs")}


def cached(server, model, prompt=PROMPT):
    answer = post(server, "/v1/completions", model=model, prompt=prompt, max_tokens=1, temperature=0).json()
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def load(server, name, path, **more):
    return post(server, "/v1/load_lora_adapter", lora_name=name, lora_path=str(path), **more)


def unload(server, name):
    return post(server, "/v1/unload_lora_adapter", lora_name=name)


def listed(server):
    return [model["id"] for model in requests.get(server.url + "/v1/models", timeout=10).json()["data"]]


def stream(server, model, max_tokens, prompt=PROMPT):
    """The token ids of a streamed completion as they come."""
    import json

    body = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
            "return_token_ids": True}
    with requests.post(server.url + "/v1/completions", json=body, stream=True, timeout=120) as answer:
        assert answer.status_code == 200, answer.text
        for line in answer.iter_lines():
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                assert "error" not in event, event
                yield from event["choices"][0].get("token_ids") or []


@pytest.fixture(scope="module")
def lora():
    """All golden adapters beside the model."""
    with running(MODELS / "llama", *FLAGS, *modules(*NAMES)) as server:
        yield server


@pytest.fixture(scope="module")
def solo(lora):
    """The answer of the base model and of each adapter, alone."""
    return {name: ask(lora, name) for name in ["tiny", *NAMES]}


@pytest.fixture
def bare():
    """A server that takes adapters and has none."""
    with running(MODELS / "llama", *FLAGS) as server:
        yield server


def test_the_openai_client(lora, solo):
    client = lora.client
    rows = {model.id: model for model in client.models.list()}
    assert list(rows)[0] == "tiny" and set(rows) == {"tiny", *NAMES}
    assert rows["qv-r4"].root == str(GOLDEN / "qv-r4") and rows["qv-r4"].parent == "tiny"
    assert client.models.retrieve("all-r8").parent == "tiny"
    answer = client.completions.create(model="all-r8", prompt=PROMPT, max_tokens=24, temperature=0, extra_body={"ignore_eos": True})
    assert answer.model == "all-r8" and answer.choices[0].text == solo["all-r8"]["text"]
    assert answer.usage.lora_name == "all-r8"
    message = [{"role": "user", "content": "hello"}]
    whole = client.chat.completions.create(model="all-r8", messages=message, max_tokens=8, temperature=0)
    chunks = client.chat.completions.create(model="all-r8", messages=message, max_tokens=8, temperature=0, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.choices[0].message.content


def test_each_adapter_answers_for_itself(solo):
    logprobs = {str(answer["logprobs"]) for answer in solo.values()}
    assert len(logprobs) == len(solo)


def test_lora_28_a_mixed_batch_equals_solo_runs(lora, solo):
    prompts = [PROMPT, PROMPT[:5], PROMPT * 3, [7] * 33]
    names = ["tiny", "all-r8", "dora-r4", "embed-and-head", "rslora-r16"]
    jobs = [(names[i % len(names)], prompts[(i // 2) % len(prompts)]) for i in range(20)]
    alone = [ask(lora, name, prompt, cache_salt=f"alone{i}") for i, (name, prompt) in enumerate(jobs)]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda job: ask(lora, *job, cache_salt="together"), jobs))
        warm = list(pool.map(lambda job: ask(lora, *job, cache_salt="together"), jobs))
    assert together == alone
    assert warm == alone


@pytest.mark.parametrize("flags", [("--max-loras", "1"), ("--max-loras", "2", "--max-num-seqs", "3"),
                                   ("--max-cpu-loras", "1", "--max-num-batched-tokens", "48", "--max-num-seqs", "16"),
                                   ("--no-enable-chunked-prefill", "--max-loras", "2")], ids=lambda flags: "".join(flags[:2]))
def test_limits_change_no_answer(solo, flags):
    with running(MODELS / "llama", *FLAGS, *modules(*NAMES), *flags) as server:
        jobs = ["tiny", *NAMES] * 3
        with ThreadPoolExecutor(len(jobs)) as pool:
            answers = list(pool.map(lambda name: ask(server, name), jobs))
        assert answers == [solo[name] for name in jobs]


def test_lora_06_a_trained_head(bare, solo):
    assert ask(bare, "tiny") == solo["tiny"]
    assert load(bare, "head", GOLDEN / "trained-head").status_code == 200
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda name: ask(bare, name), ["tiny", "head"] * 4))
    assert answers == [solo["tiny"], solo["trained-head"]] * 4
    assert unload(bare, "head").status_code == 200
    assert ask(bare, "tiny") == solo["tiny"]


def test_lora_07_a_copy_of_the_base(bare, tmp_path, solo):
    base = {}
    for shard in MODELS.glob("llama/*.safetensors"):
        base |= read_tensors(shard)
    kind, shape, head = base["lm_head.weight"]
    for name, data, status in [("same", head, 200), ("other", head[4:] + head[:4], 400)]:
        def add(tensors, data=data):
            tensors["base_model.model.lm_head.base_layer.weight"] = (kind, shape, data)

        answer = load(bare, name, copy_adapter(tmp_path / name, edit=add))
        assert answer.status_code == status and (status == 200 or "lm_head.base_layer.weight" in answer.text), answer.text
    assert ask(bare, "same") == solo["qv-r4"]
    assert listed(bare) == ["tiny", "same"]


def test_lora_09_and_11_target_modules_in_other_words(bare, tmp_path, solo):
    for name, modules in [("all", "all-linear"), ("parents", ["self_attn.q_proj", "self_attn.v_proj"]), ("pattern", r".*\.(q|v)_proj")]:
        assert load(bare, name, copy_adapter(tmp_path / name, config={"target_modules": modules})).status_code == 200
        assert ask(bare, name) == solo["qv-r4"]
    refused = load(bare, "foreign", copy_adapter(tmp_path / "foreign", config={"target_modules": ["cross_attn.q_proj", "v_proj"]}))
    assert refused.status_code == 400 and "q_proj" in refused.text and "target_modules" in refused.text


def test_lora_12_an_adapter_that_matches_nothing(bare, tmp_path):
    def rename(name):
        return name.replace("model.layers.", "decoder.blk.")

    path = copy_adapter(tmp_path / "foreign", rename=rename)
    refused = load(bare, "foreign", path)
    assert refused.status_code == 400 and "decoder.blk" in refused.json()["error"]["message"], refused.text
    assert listed(bare) == ["tiny"]
    assert post(bare, "/v1/completions", model="foreign", prompt="a").status_code == 404


def test_lora_14_a_rank_above_the_limit():
    with running(MODELS / "llama", *FLAGS, "--max-lora-rank", "8") as server:
        expected = list(stream(server, "tiny", 300))
        tokens = stream(server, "tiny", 300)
        first = next(tokens)
        refused = load(server, "big", GOLDEN / "rslora-r16")
        message = refused.json()["error"]["message"]
        assert refused.status_code == 400 and "16" in message and "8" in message and "--max-lora-rank" in message
        assert [first, *tokens] == expected
        assert load(server, "small", GOLDEN / "all-r8").status_code == 200
    start = run_quire("serve", MODELS / "llama", "--port", "0", "--enable-lora", "--max-lora-rank", "8", *modules("rslora-r16"))
    assert start.returncode == 1 and start.stderr.splitlines()[-1].startswith("quire: LoRA adapter 'rslora-r16'")
    assert "--max-lora-rank" in start.stderr and "listening" not in start.stdout


def test_lora_16_bad_paths(bare, tmp_path, solo):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for path, status in [("nowhere", 404), ("empty", 404), ("file", 400)]:
        refused = load(bare, "a", tmp_path / path)
        assert refused.status_code == status and path in refused.json()["error"]["message"], refused.text
        assert listed(bare) == ["tiny"]
        assert any("LoRA adapter 'a' was not loaded" in line and path in line for line in bare.log)
    assert ask(bare, "tiny") == solo["tiny"]
    for path in ("nowhere", "empty", "file"):
        start = run_quire("serve", MODELS / "llama", "--port", "0", "--enable-lora", "--lora-modules", f"a={tmp_path / path}")
        assert start.returncode == 1 and path in start.stderr.splitlines()[-1]


def test_lora_18_an_adapter_for_another_size(bare, tmp_path, solo):
    def widen(tensors):
        for name, (dtype, (rows, columns), data) in list(tensors.items()):
            if "lora_A" in name:
                tensors[name] = (dtype, [rows, 2 * columns], data * 2)

    refused = load(bare, "wide", copy_adapter(tmp_path / "wide", edit=widen))
    message = refused.json()["error"]["message"]
    assert refused.status_code == 400 and "lora_A" in message and "128" in message and "64" in message, message
    assert ask(bare, "tiny") == solo["tiny"]


def test_lora_20_and_pfx_03_a_reload_under_the_same_name(bare, solo):
    assert load(bare, "a", GOLDEN / "qv-r4").status_code == 200
    assert ask(bare, "a") == solo["qv-r4"]
    assert unload(bare, "a").status_code == 200
    assert load(bare, "a", GOLDEN / "all-r8").status_code == 200
    assert cached(bare, "a") == 0
    assert cached(bare, "a") == 48
    assert ask(bare, "a") == solo["all-r8"]
    assert load(bare, "a", GOLDEN / "dora-r4").status_code == 400
    assert load(bare, "a", GOLDEN / "dora-r4", load_inplace=True).status_code == 200
    assert cached(bare, "a") == 0
    assert ask(bare, "a") == solo["dora-r4"]


def test_lora_22_pages_are_not_shared(solo):
    with running(MODELS / "llama", *FLAGS, *modules("qv-r4", "all-r8")) as server:
        for name in ("tiny", "qv-r4", "all-r8"):
            assert cached(server, name) == 0
        assert cached(server, "tiny") == 48
        cold = [ask(server, name) for name in ("tiny", "qv-r4", "all-r8", "tiny")]
    with running(MODELS / "llama", *FLAGS, "--no-enable-prefix-caching", *modules("qv-r4", "all-r8")) as server:
        assert cold == [ask(server, name) for name in ("tiny", "qv-r4", "all-r8", "tiny")]


def test_lora_24_loads_do_not_touch_running_streams():
    with running(MODELS / "llama", *FLAGS, "--max-loras", "2", "--max-cpu-loras", "2", *modules("qv-r4", "all-r8")) as server:
        expected = {name: list(stream(server, name, 400)) for name in ("qv-r4", "all-r8")}
        done, loads = threading.Event(), []

        def churn():
            while not done.is_set():
                for name in ("dora-r4", "rank-pattern"):
                    loads.append(load(server, name, GOLDEN / name, load_inplace=True).status_code)
                    ask(server, name, max_tokens=1)

        thread = threading.Thread(target=churn)
        thread.start()
        with ThreadPoolExecutor(2) as pool:
            got = dict(zip(expected, pool.map(lambda name: list(stream(server, name, 400)), expected)))
        done.set()
        thread.join()
        assert got == expected
        assert loads and set(loads) == {200}


def test_lora_26_unload_during_generation(bare):
    assert load(bare, "a", GOLDEN / "all-r8").status_code == 200
    expected = list(stream(bare, "a", 500))
    tokens = stream(bare, "a", 500)
    got = [next(tokens) for _ in range(10)]
    assert unload(bare, "a").status_code == 200
    assert post(bare, "/v1/completions", model="a", prompt="x").status_code == 404
    got += tokens
    assert got == expected
    bare.wait_idle()
    assert bare.metric("quire:lora_adapters_loaded") == 0
    assert bare.metric("quire:lora_adapter_bytes") == 0
    assert requests.get(bare.url + "/health", timeout=10).status_code == 200


def test_lora_27_an_unknown_name(lora):
    with pytest.raises(openai.NotFoundError) as error:
        lora.client.completions.create(model="adaptr-typo", prompt="a")
    assert error.value.code == "model_not_found" and "tiny" in error.value.message and "qv-r4" in error.value.message
    for path, body in [("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [5]})]:
        assert post(lora, path, model="adaptr-typo", **body).status_code == 404
        assert post(lora, path, model="qv-r4", **body).status_code == 200


def test_a_folder_of_adapters(tmp_path, solo):
    copy_adapter(tmp_path / "one", "qv-r4")
    os.symlink(GOLDEN / "all-r8", tmp_path / "link")
    with running(MODELS / "llama", *FLAGS, "--lora-dir", str(tmp_path), "--max-cpu-loras", "1") as server:
        assert listed(server) == ["tiny", "one"]
        assert server.metric("quire:lora_adapters_loaded") == 0
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda _: ask(server, "one"), range(8))) == [solo["qv-r4"]] * 8
        assert server.metric("quire:lora_loads_total", result="success") == 1
        copy_adapter(tmp_path / "two", "all-r8")
        assert ask(server, "two") == solo["all-r8"]
        assert ask(server, "one") == solo["qv-r4"]
        assert server.metric("quire:lora_evictions_total") >= 2
        for name in ("link", "../one", "one/", ".", "..", "a\\b", "one\0"):
            assert post(server, "/v1/completions", model=name, prompt="a").status_code == 404


def test_updates_need_lora_and_trust(server):
    refused = load(server, "a", GOLDEN / "qv-r4")
    assert refused.status_code == 404 and "--enable-lora" in refused.json()["error"]["message"]
    with running(MODELS / "llama", *FLAGS, "--host", "0.0.0.0") as open_server:
        refused = load(open_server, "a", GOLDEN / "qv-r4")
        assert refused.status_code == 403 and "--api-key" in refused.json()["error"]["message"]
        assert unload(open_server, "a").status_code == 403


def test_metrics_name_adapters(lora):
    with ThreadPoolExecutor(8) as pool:
        streams = [pool.submit(lambda: list(stream(lora, "rslora-r16", 900))) for _ in range(8)]
        seen = ""
        while not all(job.done() for job in streams) and 'running_lora_adapters="rslora-r16"' not in seen:
            seen = requests.get(lora.url + "/metrics", timeout=10).text
        assert 'max_lora="inf",running_lora_adapters="rslora-r16",waiting_lora_adapters=""' in seen
    assert lora.metric("quire:lora_requests_total", lora_name="rslora-r16") >= 1
    assert lora.metric("quire:lora_adapters_loaded") == len(NAMES)


def test_a_burst_on_one_adapter_does_not_hold_up_others():
    with running(MODELS / "llama", *FLAGS, "--max-loras", "1", "--max-num-seqs", "16", *modules("qv-r4", "all-r8")) as server:
        with ThreadPoolExecutor(128) as pool:
            burst = [pool.submit(ask, server, "qv-r4", [5 + i, 6, 7], 900) for i in range(120)]
            time.sleep(0.3)
            for name in ("all-r8", "tiny"):
                ask(server, name, [9, 9, 9], 5)
            assert sum(job.done() for job in burst) < len(burst), "they did not wait for the end of the burst"
            for job in burst:
                job.result()


def test_commands(tmp_path, lora, solo):
    flags = ("--model", MODELS / "llama", "--dtype", "float32", "--max-tokens", "12", "--temperature", "0", "-q", "the quick brown")
    base = run_quire("complete", *flags)
    adapted = run_quire("complete", *flags, "--lora", GOLDEN / "embed-and-head")
    assert base.returncode == 0 and adapted.returncode == 0, adapted.stderr
    remote = run_quire("complete", "--url", lora.url + "/v1", "--model-name", "embed-and-head", "--max-tokens", "12",
                       "--temperature", "0", "-q", "the quick brown")
    assert remote.stdout == adapted.stdout != base.stdout
    refused = run_quire("chat", *flags[:4], "--lora", tmp_path / "nowhere", "-q", "x")
    assert refused.returncode == 1 and "nowhere" in refused.stderr
    for name in ("throughput", "latency"):
        bench = run_quire("bench", name, "--model", MODELS / "llama", "--input-len", "8", "--output-len", "4", "--lora",
                          GOLDEN / "qv-r4", GOLDEN / "all-r8", *(("--num-prompts", "4") if name == "throughput" else ("--num-iters", "1")))
        assert bench.returncode == 0, bench.stderr
    before = {name: lora.metric("quire:lora_requests_total", lora_name=name) for name in ("qv-r4", "all-r8")}
    load_test = run_quire("bench", "serve", "--base-url", lora.url, "--num-prompts", "8", "--input-len", "8", "--output-len", "2",
                          "--lora-modules", "qv-r4", "all-r8")
    assert load_test.returncode == 0, load_test.stderr
    assert all(lora.metric("quire:lora_requests_total", lora_name=name) - before[name] >= 4 for name in before)


def test_start_refuses_what_is_wrong(tmp_path):
    for flags, word in [(("--lora-modules", f"tiny={GOLDEN / 'qv-r4'}"), "tiny"), (("--lora-dir", str(tmp_path / "none")), "none"),
                        (modules("qv-r4", "qv-r4"), "already")]:
        start = run_quire("serve", MODELS / "llama", "--port", "0", *FLAGS, *flags)
        assert start.returncode == 1 and word in start.stderr.splitlines()[-1], start.stderr


def test_modules_as_json():
    module = '{"name": "a", "path": "%s", "base_model_name": "parent"}' % (GOLDEN / "qv-r4")
    server = start_server(MODELS / "llama", *FLAGS, "--lora-modules", module)
    try:
        rows = requests.get(server.url + "/v1/models", timeout=10).json()["data"]
        assert rows[1]["id"] == "a" and rows[1]["parent"] == "parent"
    finally:
        server.process.kill()
        server.process.wait()


def test_the_storage_type_of_adapters(tmp_path, lora):
    names = ("all-r8", "embed-and-head", "trained-head", "dora-r4")
    exact, size = {name: ask(lora, name) for name in names}, {}
    for dtype, bound in [("float32", 0), ("float16", 0.01), ("bfloat16", 0.05)]:
        with running(MODELS / "llama", *FLAGS, "--lora-dtype", dtype, *modules(*names)) as server:
            size[dtype] = server.metric("quire:lora_adapter_bytes")
            for name in names:
                tokens = exact[name]["token_ids"][:1]
                answer, same = ask(server, name), exact[name]
                distance = abs(answer["logprobs"]["token_logprobs"][0] - same["logprobs"]["token_logprobs"][0])
                assert distance <= bound and answer["token_ids"][:1] == tokens
                assert dtype == "float32" or answer["logprobs"] != same["logprobs"]
    assert size["float16"] == size["bfloat16"] < 0.6 * size["float32"]

    def enlarge(tensors):
        name = next(name for name in tensors if "lora_B" in name)
        kind, shape, data = tensors[name]
        tensors[name] = (kind, shape, b"\0\0\x80\x47" + data[4:])  # 65536

    adapter = copy_adapter(tmp_path / "large", edit=enlarge)
    with running(MODELS / "llama", *FLAGS, "--lora-dtype", "float16") as server:
        refused = load(server, "a", adapter)
        message = refused.json()["error"]["message"]
        assert refused.status_code == 400 and "lora_B" in message and "float16" in message and "--lora-dtype" in message
