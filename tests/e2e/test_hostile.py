"""Clients that mean harm or know no better: each costs only itself, and the next request works."""

import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from conftest import MODELS, running

HOST = b"Host: x\r\n"
END = b"Connection: close\r\n\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\n" + HOST
LIMIT = 1024  # of the small llama


@pytest.fixture(autouse=True)
def the_next_request_works(server):
    yield
    answer = requests.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 1}, timeout=30)
    assert answer.status_code == 200 and server.process.poll() is None


def connect(server, seconds=20):
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=seconds)


def exchange(server, sent, seconds=20):
    """Everything that comes back for these bytes."""
    received = b""
    with connect(server, seconds) as connection:
        try:
            connection.sendall(sent)
            while part := connection.recv(65536):
                received += part
        except (ConnectionResetError, BrokenPipeError):
            pass  # the server may end a connection whose request it refused
    return received


def check_error(status, body):
    assert 400 <= status < 500, (status, body[:300])
    error = json.loads(body, parse_constant=lambda name: pytest.fail(name))["error"]
    assert error["message"] and error["type"] and error["code"] and "param" in error and len(error["message"]) < 2000


def refuse_raw(server, sent, *statuses):
    answer = exchange(server, sent)
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert status in statuses, answer[:300]
    json.loads(body)["error"]["message"]


def post(server, body, path="/v1/completions"):
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    data = data.encode() if isinstance(data, str) else data
    return requests.post(server.url + path, data=data, headers={"Content-Type": "application/json"}, timeout=60)


RAW = {
    "bytes": (b"\x00\x01\x02\xff\r\n\r\n", 400),
    "http 0.9": (b"GET /health\r\n\r\n", 400),
    "http 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "bad method": (b"F\x7fOO /health HTTP/1.1\r\n" + HOST + END, 400),
    "line feeds only": (b"GET /health HTTP/1.1\nHost: x\n\n", 400),
    "space in a name": (b"GET /health HTTP/1.1\r\nHost : x\r\n" + END, 400),
    "zero byte in a header": (b"GET /health HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n" + END, 400),
    "huge header": (b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 200_000 + b"\r\n" + END, 431),
    "many headers": (b"GET /health HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 500 + END, 431),
    "long target": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST + END, 414),
    "negative length": (POST + b"Content-Length: -5\r\n\r\n", 400),
    "length that overflows": (POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
    "length beyond the limit": (POST + b"Content-Length: 999999999999\r\n\r\n", 413),
    "two lengths": (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400),
    "length and chunks": (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "bad chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", 400),
    "huge chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n", 413),
    "unknown transfer encoding": (POST + b"Transfer-Encoding: gzip\r\n\r\nGET /health HTTP/1.1\r\n\r\n", 501),
    "no body": (POST + END, 400),
    "connect": (b"CONNECT a:1 HTTP/1.1\r\n" + HOST + END, 404),
    "bytes in the target": (b"GET /\xff\xfe HTTP/1.1\r\n" + HOST + END, 400, 404),
    "line ends in the target": (b"GET /%0d%0aX:y HTTP/1.1\r\n" + HOST + END, 404),
}


@pytest.mark.parametrize("name", RAW)
def test_malformed_http(server, name):
    refuse_raw(server, *RAW[name])


@pytest.mark.parametrize("method, path", [("GET", "/v1/completions"), ("PUT", "/v1/completions"), ("DELETE", "/v1/models"),
                                          ("POST", "/health"), ("PATCH", "/metrics"), ("TRACE", "/health")])
def test_wrong_methods(server, method, path):
    answer = requests.request(method, server.url + path, timeout=10)
    assert answer.status_code == 405 and answer.headers["Allow"]
    check_error(405, answer.text)


