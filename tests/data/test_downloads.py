"""Downloads against a real server on this machine: resumed, whole, and the same every time."""

import http.server
import io
import json
import threading
import zipfile

import pytest

from mtsa.data.catalogue import SOURCES, Download
from mtsa.data.downloads import LOCK, fetch
from mtsa.errors import InputError

BODY = bytes(range(256)) * 4000


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.body, self.asked, self.break_after, self.ranges = BODY, [], 0, True
        self.errors = []
        self.tag = '"one"'


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        if server.errors:
            self.send_error(server.errors.pop(0))
            return
        if wanted and self.headers.get("If-Range", server.tag) != server.tag:
            wanted = None  # another version than the one the part is of
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if start > len(server.body) or (start and start == len(server.body)):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.body) - 1}/{len(server.body)}")
        self.send_header("ETag", server.tag)
        self.send_header("Content-Length", str(len(server.body) - start))
        self.end_headers()
        rest = server.body[start:]
        if server.break_after:
            rest, server.break_after = rest[: server.break_after], 0
        self.wfile.write(rest)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    made = Server()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def download(server, name="file.bin", members=()):
    return Download(f"http://127.0.0.1:{server.server_port}/{name}", name, members)


def fetch_from(server, folder, **options):
    return fetch(download(server, **options), folder, backoff_seconds=0.01)


def test_the_first_download_is_locked_and_the_second_does_nothing(server, tmp_path):
    assert fetch_from(server, tmp_path).read_bytes() == BODY
    lock = json.loads((tmp_path / LOCK).read_text())["file.bin"]
    assert lock["size"] == len(BODY)
    assert len(lock["sha256"]) == 64
    fetch_from(server, tmp_path)
    assert len(server.asked) == 1


def test_a_broken_connection_goes_on_where_it_stopped(server, tmp_path):
    server.break_after = 300_000
    assert fetch_from(server, tmp_path).read_bytes() == BODY
    assert server.asked == [None, "bytes=300000-"]


def test_a_part_from_an_earlier_day_is_gone_on_with(server, tmp_path):
    (tmp_path / ".file.bin.part").write_bytes(BODY[:1000])
    assert fetch_from(server, tmp_path).read_bytes() == BODY
    assert server.asked == ["bytes=1000-"]
    assert not (tmp_path / ".file.bin.part").exists()


def test_a_part_of_an_older_version_is_not_gone_on_with(server, tmp_path):
    (tmp_path / ".file.bin.part").write_bytes(b"old" * 300)
    (tmp_path / ".file.bin.part.tag").write_text('"older"')
    assert fetch_from(server, tmp_path).read_bytes() == BODY
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "file.bin"]


def test_a_server_without_ranges_gives_the_whole_file_again(server, tmp_path):
    server.ranges = False
    (tmp_path / ".file.bin.part").write_bytes(b"x" * 1000)
    assert fetch_from(server, tmp_path).read_bytes() == BODY


def test_a_whole_part_is_fetched_again(server, tmp_path):
    (tmp_path / ".file.bin.part").write_bytes(BODY)
    assert fetch_from(server, tmp_path).read_bytes() == BODY
    assert server.asked == [f"bytes={len(BODY)}-", None]


def test_a_file_that_changed_on_the_server_is_refused(server, tmp_path):
    fetch_from(server, tmp_path)
    (tmp_path / "file.bin").unlink()
    server.body = BODY[:-1] + b"!"
    with pytest.raises(InputError, match="the first download had"):
        fetch_from(server, tmp_path)
    assert not (tmp_path / "file.bin").exists()
    server.body = BODY
    fetch_from(server, tmp_path)


def test_a_file_damaged_here_is_fetched_again(server, tmp_path):
    fetch_from(server, tmp_path).write_bytes(b"damaged")
    assert fetch_from(server, tmp_path).read_bytes() == BODY


def test_errors_of_the_server(server, tmp_path):
    server.errors = [404]
    with pytest.raises(InputError, match="returned 404"):
        fetch_from(server, tmp_path)
    server.errors = [503, 503]
    assert fetch_from(server, tmp_path).read_bytes() == BODY
    with pytest.raises(InputError, match=r"http://127.0.0.1:1/x"):
        fetch(Download("http://127.0.0.1:1/x", "x"), tmp_path, backoff_seconds=0.01)


def test_named_members_are_taken_out_and_nothing_else(server, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("trees/train.txt", "(2 a)")
        archive.writestr("../escape.txt", "out")
    server.body = packed.getvalue()
    fetch_from(server, tmp_path / "data", name="a.zip", members=(("trees/train.txt", "train.txt"),))
    assert (tmp_path / "data" / "train.txt").read_text() == "(2 a)"
    assert not (tmp_path / "escape.txt").exists()
    with pytest.raises(InputError, match="not the expected archive"):
        fetch_from(server, tmp_path / "data", name="a.zip", members=(("trees/none.txt", "none.txt"),))


def test_a_spoilt_lock_file_is_refused(server, tmp_path):
    (tmp_path / LOCK).write_text("[]")
    with pytest.raises(InputError, match="not a valid lock file"):
        fetch_from(server, tmp_path)


def test_the_catalogue_names_files_inside_the_folder():
    for source in SOURCES.values():
        for found in source.files:
            for name in (found.name, *(inside for _, inside in found.members)):
                assert "/" not in name
                assert not name.startswith(".")
            assert found.url.startswith("https://")
