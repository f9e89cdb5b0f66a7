"""A hub on this machine: the listing of a repository, its files with redirects to a second server as the real one's CDN,
and every way in which both can fail."""

import hashlib
import json
import re
import ssl
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

TOKEN = "hf_test_token"
LARGE = (".safetensors", ".gguf")  # stored in LFS, served by the CDN


@dataclass
class Request:
    server: str  # "hub" or "cdn"
    method: str
    path: str
    headers: dict  # by names in lower case


@dataclass
class Repository:
    files: dict  # name -> bytes
    commit: str
    gated: bool = False
    sizes: dict = field(default_factory=dict)  # listed in place of the true ones
    digests: bool = True  # whether the listing has sizes and digests

    def digest(self, name: str) -> str:
        content = self.files[name]
        if name.endswith(LARGE):
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    def listing(self) -> dict:
        siblings = []
        for name, content in self.files.items():
            row = {"rfilename": name}
            if self.digests:
                row |= {"size": self.sizes.get(name, len(content)), "blobId": self.digest(name)}
                if name.endswith(LARGE):
                    row |= {"blobId": "0" * 40, "lfs": {"sha256": self.digest(name), "size": row["size"], "pointerSize": 130}}
            siblings.append(row)
        return {"sha": self.commit, "siblings": siblings}


class FakeHub:
    """`url` is the endpoint. `faults[file name or "listing"]` is a list of what goes wrong in the next answers, one each:
    a status, ("cut", bytes) for a connection that breaks, "no-range" for a server that always sends all, "damaged" for
    other bytes of the same length, "stall" for one that stops sending until `go_on` is set. For large files faults are the
    CDN's."""

    def __init__(self, tls: ssl.SSLContext | None = None):
        self.repositories, self.requests, self.faults = {}, [], defaultdict(list)
        self.stalled, self.go_on = threading.Event(), threading.Event()
        self.reset_listing = None  # bytes to answer a listing with
        self._servers = {}
        for name in ("hub", "cdn"):
            handler = type("Handler", (_Handler,), {"hub": self, "server_name": name})
            self._servers[name] = ThreadingHTTPServer(("127.0.0.1", 0), handler)
            self._servers[name].daemon_threads = True
            if tls is not None:
                self._servers[name].socket = tls.wrap_socket(self._servers[name].socket, server_side=True)
            threading.Thread(target=self._servers[name].serve_forever, args=(0.05,), daemon=True).start()
        scheme = "http" if tls is None else "https"
        self.url, self.cdn_url = (f"{scheme}://127.0.0.1:{self._servers[name].server_port}" for name in ("hub", "cdn"))

    def add(self, name: str, files: dict, **options) -> Repository:
        commit = hashlib.sha1((name + "".join(files)).encode()).hexdigest()
        self.repositories[name] = Repository(dict(files), commit, **options)
        return self.repositories[name]

    def add_folder(self, name: str, folder: Path, **options) -> Repository:
        return self.add(name, {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}, **options)

    def clear(self) -> None:
        self.repositories.clear()
        self.requests.clear()
        self.faults.clear()
        self.reset_listing = None
        self.stalled.clear()
        self.go_on.clear()

    def of_file(self, name: str, method: str = "GET", server: str | None = None) -> list:
        return [request for request in self.requests
                if request.path.endswith("/" + name) and request.method == method and server in (None, request.server)]

    def close(self) -> None:
        self.go_on.set()
        for server in self._servers.values():
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub
    server_name: str

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.serve()

    def do_GET(self):
        self.serve()

    def answer(self, status: int, body: bytes = b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self):
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(Request(self.server_name, self.command, path,
                                         {name.lower(): value for name, value in self.headers.items()}))
        listing = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if self.server_name == "cdn":
            file = re.fullmatch(r"/cdn/([^/]+/[^/]+)/([^/]+)/(.+)", path)
        match = listing or file
        repository = self.hub.repositories.get(match[1]) if match else None
        if repository is None:
            return self.answer(401, b"{}", X_Error_Code="RepoNotFound", X_Error_Message="Invalid username or password.")
        token = self.headers.get("Authorization")
        if token not in (None, f"Bearer {TOKEN}"):
            return self.answer(401, b"{}", X_Error_Message="Invalid credentials in Authorization header")
        if match[2] not in ("main", repository.commit):
            return self.answer(404, b"{}", X_Error_Code="RevisionNotFound", X_Error_Message=f"Invalid rev id: {match[2]}")
        if listing:
            return self.list_files(repository)
        if self.server_name == "hub" and repository.gated and token is None:
            return self.answer(401, b"", X_Error_Code="GatedRepo", X_Error_Message="Access to model is restricted.")
        if match[3] not in repository.files:
            return self.answer(404, b"", X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
        self.send_file(match[1], repository, match[3])

    def list_files(self, repository: Repository):
        faults = self.hub.faults["listing"]
        if faults:
            return self.answer(faults.pop(0), b"{}")
        self.answer(200, self.hub.reset_listing or json.dumps(repository.listing()).encode())

    def send_file(self, id: str, repository: Repository, name: str):
        content = repository.files[name]
        headers = {"X_Repo_Commit": repository.commit, "Accept_Ranges": "bytes"}
        if self.server_name == "hub" and name.endswith(LARGE):
            return self.answer(302, b"", **headers, X_Linked_Size=len(content), X_Linked_Etag=f'"{repository.digest(name)}"',
                               Location=f"{self.hub.cdn_url}/cdn/{id}/{repository.commit}/{name}")
        headers["Etag"] = f'"{repository.digest(name)}"'
        if self.command == "HEAD":
            return self.answer(200, content, **headers)
        fault = self.hub.faults[name].pop(0) if self.hub.faults[name] else None
        if isinstance(fault, int):
            return self.answer(fault)
        if fault == "damaged":
            content = bytes(byte ^ 1 for byte in content)
        begin = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        begin = int(begin[1]) if begin and fault != "no-range" else None
        if begin is not None and begin >= len(content):
            return self.answer(416, b"", Content_Range=f"bytes */{len(content)}")
        part = content[begin or 0:]
        self.send_response(200 if begin is None else 206)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        if begin is not None:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if fault is not None and fault[0] in ("cut", "stall"):
            self.wfile.write(part[:fault[1]])
            self.wfile.flush()
            if fault[0] == "stall":
                self.hub.stalled.set()
                self.hub.go_on.wait(60)
            self.close_connection = True
            return None
        self.wfile.write(part)
