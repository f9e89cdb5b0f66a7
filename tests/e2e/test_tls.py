"""HTTPS: the server's certificate, clients' certificates, streams, clients that leave, and files that cannot be used."""

import json
import socket
import ssl
import subprocess
import time

import openai
import pytest
import requests

from conftest import MODELS, run_quire, running


def make(folder, name, *signing, subject):
    """A key and a certificate as name.key and name.pem."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem", "-subj", f"/CN={subject}", *signing],
                   check=True, capture_output=True)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    make(folder, "ca", subject="clients")
    make(folder, "server", "-addext", "subjectAltName=IP:127.0.0.1", subject="server")
    make(folder, "client", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", subject="client")
    make(folder, "stranger", subject="stranger")
    return folder


@pytest.fixture(scope="module")
def secure(pki):
    with running(MODELS / "llama", "--ssl-certfile", str(pki / "server.pem"), "--ssl-keyfile", str(pki / "server.key"),
                 tls={"verify": str(pki / "server.pem")}) as server:
        server.verify = str(pki / "server.pem")
        yield server


def connect(server, pki):
    host, port = server.url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=str(pki / "server.pem"))
    return context.wrap_socket(socket.create_connection((host, int(port)), timeout=20), server_hostname=host)


def running_requests(server):
    text = requests.get(server.url + "/metrics", verify=server.verify, timeout=10).text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("vllm:num_requests_running{"))


def test_plain_answers_streams_and_the_openai_client(secure):
    assert secure.url.startswith("https://")
    body = {"prompt": "a", "max_tokens": 12, "ignore_eos": True, "temperature": 0}
    with requests.Session() as session:
        session.verify, session.trust_env = secure.verify, False
        plain = [session.post(secure.url + "/v1/completions", json=body, timeout=30).json()["choices"][0]["text"] for _ in range(3)]
        lines = list(session.post(secure.url + "/v1/completions", json={**body, "stream": True}, stream=True, timeout=30).iter_lines())
        after = session.post(secure.url + "/v1/completions", json=body, timeout=30).json()["choices"][0]["text"]
    events = [line[6:] for line in lines if line.startswith(b"data: ")]
    assert events.pop() == b"[DONE]"
    assert {*plain, after, "".join(json.loads(event)["choices"][0]["text"] for event in events)} == {plain[0]}
    client = openai.OpenAI(base_url=secure.url + "/v1", api_key="none", http_client=openai.DefaultHttpxClient(
        verify=ssl.create_default_context(cafile=secure.verify)))
    assert client.completions.create(model=client.models.list().data[0].id, prompt="a", max_tokens=2).choices


def test_large_bodies_both_ways(secure):
    body = {"prompt": [[5 + i] * 200 for i in range(8)], "max_tokens": 1, "prompt_logprobs": 20, "user": "x" * 3_000_000}
    answer = requests.post(secure.url + "/v1/completions", json=body, verify=secure.verify, timeout=60)
    assert answer.status_code == 200 and len(answer.json()["choices"]) == 8 and len(answer.content) > 500_000


def test_pipelined_requests_and_the_end_of_a_connection(secure, pki):
    request = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(secure, pki) as connection:
        connection.sendall(request * 300 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        received = b""
        while part := connection.recv(65536):  # raises where the stream is cut off instead of ended
            received += part
    assert received.count(b"HTTP/1.1 200 OK") == 301


def test_a_client_that_leaves_ends_its_stream(secure, pki):
    body = json.dumps({"prompt": [[5, 6]] * 16, "max_tokens": 1000, "ignore_eos": True, "stream": True}).encode()
    connection = connect(secure, pki)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert connection.recv(512)
    connection.close()
    end = time.monotonic() + 5
    while running_requests(secure) > 0:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_plain_http_and_nonsense_harm_nobody(secure):
    host, port = secure.url.removeprefix("https://").split(":")
    for sent in (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"a" * 4000, b""):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            try:
                while part := connection.recv(4096):
                    assert b"200 OK" not in part
            except ConnectionResetError:
                pass
    assert requests.get(secure.url + "/health", verify=secure.verify, timeout=10).status_code == 200


def test_old_protocols_are_refused(secure, pki):
    host, port = secure.url.removeprefix("https://").split(":")
    old = subprocess.run(["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], input="",
                         capture_output=True, text=True, timeout=30)
    assert "Cipher is (NONE)" in old.stdout + old.stderr


@pytest.mark.parametrize("demand", ["1", "2"])
def test_client_certificates(pki, demand):
    flags = ("--ssl-certfile", pki / "server.pem", "--ssl-keyfile", pki / "server.key", "--ssl-ca-certs", pki / "ca.pem", "--ssl-cert-reqs", demand)
    known, stranger = ((str(pki / f"{name}.pem"), str(pki / f"{name}.key")) for name in ("client", "stranger"))
    verify = str(pki / "server.pem")
    with running(MODELS / "llama", *map(str, flags), tls={"verify": verify, "cert": known}) as server:
        for _ in range(3):
            assert requests.get(server.url + "/v1/models", verify=verify, cert=known, timeout=10).status_code == 200
        with pytest.raises(requests.exceptions.ConnectionError):
            requests.get(server.url + "/v1/models", verify=verify, cert=stranger, timeout=10)
        if demand == "1":
            assert requests.get(server.url + "/v1/models", verify=verify, timeout=10).status_code == 200
        else:
            with pytest.raises(requests.exceptions.ConnectionError):
                requests.get(server.url + "/v1/models", verify=verify, timeout=10)


def test_files_that_cannot_be_used_are_refused_before_the_model_loads(pki):
    subprocess.run(["openssl", "ec", "-in", pki / "server.key", "-aes256", "-passout", "pass:secret", "-out", pki / "locked.key"],
                   check=True, capture_output=True)
    (pki / "bad.pem").write_text("no certificate")
    server, key = str(pki / "server.pem"), str(pki / "server.key")
    for flags, word, code in [
        (("--ssl-keyfile", key), "--ssl-keyfile needs --ssl-certfile", 2),
        (("--ssl-cert-reqs", "2"), "--ssl-cert-reqs needs --ssl-certfile", 2),
        (("--ssl-certfile", server, "--ssl-keyfile", key, "--ssl-cert-reqs", "2"), "--ssl-cert-reqs needs --ssl-ca-certs", 2),
        (("--ssl-certfile", server, "--ssl-keyfile", key, "--ssl-cert-reqs", "3"), "--ssl-cert-reqs", 2),
        (("--ssl-certfile", "/nowhere.pem"), "--ssl-certfile '/nowhere.pem'", 1),
        (("--ssl-certfile", str(pki / "bad.pem")), "--ssl-certfile", 1),
        (("--ssl-certfile", server), "private key", 1),
        (("--ssl-certfile", server, "--ssl-keyfile", str(pki / "stranger.key")), "--ssl-keyfile", 1),
        (("--ssl-certfile", server, "--ssl-keyfile", str(pki / "locked.key")), "--ssl-keyfile", 1),
        (("--ssl-certfile", server, "--ssl-keyfile", key, "--ssl-ca-certs", str(pki / "bad.pem")), "--ssl-ca-certs", 1),
    ]:
        answer = run_quire("serve", MODELS / "llama", "--port", "0", *flags)
        sentence = answer.stderr.splitlines()[-1]
        assert (answer.returncode, sentence.startswith("quire: "), word in sentence) == (code, True, True), answer.stderr
