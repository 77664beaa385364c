"""The server as a process: where it listens, how it stops, what it does under load."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from reproduce.benchmarks import serving
from typer.testing import CliRunner

from mtsa.cli import app
from mtsa.serve.server import is_loopback
from tests.sample_data import sentences, write_csv


@pytest.fixture
def server(runs):
    command = [sys.executable, "-m", "mtsa", "serve", str(runs["classification"].run.folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        yield process, int(found.group(1))
        process.kill()


def post(port, texts):
    body = json.dumps({"inputs": [{"text": text} for text in texts]}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/predict", body, {"content-type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)["predictions"]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_it_stops_when_told_and_answers_first(server, number):
    process, port = server
    assert len(post(port, ["the red dog"])) == 1
    found = []
    asking = threading.Thread(target=lambda: found.append(post(port, ["a pear " * 500] * 250)))
    asking.start()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)  # the request is under way
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    asking.join(60)
    assert len(found[0]) == 250
    assert process.returncode == 0
    assert out.endswith("stopped\n")
    assert "Traceback" not in out + err


def test_it_listens_on_loopback_alone(server):
    _, port = server
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("this system does not list its sockets in /proc/net/tcp")
    rows = [line.split()[1:4] for line in table.read_text().splitlines()[1:]]
    listening = [local.split(":")[0] for local, _, state in rows if state == "0A" and int(local.split(":")[1], 16) == port]
    assert listening == ["0100007F"]  # 127.0.0.1


def test_which_addresses_are_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.1.4", "::", "example")))


def test_what_cannot_be_served(runs, tmp_path):
    def call(*arguments):
        done = CliRunner().invoke(app, ["serve", *map(str, arguments)])
        assert done.exit_code == 2
        assert done.output.count("\n") == 1
        return done.output

    folder = runs["classification"].run.folder
    assert str(tmp_path) in call(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "choose another port with --port" in call(folder, "--port", taken.getsockname()[1])
    assert "--host" in call(folder, "--host", "no such host")


@pytest.mark.slow
def test_many_at_once_and_none_lost_or_wrong(runs, tmp_path):
    data = write_csv(tmp_path / "texts.csv", sentences(300))
    record = serving.run(runs["classification"].run.folder, str(data), 500)
    assert record["lost"] == {"together": 0, "alone": 0}
    assert record["wrong"] == {"together": 0, "alone": 0}
    assert record["seconds"]["together"]["p99"] >= record["seconds"]["together"]["p50"] > 0
    assert len(serving.lines(record)) == 3


def test_a_wrong_answer_would_be_seen():
    right = [{"label": "a", "probabilities": {"a": 0.7, "b": 0.3}}]

    def wrong(label, a):
        answer = {"label": label, "probabilities": {"a": a, "b": 1 - a}}
        return serving._wrong([serving._Reply(200, {"predictions": [answer]}, 0.1)], right)

    assert [wrong("a", 0.7), wrong("b", 0.7), wrong("a", 0.71)] == [0, 1, 1]
    assert serving._lost([serving._Reply(503, {}, 0.1), serving._Reply(200, {}, 0.1), serving._Reply(0, None, 0.1)]) == 2
