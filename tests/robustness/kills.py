"""Work that is killed without warning, again and again at random moments, until it ends: the result must be what it always is.

Each piece of work runs in a process of its own, a copy of this one, and gets SIGKILL after a random while; then the next one
goes on with what is left. What a kill costs is counted: results that differ, and checkpoints that were there before it and are
gone or damaged after it.
"""

import contextlib
import dataclasses
import hashlib
import http.server
import json
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduce.paths import Paths
from reproduce.runner import execute_all
from reproduce.tables import CLASSIFICATION

from mtsa.data.catalogue import Download
from mtsa.data.downloads import fetch
from mtsa.data.examples import Example
from mtsa.data.sharding import open_shards, write_shards
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import MANIFEST, open_run
from tests.sample_data import glove, sentences, small_recipe, write_csv
from tests.training import pretrain_tiny

PROCESSES = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Work:
    """Something to be killed at."""

    name: str
    run: Any  # (folder): does it, or goes on with it
    done: Any  # (folder): whether it has ended
    result: Any  # (folder): what it made, as bytes
    longest: float  # seconds until a kill, at most


def _apart(run: Any, folder: Path, told: Path) -> None:
    """Run in this process, a copy made for it; what it says goes into a file."""
    with told.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        try:
            run(folder)
        except BaseException:
            traceback.print_exc()
            raise


