"""`recnas serve` as a process: over a socket, until a signal."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from recnas.errors import BackendMissing, RunError
from recnas.serve.export import export
from recnas.serve.http.load_test import load_test

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.spawns


@pytest.fixture(scope="module")
def folder(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("served") / "export"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recnas.serve.export.check_raw_rows", lambda *_: {})  # which test_export.py is about
        try:
            export(f"{trained_run}:best", "onnx", out)
        except BackendMissing:  # without the packages of recnas[export]
            export(f"{trained_run}:best", "pt2", out)
    return out


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "recnas", "serve", str(folder), "--json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextmanager
def serving(folder: Path, *options: str):
    """A server and its port; it is killed if it still runs afterwards."""
    server = start(folder, "--port", "0", *options)
    try:
        assert server.stdout is not None
        yield server, json.loads(server.stdout.readline())["port"]
    finally:
        server.kill()
        server.communicate()


def fetch(port: int, method: str, path: str, body: bytes | None = None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body)
    response = connection.getresponse()
    status, content = response.status, json.loads(response.read())
    connection.close()
    return status, content


def test_requests_under_way_are_answered_before_the_end(folder: Path):
    with serving(folder, "--most-bytes", "20k") as (server, port):
        assert fetch(port, "GET", "/health")[1]["status"] == "ok"
        example = fetch(port, "GET", "/schema")[1]["examples"][0]
        status, content = fetch(port, "POST", "/predict", json.dumps(example).encode())
        assert status == 200
        assert 0 < content["probability"] < 1
        assert fetch(port, "POST", "/predict", b" " * 30_000)[0] == 413
        assert fetch(port, "POST", "/predict", json.dumps(example | {"C1": "xyz"}).encode())[1]["rows"][0][
            "fields"
        ] == ["C1"]
        # A request whose body is half sent when the signal comes.
        body = json.dumps(example).encode()
        half = socket.create_connection(("127.0.0.1", port), timeout=30)
        half.sendall(f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[:20])
        time.sleep(0.3)
        server.send_signal(signal.SIGTERM)
        for _ in range(200):  # new ones are not taken any more
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except ConnectionRefusedError:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the port still takes connections")
        half.sendall(body[20:])
        said = b""
        while piece := half.recv(65536):
            said += piece
        half.close()
        assert said.startswith(b"HTTP/1.1 200")
        assert json.loads(said.partition(b"\r\n\r\n")[2]) == content
        assert server.wait(30) == 128 + signal.SIGTERM
        assert "stopped by SIGTERM" in server.stderr.read()


def test_an_onnx_export_needs_no_torch(folder: Path):
    if not (folder / "model.onnx").exists():
        pytest.skip("the packages of recnas[export] are not installed")
    code = "import sys; from recnas.serve.http.served import open_served; open_served(sys.argv[1]).probabilities([]); import recnas.cli.serve, recnas.serve.http.server, recnas.serve.http.app; assert not {'torch', 'pandas', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


def test_a_port_that_is_taken(folder: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start(folder, "--port", str(port))
        out, said = server.communicate(timeout=60)
    assert (server.returncode, out) == (2, "")
    assert f"127.0.0.1:{port} cannot be served on" in said


def test_a_load_test_kills_it_and_finds_the_same_answers(folder: Path):
    found = load_test([str(folder)], 0.5, 3)
    assert found.requests > 10
    assert found.errors == 0
    assert found.p50_ms <= found.p99_ms
    assert found.requests_per_second == found.requests / 0.5


def test_a_load_test_of_what_does_not_start(folder: Path):
    with pytest.raises(RunError, match=r"did not start \(exit code 2\): recnas: There is no program 'trch'"):
        load_test([str(folder), "--program", "trch"], 0.5, 1)