def test_chunked_bodies_and_pipelining(server):
    body = b'{"prompt": "a", "max_tokens": 1}'
    chunks = b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in body) + b"0\r\n\r\n"
    one = POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    last = b"GET /health HTTP/1.1\r\n" + HOST + END
    answer = exchange(server, one * 5 + b"GET /nowhere HTTP/1.1\r\n" + HOST + b"\r\n" + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 6 and answer.count(b"HTTP/1.1 404") == 1
    assert answer.index(b"HTTP/1.1 404") > answer.rindex(b"text_completion")


def test_a_flood_of_pipelined_requests_is_answered_in_order(server):
    with connect(server) as connection:
        many = (b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n") * 2000 + b"GET /health HTTP/1.1\r\n" + HOST + END
        sender = threading.Thread(target=connection.sendall, args=(many,), daemon=True)
        sender.start()
        received = b""
        while part := connection.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200 OK") == 2001


def test_slow_clients_do_not_hold_others_up(server):
    slow = [connect(server) for _ in range(200)]
    for number, connection in enumerate(slow):
        connection.sendall(POST[: 5 + number % 30] if number % 2 else POST + b"Content-Length: 100\r\n\r\n{")
    for _ in range(3):
        assert requests.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 2}, timeout=10).status_code == 200
    for connection in slow:
        connection.close()


def test_a_client_that_reads_nothing(server):
    """Its stream ends without harm; others go on."""
    body = json.dumps({"prompt": [[5, 6]] * 16, "max_tokens": 900, "ignore_eos": True, "stream": True, "logprobs": 5}).encode()
    with connect(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.2)
        assert requests.post(server.url + "/v1/completions", json={"prompt": "b", "max_tokens": 4}, timeout=30).status_code == 200
    server.wait_idle(20)


@pytest.mark.parametrize("path", ["//v1/models", "/v1/./models", "/v1/../v1/models", "/%76%31/models", "/v1//models", "/v1/models/",
                                  "/V1/models", "/health/../v1/models", "/metrics/../v1/models", "/health%2f..%2fv1/models",
                                  "/health;/v1/models", "/v1/models?x=/health", "http://x/v1/models", "/v1/models#/health",
                                  "/health\\..\\v1\\models", "/metrics%00/v1/models"])
def test_srvr_06_path_tricks_against_the_key(guarded, path):
    answer = exchange(guarded, b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST + END)
    assert answer.split()[1] in (b"400", b"401"), answer[:200]
    assert b"max_model_len" not in answer


@pytest.mark.parametrize("value", ["secret", "Basic secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Bearer  \tsecret",
                                   "Bearer SECRET", "Bearer secret,secret", ""])
def test_srvr_06_wrong_keys(guarded, value):
    answer = exchange(guarded, b"GET /v1/models HTTP/1.1\r\n" + HOST + b"Authorization: " + value.encode() + b"\r\n" + END)
    assert answer.split()[1] == b"401"


def test_srvr_06_two_keys_are_not_one(guarded):
    headers = b"Authorization: Bearer wrong\r\nAuthorization: Bearer secret\r\n"
    assert exchange(guarded, b"GET /v1/models HTTP/1.1\r\n" + HOST + headers + END).split()[1] == b"401"


@pytest.fixture(scope="module")
def guarded():
    with running(MODELS / "llama", "--api-key", "secret") as server:
        yield server


