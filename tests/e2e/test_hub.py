"""Models and adapters from a hub, which a server on this machine plays."""

import json
import os
import signal
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
import requests

from conftest import MODELS, binary, run_quire, running
from hub_server import TOKEN, FakeHub

LLAMA, QWEN = MODELS / "llama", MODELS / "qwen2"
ADAPTER = LLAMA / "qv-r4"
WEIGHTS = "model-00003-of-00005.safetensors"
VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HUGGINGFACE_HUB_CACHE",
             "HUGGING_FACE_HUB_TOKEN", "TRANSFORMERS_OFFLINE")


@pytest.fixture(scope="module")
def fake_hub():
    hub = FakeHub()
    yield hub
    hub.close()


@pytest.fixture
def hub(fake_hub, monkeypatch, tmp_path):
    """The hub with two models, and an environment that leads to it."""
    fake_hub.clear()
    fake_hub.add_folder("org/llama", LLAMA)
    fake_hub.add_folder("org/qwen", QWEN)
    fake_hub.add_folder("org/adapter", ADAPTER)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", fake_hub.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return fake_hub


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "home" / "hub"


def pull(*arguments: str, **environment: str):
    return run_quire("pull", *arguments, environment=environment)


def refused(answer) -> str:
    """The one sentence of a command that failed."""
    assert answer.returncode == 1 and answer.stdout == "", answer.stderr
    sentence = answer.stderr.splitlines()[-1]
    assert sentence.startswith("quire: ")
    return sentence


def check_snapshot(answer, folder: Path) -> Path:
    """The path that a pull printed, whose files are those of `folder`."""
    assert answer.returncode == 0, answer.stderr
    snapshot = Path(answer.stdout.strip())
    for path in snapshot.iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name
    return snapshot


def test_a_pull_fills_hugging_faces_cache(hub, cache):
    snapshot = check_snapshot(pull("org/llama"), LLAMA)
    repository = hub.repositories["org/llama"]
    root = cache / "models--org--llama"
    assert snapshot == root / "snapshots" / repository.commit
    assert (root / "refs" / "main").read_text() == repository.commit
    wanted = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
              "model.safetensors.index.json", *(f"model-0000{i}-of-00005.safetensors" for i in range(1, 6))}
    names = {path.name for path in snapshot.iterdir()}
    assert wanted <= names <= wanted | {"golden.json"}
    for name in wanted:
        assert os.readlink(snapshot / name) == f"../../blobs/{repository.digest(name)}"
    assert {path.name for path in (root / "blobs").iterdir()} == {repository.digest(name) for name in names}

    # What is there is not fetched again.
    hub.requests.clear()
    check_snapshot(pull("org/llama"), LLAMA)
    assert [request.path for request in hub.requests] == ["/api/models/org/llama/revision/main"]


def test_the_token_goes_to_the_hub_alone(hub):
    hub.repositories["org/qwen"].digests = False  # so that headers are asked for, too
    (Path(os.environ["HF_HOME"])).mkdir(parents=True)
    (Path(os.environ["HF_HOME"]) / "token").write_text(TOKEN + "\n")
    for arguments, environment in ((("org/llama",), {"HF_TOKEN": TOKEN}), (("org/qwen", "--hf-token", TOKEN), {"HF_TOKEN": "other"}),
                                   (("org/adapter",), {})):
        hub.requests.clear()
        assert pull(*arguments, **environment).returncode == 0
        seen = {(request.server, request.headers.get("authorization")) for request in hub.requests}
        assert seen == {("hub", f"Bearer {TOKEN}"), ("cdn", None)}


def test_a_hub_without_digests_is_asked_file_by_file(hub):
    hub.repositories["org/llama"].digests = False
    check_snapshot(pull("org/llama"), LLAMA)
    assert hub.of_file(WEIGHTS, "HEAD", "hub") and not hub.of_file(WEIGHTS, "HEAD", "cdn")


def test_a_broken_transfer_goes_on_where_it_stopped(hub):
    hub.faults[WEIGHTS] = [("cut", 1000), ("cut", 500), 503]
    check_snapshot(pull("org/llama"), LLAMA)
    assert [request.headers.get("range") for request in hub.of_file(WEIGHTS, server="cdn")] == \
        [None, "bytes=1000-", "bytes=1500-", "bytes=1500-"]


def test_a_server_that_ignores_ranges_begins_anew(hub):
    hub.faults[WEIGHTS] = [("cut", 1000), "no-range"]
    check_snapshot(pull("org/llama"), LLAMA)