def survive(work: Work, folder: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill the work so many times, each time it has ended beginning anew; what was lost (nothing, it is hoped)."""
    rng = random.Random(f"{work.name} {seed}")
    whole = folder / "whole"
    whole.mkdir(parents=True)
    begun = time.monotonic()
    work.run(whole)
    longest = max(work.longest, 1.2 * (time.monotonic() - begun))  # on a busy machine everything takes longer
    expected = work.result(whole)
    counts = {"kills": 0, "late": 0, "ends": 0, "different": 0, "lost": 0, "bytes": 0}
    number, told = 0, folder / "told.txt"
    while counts["kills"] < kills:
        own = folder / f"try-{number}"
        own.mkdir(exist_ok=True)
        before = _kept(own)
        process = PROCESSES.Process(target=_apart, args=(work.run, own, told))
        process.start()
        process.join(rng.uniform(0.0, longest))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            counts["kills"] += 1
            process.join()
        elif process.exitcode != 0:
            raise AssertionError(f"{work.name}: ended with {process.exitcode}: {told.read_text()[-3000:]}")
        after = _kept(own)
        counts["late"] += bool(after) and process.exitcode == -signal.SIGKILL
        lost = [name for name, kept in before.items() if after.get(name) not in (kept, None)]
        ended = work.done(own) or any(own.rglob(MANIFEST))  # a run that is whole needs its checkpoints no more
        if _newest(after) <= _newest(before) and not ended:  # the newest checkpoint has to be there, with all its files
            lost += [name for name in before if _step(name) == _newest(before) and name not in after]
        counts["lost"] += len(lost)
        counts["bytes"] += sum(before[name].size for name in lost)
        if work.done(own):
            counts["ends"] += 1
            counts["different"] += work.result(own) != expected
            shutil.rmtree(own)
            number += 1
    own = folder / f"try-{number}"
    own.mkdir(exist_ok=True)
    if not work.done(own):  # what the last kill left must still come to an end
        work.run(own)
    counts["ends"] += 1
    counts["different"] += work.result(own) != expected
    return counts


@dataclass(frozen=True)
class Kept:
    """A file of a checkpoint, as it was."""

    digest: str
    size: int


def _kept(folder: Path) -> dict[str, Kept]:
    """All files in whole checkpoints, by name."""
    found = {}
    for place in folder.rglob("checkpoint-*"):
        if place.name.removeprefix("checkpoint-").isdecimal():
            for path in sorted(place.iterdir()):
                raw = path.read_bytes()
                found[str(path.relative_to(folder))] = Kept(hashlib.sha256(raw).hexdigest(), len(raw))
    return found


def _step(name: str) -> int:
    """The step of the checkpoint that a file is in."""
    return int(name.split("checkpoint-")[1].split("/")[0])


def _newest(kept: dict[str, Kept]) -> int:
    """The step of the newest checkpoint; -1 where there is none."""
    return max(map(_step, kept), default=-1)


def _weights(folder: Path) -> bytes:
    """A finished run: its weights and figures, and that it opens."""
    open_run(folder / "run")
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    return (folder / "run" / "model.safetensors").read_bytes() + json.dumps(metrics, sort_keys=True).encode()


def training(folder: Path) -> Work:
    """A run of 30 steps with a checkpoint after every second one, and dropout."""
    recipe = small_recipe(write_csv(folder / "train.csv", sentences(80)), epochs=6, eval_steps=2, batch_size=16)
    recipe = dataclasses.replace(
        recipe, data=dataclasses.replace(recipe.data, dev=str(write_csv(folder / "dev.csv", sentences(20, 5))))
    )

    def run(own):
        if not (own / "run" / MANIFEST).exists():
            run_recipe(recipe, own / "run")

    return Work("training", run, lambda own: (own / "run" / MANIFEST).exists(), _weights, 1.5)


def gpt(folder: Path) -> Work:
    """The pretraining of a small GPT, saved at every step."""

    def done(own):
        return (own / "gpt" / "record.json").exists()

    def run(own):
        if not done(own):
            pretrain_tiny.run(own / "gpt", sharded=False, save_every=1)

    return Work("pretraining", run, done, lambda own: (own / "gpt" / "model.safetensors").read_bytes(), 1.5)


def table(folder: Path) -> Work:
    """A run of a table, with checkpoints, through the experiment runner."""
    data = folder / "data"
    data.mkdir()
    lines = sorted(f"{int(label == 'fruit')} {text}" for text, label in sentences(60))
    (data / "cr.all").write_text("\n".join(lines) + "\n", encoding="latin-1")
    (one_run,) = dataclasses.replace(CLASSIFICATION, search=None).runs(
        Paths(data, glove(data / "vectors.txt")), ["cr"], ["mtsa"], 1
    )

    def run(own):
        execute_all([one_run], own, minutes=None)

    def result(own):
        record = json.loads((own / one_run.path).read_text())
        return json.dumps([record[key] for key in ("test", "dev_curve", "steps")], sort_keys=True).encode()

    return Work("making a table", run, lambda own: (own / one_run.path).exists(), result, 2.5)


def dealing(folder: Path) -> Work:
    """A file dealt out into shards."""
    examples = [Example(f"{text} {number}", label, number) for number, (text, label) in enumerate(sentences(3000))]

    def run(own):
        if not (own / "shards").exists():
            write_shards(examples, own / "shards", task="classification", shards=5, seed=0)

    return Work(
        "dealing into shards", run, lambda own: (own / "shards").exists(),
        lambda own: open_shards(own / "shards", "classification").sha256().encode(), 0.25,
    )  # fmt: skip


class _Slow(http.server.BaseHTTPRequestHandler):
    body = random.Random(0).randbytes(3_000_000)

    def do_GET(self):
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(self.body) - 1}/{len(self.body)}")
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(len(self.body) - start))
        self.end_headers()
        try:
            for place in range(start, len(self.body), 100_000):
                self.wfile.write(self.body[place : place + 100_000])
                time.sleep(0.01)
        except OSError:  # the other side was killed
            pass

    def log_message(self, *args):
        pass


def downloading(folder: Path) -> Work:
    """A file of 3 MB from a server on this machine that takes its time."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wanted = Download(f"http://127.0.0.1:{server.server_address[1]}/x.bin", "x.bin")
    return Work(
        "downloading", lambda own: fetch(wanted, own, backoff_seconds=0.0),
        lambda own: (own / "x.bin").exists() and _locked(own),
        lambda own: (own / "x.bin").read_bytes(), 0.6,
    )  # fmt: skip


def _locked(own: Path) -> bool:
    return (own / "downloads.lock.json").exists()


WORKS = (training, gpt, table, dealing, downloading)