BODIES = {
    "empty": "", "null": "null", "a list": "[]", "a number": "5", "cut off": '{"prompt": "a"', "text after": '{"prompt":"a"}}',
    "a comment": '{"prompt":"a"/*x*/}', "single quotes": "{'prompt':'a'}", "trailing comma": '{"prompt":"a",}',
    "invalid UTF-8": b'{"prompt":"\xff\xfe"}', "overlong UTF-8": b'{"prompt":"\xc0\xaf"}', "lone surrogate": '{"prompt":"\\ud800"}',
    "encoded surrogate": b'{"prompt":"\xed\xa0\x80"}', "raw zero byte": b'{"prompt":"a\x00b"}', "UTF-16": '{"prompt":"a"}'.encode("utf-16"),
    "deep lists": '{"prompt":' + "[" * 100_000 + "]" * 100_000 + "}", "deep objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "unclosed depth": "[" * 1_000_000, "many keys": json.dumps({"prompt": "a", **{f"k{i}": 1 for i in range(50_000)}}),
    "the last of equal keys counts": '{"prompt":"a","prompt":5}', "1e999": '{"prompt":"a","temperature":1e999}',
    "-1e999": '{"prompt":"a","top_p":-1e999}', "1e999 as an integer": '{"prompt":"a","max_tokens":1e999}',
    "NaN": '{"prompt":"a","temperature":NaN}', "hexadecimal": '{"prompt":"a","max_tokens":0x10}', "leading zero": '{"prompt":"a","max_tokens":01}',
    "integer beyond 64 bits": '{"prompt":"a","max_tokens":99999999999999999999999}', "seed beyond 63 bits": '{"prompt":"a","seed":18446744073709551615}',
    "fraction": '{"prompt":"a","max_tokens":1.5}', "ids beyond 64 bits": '{"prompt":[99999999999999999999999]}',
    "ids beyond 63 bits": '{"prompt":[18446744073709551615]}', "negative id": '{"prompt":[-1]}', "id out of the vocabulary": '{"prompt":[512]}',
    "fractional id": '{"prompt":[1.0]}', "text among ids": '{"prompt":[1,"a"]}', "ids among text": '{"prompt":["a",[1]]}',
    "lists in lists": '{"prompt":[[[1]]]}', "no prompts": '{"prompt":[]}', "an empty list of ids": '{"prompt":[[]]}',
    "too many prompts": json.dumps({"prompt": ["a"] * 1025}), "a stop string of thousands of tokens": json.dumps({"prompt": "a", "stop": "x" * 4000}),
    "too many stop strings": json.dumps({"prompt": "a", "stop": ["x"] * 1000}), "an empty stop string": '{"prompt":"a","stop":""}',
    "many stop ids": json.dumps({"prompt": "a", "stop_token_ids": [5] * 5000}), "long request id": json.dumps({"prompt": "a", "request_id": "x" * 5000}),
    "long salt": json.dumps({"prompt": "a", "cache_salt": "x" * 5000}), "too many logprobs": '{"prompt":"a","logprobs":21}',
    "negative logprobs": '{"prompt":"a","logprobs":-1}', "too many prompt logprobs": '{"prompt":"a","prompt_logprobs":21}',
    "all prompt logprobs": '{"prompt":"a","prompt_logprobs":-1}', "prompt logprobs in a stream": '{"prompt":"a","prompt_logprobs":1,"stream":true}',
    "stream options without a stream": '{"prompt":"a","stream_options":{"include_usage":true}}',
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(server, name):
    begin = time.monotonic()
    answer = post(server, BODIES[name])
    check_error(answer.status_code, answer.text)
    assert answer.status_code in (400, 413) and time.monotonic() - begin < 10


WRONG = [None, True, 5, -1, 1.5, 2**63, "x", "", [], {}, [None], [[]], {"a": 1}, [{}]]
FIELDS = ["model", "prompt", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "seed", "stop",
          "stop_token_ids", "stream", "stream_options", "logprobs", "top_logprobs", "prompt_logprobs", "ignore_eos", "n", "user", "echo",
          "priority", "cache_salt", "request_id", "return_token_ids", "skip_special_tokens", "include_stop_str_in_output", "min_p",
          "min_tokens", "logit_bias", "tools", "tool_choice", "response_format", "presence_penalty", "chat_template_kwargs",
          "add_generation_prompt", "continue_final_message", "add_special_tokens", "best_of", "suffix", "functions", "metadata",
          "frequency_penalty", "repetition_penalty", "allowed_token_ids", "bad_words", "logprob_token_ids", "truncate_prompt_tokens",
          "truncation_side", "spaces_between_special_tokens", "repetition_detection", "use_beam_search", "length_penalty"]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"])
def test_srvr_02_any_value_in_any_field(server, path):
    """Each is answered, or refused in OpenAI's shape; a refusal names a field."""
    with requests.Session() as session:
        for field in FIELDS:
            for value in WRONG:
                body = {"max_tokens": 1}
                body |= {"/v1/completions": {"prompt": "a"}, "/tokenize": {"prompt": "a"}, "/detokenize": {"tokens": [5]}}.get(
                    path, {"messages": [{"role": "user", "content": "a"}]})
                body[field] = value
                answer = session.post(server.url + path, json=body, timeout=60)
                if answer.status_code != 200:
                    check_error(answer.status_code, answer.text)
                    assert answer.status_code in (400, 404) and answer.json()["error"]["param"], (field, value, answer.text)


MESSAGES = {
    "none": [], "null": [None], "no role": [{"content": "x"}], "a number as role": [{"role": 5, "content": "x"}],
    "no content": [{"role": "user"}], "null content": [{"role": "user", "content": None}], "a number as content": [{"role": "user", "content": 5}],
    "an object as content": [{"role": "user", "content": {"type": "text", "text": "x"}}],
    "a picture": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    "a part without text": [{"role": "user", "content": [{"type": "text"}]}], "a list": [["user", "x"]],
    "too many": [{"role": "user", "content": "a"}] * 17_000,
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(server, name):
    answer = post(server, {"messages": MESSAGES[name]}, "/v1/chat/completions")
    check_error(answer.status_code, answer.text)
    assert answer.json()["error"]["param"].startswith("messages")


REFUSED = {"best_of": 3, "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required",
           "response_format": {"type": "json_object"}, "structured_outputs": {"json": {}}, "guided_regex": "a",
           "thinking_token_budget": 5, "vllm_xargs": {"a": 1}, "reasoning_effort": "high", "documents": [{"text": "a"}], "modalities": ["audio"],
           "return_prompt_text": True, "return_token_offsets": True}


@pytest.mark.parametrize("field", REFUSED)
def test_what_is_not_built_is_refused_by_name(server, field):
    answer = post(server, {"messages": [{"role": "user", "content": "a"}], field: REFUSED[field]}, "/v1/chat/completions")
    check_error(answer.status_code, answer.text)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == field and field in answer.json()["error"]["message"]


def test_samp_07_extreme_values(server):
    for field, value in {"temperature": 999999, "top_p": -1, "repetition_penalty": 0, "min_p": 2, "frequency_penalty": 100, "top_k": -2}.items():
        answer = post(server, {"prompt": "a", field: value})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == field


def test_samp_25_unbounded_counts(server):
    assert post(server, {"prompt": "a", "n": 1_000_000}).status_code == 400
    answer = post(server, {"prompt": [5] * (LIMIT - 4), "max_tokens": 2_147_483_647, "ignore_eos": True}).json()
    assert answer["choices"][0]["finish_reason"] == "length" and answer["usage"]["total_tokens"] <= LIMIT


@pytest.mark.parametrize("length, status", [(LIMIT - 1, 200), (LIMIT, 400), (LIMIT + 1, 400)])
def test_prompts_around_the_limit(server, length, status):
    answer = post(server, {"prompt": [5] * length, "max_tokens": 5, "ignore_eos": True})
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["usage"]["completion_tokens"] == LIMIT - length
    else:
        assert str(length) in answer.json()["error"]["message"] and answer.json()["error"]["param"] == "prompt"


@pytest.mark.parametrize("path, body", [
    ("/v1/completions", {"prompt": "word " * 1_000_000}), ("/v1/completions", {"prompt": ["a " * 1_000_000] * 3}),
    ("/v1/completions", {"prompt": ["a " * 100_000] * 30}), ("/tokenize", {"prompt": " " * 8_000_000}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 1_000_000}]}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": "word " * 1000}] * 1000}]}),
])
def test_chnk_14_megabytes_of_text_hold_nobody_up(server, path, body):
    """Refused without tokenizing them: meanwhile others are served."""
    with ThreadPoolExecutor(4) as pool:
        refusals = [pool.submit(post, server, body, path) for _ in range(4)]
        begin = time.monotonic()
        assert post(server, {"prompt": "a", "max_tokens": 1}).status_code == 200
        assert time.monotonic() - begin < 8
        for refusal in refusals:
            check_error(refusal.result().status_code, refusal.result().text)


def test_more_logprobs_than_one_answer_holds(server):
    answer = post(server, {"prompt": [[5] * 1000] * 1000, "prompt_logprobs": 20, "max_tokens": 1})
    check_error(answer.status_code, answer.text)
    assert answer.json()["error"]["param"] == "prompt_logprobs"
    answer = post(server, {"prompt": [[5]] * 1000, "logprobs": 20, "max_tokens": 1000})
    check_error(answer.status_code, answer.text)
    assert answer.json()["error"]["param"] == "logprobs"


def test_a_large_answer_is_whole(server):
    """Answers with thousands of logprobs are written by another thread: nothing of them differs."""
    prompts = [[5 + i] * 200 for i in range(4)]
    large = post(server, {"prompt": prompts, "prompt_logprobs": 5, "max_tokens": 1, "temperature": 0}).json()["choices"]
    for prompt, choice in zip(prompts, large):
        alone = post(server, {"prompt": prompt, "prompt_logprobs": 5, "max_tokens": 1, "temperature": 0}).json()["choices"][0]
        assert (choice["text"], choice["prompt_logprobs"]) == (alone["text"], alone["prompt_logprobs"])


def test_large_bodies_that_never_end():
    """Half-sent bodies do not add up to the machine's memory."""
    with running(MODELS / "llama") as server:
        connections = []
        for _ in range(24):
            connections.append(connect(server))
            try:
                connections[-1].sendall(POST + b"Content-Length: 33554432\r\n\r\n" + b" " * 30_000_000)
            except (ConnectionResetError, BrokenPipeError):
                pass  # turned away
        status = open(f"/proc/{server.process.pid}/status").read()
        resident = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        assert resident < 680_000  # KiB; all of them would take 703,000
        assert requests.get(server.url + "/health", timeout=10).status_code == 200
        for connection in connections:
            connection.close()
        assert requests.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 1}, timeout=20).status_code == 200