def test_damaged_content_is_fetched_once_more_and_then_refused(hub, cache):
    hub.faults[WEIGHTS] = ["damaged"]
    hub.faults["config.json"] = ["damaged"]
    check_snapshot(pull("org/llama"), LLAMA)
    hub.faults["model.safetensors"] = ["damaged", "damaged"]
    assert "model.safetensors does not have the content that the hub lists" in refused(pull("org/qwen"))
    blobs = list((cache / "models--org--qwen" / "blobs").glob("*"))
    assert hub.repositories["org/qwen"].digest("model.safetensors") not in {path.name for path in blobs}
    assert not (cache / "models--org--qwen" / "refs").exists()
    check_snapshot(pull("org/qwen"), QWEN)


@pytest.mark.parametrize("listed", (10, 10**7), ids=("less", "more"))
def test_a_wrong_size_is_refused(hub, listed):
    size = len(hub.repositories["org/llama"].files[WEIGHTS])
    hub.repositories["org/llama"].sizes[WEIGHTS] = listed
    sentence = refused(pull("org/llama"))
    assert WEIGHTS in sentence and str(listed) in sentence and str(size) in sentence


def test_what_the_disk_cannot_hold_is_not_begun(hub):
    hub.repositories["org/llama"].sizes[WEIGHTS] = 10**18
    sentence = refused(pull("org/llama"))
    assert f"{10**18} bytes" in sentence and "--download-dir" in sentence
    assert not hub.of_file(WEIGHTS)


def test_faults_of_the_server_are_waited_out(hub):
    hub.faults["listing"] = [503, 429]
    hub.faults["config.json"] = [500, 502]
    check_snapshot(pull("org/qwen"), QWEN)


@pytest.mark.parametrize("arguments, words", [
    (("org/none",), ("no org/none", "HF_TOKEN")),
    (("org/none", "--hf-token", TOKEN), ("no org/none", "may not see")),
    (("org/llama", "--hf-token", "hf_wrong"), ("does not accept the token",)),
    (("org/llama", "--revision", "v9"), ("no revision 'v9'",)),
    (("org/gated",), ("is gated", "--hf-token or HF_TOKEN")),
    (("org/llama:Q8_0",), ("no .gguf file of 'Q8_0'",)),
    (("org/nothing",), ("no model that can be read",)),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) and value[0].startswith("org") else "")
def test_a_refusal_is_one_sentence(hub, arguments, words):
    hub.add("org/gated", {"config.json": b"{}", "model.safetensors": b"x"}, gated=True)
    hub.add("org/nothing", {"README.md": b"hello"})
    sentence = refused(pull(*arguments))
    assert all(word in sentence for word in words), sentence
    assert "hf_wrong" not in sentence


@pytest.mark.parametrize("name", ("../evil.json", "/tmp/evil.json", "a/../../evil.json", "a\\..\\evil.json", "evil\x00.json", "..", ""))
def test_names_that_leave_the_folder_are_refused(hub, cache, name):
    hub.add("org/evil", {"config.json": b"{}", "model.safetensors": b"x", name: b"{}"})
    assert "outside the folder" in refused(pull("org/evil"))
    assert not cache.exists()


@pytest.mark.parametrize("listing", (b"", b"<html>", b"[]", b"{}", b'{"sha": "../../x", "siblings": []}', b'{"sha": "' + b"0" * 40 + b'"}',
                                     b'{"sha": "' + b"0" * 40 + b'", "siblings": [{}]}', b"[" * 100_000,
                                     b'{"sha": "' + b"0" * 40 + b'", "siblings": [{"rfilename": "a", "size": 9223372036854775808}]}'))
def test_what_is_no_hub_is_said(hub, listing):
    hub.reset_listing = listing or b" "
    assert "check HF_ENDPOINT" in refused(pull("org/llama"))


def test_without_a_network_the_cache_is_used(hub):
    snapshot = check_snapshot(pull("org/llama"), LLAMA)
    closed = "http://127.0.0.1:9"
    answer = pull("org/llama", HF_ENDPOINT=closed)
    assert check_snapshot(answer, LLAMA) == snapshot and "cannot be reached" in answer.stderr
    for endpoint, word in ((closed, "cannot be reached"), ("nonsense", "HF_ENDPOINT 'nonsense' is no address")):
        assert word in refused(pull("org/qwen", HF_ENDPOINT=endpoint))


def test_offline_only_the_cache_counts(hub):
    snapshot = check_snapshot(pull("org/llama"), LLAMA)
    hub.requests.clear()
    answer = pull("org/llama", HF_HUB_OFFLINE="1")
    assert check_snapshot(answer, LLAMA) == snapshot and answer.stderr == ""  # it was asked for
    assert "HF_HUB_OFFLINE is set" in refused(pull("org/qwen", HF_HUB_OFFLINE="1"))
    (snapshot / WEIGHTS).unlink()
    sentence = refused(pull("org/llama", HF_HUB_OFFLINE="1"))
    assert WEIGHTS in sentence and "HF_HUB_OFFLINE" in sentence
    assert hub.requests == []


def test_a_revision_is_a_commit_too(hub, cache):
    commit = hub.repositories["org/qwen"].commit
    check_snapshot(pull("org/qwen", "--revision", commit), QWEN)
    assert not (cache / "models--org--qwen" / "refs").exists()
    assert pull("org/qwen", "--revision", commit, HF_HUB_OFFLINE="1").returncode == 0


def test_folders_are_hugging_faces(hub, tmp_path):
    for arguments, environment, folder in ((("--download-dir", tmp_path / "flag"), {"HF_HUB_CACHE": "/nowhere"}, tmp_path / "flag"),
                                           ((), {"HF_HUB_CACHE": str(tmp_path / "cache")}, tmp_path / "cache")):
        assert check_snapshot(pull("org/qwen", *arguments, **environment), QWEN).is_relative_to(folder)