def stream(server, count=900, prompt="a"):
    body = {"prompt": prompt, "max_tokens": count, "ignore_eos": True, "stream": True, "temperature": 0}
    return requests.post(server.url + "/v1/completions", json=body, stream=True, timeout=120)


def test_strm_07_a_storm_of_cancels():
    with running(MODELS / "llama") as server:
        def leave(number):
            body = json.dumps({"prompt": "a", "max_tokens": 1000, "ignore_eos": True, "stream": True}).encode()
            with connect(server) as connection:
                connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                for _ in range(1 + number % 4):
                    assert connection.recv(512)

        with ThreadPoolExecutor(100) as pool:
            list(pool.map(leave, range(100)))
        server.wait_idle(10)
        assert server.metric("vllm:kv_cache_usage_perc") == 0
        ended = sum(server.metric("vllm:request_success_total", finished_reason=reason) for reason in ("abort", "length"))
        assert ended == 100 and server.metric("vllm:request_success_total", finished_reason="abort") > 0
        assert requests.post(server.url + "/v1/completions", json={"prompt": "a"}, timeout=10).status_code == 200


def test_200_streams_at_once(server):
    expected = post(server, {"prompt": "a", "max_tokens": 24, "ignore_eos": True, "temperature": 0}).json()["choices"][0]["text"]

    def read(_):
        events = [line[6:] for line in stream(server, 24).iter_lines() if line.startswith(b"data: ")]
        assert events[-1] == b"[DONE]"
        return "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1])

    with ThreadPoolExecutor(200) as pool:
        texts = pool.map(read, range(200))
        health = requests.get(server.url + "/health", timeout=10)
        assert health.status_code == 200
        assert set(texts) == {expected}


def test_srvr_08_sigterm_among_streams():
    """Streams under way end well, new ones are turned away, and the program ends with 0."""
    with running(MODELS / "llama") as server:
        streams = [stream(server, 1000) for _ in range(8)]
        lines = [answer.iter_lines() for answer in streams]
        for line in lines:
            next(line)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        try:
            assert stream(server, 5).status_code == 503
        except requests.exceptions.ConnectionError:
            pass  # it may be gone already
        assert all([line for line in lines_of if line][-1] == b"data: [DONE]" for lines_of in lines)
        assert server.process.wait(timeout=40) == 0


def test_srvr_08_a_second_signal_ends_at_once():
    with running(MODELS / "llama", "--max-num-seqs", "1") as server:
        bodies = {"prompt": [[5, 6]] * 1000, "max_tokens": 1000, "ignore_eos": True}
        with ThreadPoolExecutor(1) as pool:
            pool.submit(requests.post, server.url + "/v1/completions", json=bodies, timeout=60)
            time.sleep(0.3)
            for _ in range(2):
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
            assert server.process.wait(timeout=10) == 0