def test_an_interrupted_pull_is_resumed(hub, cache):
    hub.faults[WEIGHTS] = [("stall", 3000)]
    # Where the tests run in the background, a shell has set the signal to be ignored.
    process = subprocess.Popen([binary(), "pull", "org/llama"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert hub.stalled.wait(30)
    partial = cache / "models--org--llama" / "blobs" / (hub.repositories["org/llama"].digest(WEIGHTS) + ".incomplete")
    while partial.stat().st_size < 3000:
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == -signal.SIGINT
    process.communicate()
    check_snapshot(pull("org/llama"), LLAMA)
    assert hub.of_file(WEIGHTS, server="cdn")[-1].headers["range"] == "bytes=3000-"
    assert not partial.exists()


def test_two_pulls_at_once_share_the_work(hub):
    hub.faults[WEIGHTS] = [("stall", 3000)]
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(pull("org/llama"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert hub.stalled.wait(30)
    hub.go_on.set()
    for thread in threads:
        thread.join()
    for answer in answers:
        check_snapshot(answer, LLAMA)
    sent = sum(1 for request in hub.of_file(WEIGHTS, server="cdn"))
    assert len(answers) == 3 and sent == 2  # the one that broke off, and its rest


def test_gguf_files_are_chosen_by_their_variant(hub):
    hub.add("org/gguf", {"README.md": b"", "m-Q8_0.gguf": b"GGUF8", "m-Q4_K_M.gguf": b"GGUF4", "sub/m-BF16.gguf": b"GGUF16"})
    for id, content in (("org/gguf", b"GGUF4"), ("org/gguf:q8_0", b"GGUF8"), ("org/gguf:sub/m-BF16.gguf", b"GGUF16")):
        hub.requests.clear()
        answer = pull(id)
        assert answer.returncode == 0 and Path(answer.stdout.strip()).read_bytes() == content
        assert len([request for request in hub.requests if request.server == "cdn"]) == 1
    hub.faults["listing"] = []
    assert "m-Q8_0.gguf, m-Q4_K_M.gguf" in refused(pull("org/gguf:Q2_K"))


def test_a_pulled_adapter_is_an_adapter(hub):
    snapshot = check_snapshot(pull("org/adapter"), ADAPTER)
    assert {path.name for path in snapshot.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}


@pytest.mark.parametrize("id", ("name", "./org/name", "org/name/file", "org/name.gguf", "https://hub/org/name"))
def test_a_pull_takes_the_name_of_a_repository(hub, id):
    answer = pull(id)
    assert answer.returncode == 2 and "ORG/NAME" in answer.stderr


def test_a_model_of_the_hub_is_served_under_its_name(hub):
    with running("org/llama", "--dtype", "float32") as server:
        card = requests.get(server.url + "/v1/models", timeout=10).json()["data"][0]
        assert card["id"] == card["root"] == "org/llama"
        body = {"model": "org/llama", "prompt": "one two", "max_tokens": 4, "temperature": 0}
        answer = requests.post(server.url + "/v1/completions", json=body, timeout=60).json()
        assert answer["model"] == "org/llama"
    local = run_quire("complete", "--model", LLAMA, "--dtype", "float32", "--quick", "one two", "--max-tokens", "4",
                      "--temperature", "0")
    assert answer["choices"][0]["text"] == local.stdout[:-1]


def test_every_command_takes_a_name_of_the_hub(hub, tmp_path):
    answer = run_quire("complete", "--model", "org/llama", "--quick", "one", "--max-tokens", "2")
    assert answer.returncode == 0, answer.stderr
    answer = run_quire("chat", "--model", "org/qwen", "--tokenizer", "org/llama", "--quick", "one", "--max-tokens", "2")
    assert "org/qwen" not in answer.stderr or answer.returncode == 0, answer.stderr
    result = tmp_path / "result.json"
    answer = run_quire("bench", "latency", "--model", "org/llama", "--input-len", "4", "--output-len", "2", "--batch-size", "1",
                       "--num-iters-warmup", "0", "--num-iters", "1", "--output-json", result)
    assert answer.returncode == 0 and json.loads(result.read_text())["model"] == "org/llama", answer.stderr
    sentence = refused(run_quire("complete", "--model", "org/none", "--quick", "one"))
    assert "no path org/none" in sentence and "no org/none at" in sentence


def test_adapters_come_from_the_hub_too(hub, tmp_path):
    flags = ("--model", LLAMA, "--dtype", "float32", "--quick", "one two", "--max-tokens", "4", "--temperature", "0")
    local = run_quire("complete", *flags, "--lora", ADAPTER)
    assert local.returncode == 0
    assert run_quire("complete", *flags, "--lora", "org/adapter").stdout == local.stdout
    with running("org/llama", "--dtype", "float32", "--enable-lora", "--lora-modules", "tuned=org/adapter") as server:
        card = requests.get(server.url + "/v1/models/tuned", timeout=10).json()
        assert card["root"] == "org/adapter" and card["parent"] == "org/llama"
        body = {"model": "tuned", "prompt": "one two", "max_tokens": 4, "temperature": 0}
        answer = requests.post(server.url + "/v1/completions", json=body, timeout=60).json()
        assert answer["choices"][0]["text"] == local.stdout[:-1]
        body = {"lora_name": "other", "lora_path": "org/adapter"}
        hub.requests.clear()
        answer = requests.post(server.url + "/v1/load_lora_adapter", json=body, timeout=60)
        assert answer.status_code == 404 and "'quire pull' prints" in answer.json()["error"]["message"]
        assert hub.requests == []  # a request makes the server download nothing
    sentence = refused(run_quire("complete", *flags, "--lora", "org/llama"))
    assert "org/llama has no adapter_config.json" in sentence
    assert "is a LoRA adapter" in refused(run_quire("complete", "--model", "org/adapter", "--quick", "one"))


def test_lora_commands_take_names_of_the_hub(hub, tmp_path):
    answer = run_quire("lora", "inspect", "org/adapter", "--model", "org/llama")
    assert answer.returncode == 0 and "It fits org/llama." in answer.stdout, answer.stderr
    merged = {}
    for name, model, adapter in (("hub", "org/llama", "org/adapter"), ("local", LLAMA, ADAPTER)):
        answer = run_quire("lora", "merge", "--model", model, "--lora", adapter, "--output", tmp_path / name)
        assert answer.returncode == 0, answer.stderr
        merged[name] = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir() if not path.is_symlink()}
    assert merged["hub"] == merged["local"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate authority that no system knows (ca.pem), and a server's certificate from it (server.pem with its key)."""
    folder = tmp_path_factory.mktemp("authority")
    (folder / "leaf.cnf").write_text("basicConstraints=critical,CA:FALSE\nsubjectAltName=IP:127.0.0.1\n")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for command in (("req", "-x509", *new_key, "-days", "2", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=company"),
                    ("req", "-new", *new_key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=hub"),
                    ("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                     "-extfile", "leaf.cnf", "-out", "server.pem")):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    return folder


def test_a_companys_certificates_are_trusted_where_they_are_named(hub, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    secure = FakeHub(context)
    try:
        secure.add_folder("org/llama", LLAMA)
        trusting = {"HF_ENDPOINT": secure.url, "SSL_CERT_FILE": str(authority / "ca.pem")}
        assert "SSL_CERT_FILE" in refused(pull("org/llama", HF_ENDPOINT=secure.url))
        assert "is no file of certificates" in refused(pull("org/llama", **(trusting | {"SSL_CERT_FILE": str(LLAMA / "config.json")})))
        encrypted, secure.cdn_url = secure.cdn_url, hub.cdn_url
        assert "which is not encrypted" in refused(pull("org/llama", **trusting))
        secure.cdn_url = encrypted
        check_snapshot(pull("org/llama", **trusting), LLAMA)
    finally:
        secure.close()
