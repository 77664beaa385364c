"""The runner: each run is run once, recorded once, and goes on after a stop."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from reproduce.records import check_record, read_record, read_records
from reproduce.runner import estimate, execute_all
from reproduce.runs import Run

from mtsa.errors import InputError


@dataclass(frozen=True)
class Counted(Run):
    """A run that notes each time it is started."""

    source: Path
    notes: Path
    wait: float = 0.0
    strength: float = 1.0

    @property
    def settings(self):
        return {"strength": self.strength}

    def fill_defaults(self, settings):
        return settings

    @property
    def files(self):
        return {self.source.name: self.source}

    def execute(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with self.notes.open("a") as notes:
            notes.write(f"{self.path}\n")
        time.sleep(self.wait)
        found = {
            "seed": 0,
            "versions": {"torch": "2"},
            "machine": {"processor": "P", "threads": 1},
            "time": "",
            "examples": {},
        }
        test = {"test": {"accuracy": 0.25, "count": 4}}
        return found | {"seconds": 30.0, "dev_curve": [{"accuracy": 0.5}], "test": test}


@pytest.fixture
def runs(tmp_path):
    source = tmp_path / "data.txt"
    source.write_text("data")
    return [Counted("t", "set", "row", f"seed-{n}", source, tmp_path / "notes") for n in range(3)]


def execute(runs, folder, minutes=None):
    said = []
    left = execute_all(runs, folder, minutes=minutes, say=said.append)
    return left, said


def begun(runs):
    return sorted(runs[0].notes.read_text().split()) if runs[0].notes.exists() else []


def test_each_run_is_recorded_once_and_never_run_again(runs, tmp_path):
    folder = tmp_path / "records"
    left, said = execute(runs, folder)
    assert not left.runs
    assert said[0] == "3 runs: 0 finished, 3 remaining, about 6 minutes (120 s assumed for 3 runs without records)"
    _, said = execute(runs, folder)
    assert said == ["3 runs: 3 finished, 0 remaining, about 0 minutes"]
    assert begun(runs) == [str(run.path) for run in runs]
    records = read_records(folder)
    assert [record["run"] for record in records] == ["seed-0", "seed-1", "seed-2"]
    assert records[0]["sources"]["data.txt"]["size"] == 4
    assert not list((folder / ".work").glob("*/*/seed-?"))


def test_no_run_is_begun_that_would_not_end_in_time(runs, tmp_path):
    folder = tmp_path / "records"
    execute(runs[:1], folder)
    left, _ = execute(runs, folder, minutes=0.4)
    assert [run.name for run in left.runs] == ["seed-1", "seed-2"]
    assert left.seconds == 60.0  # two like the one of 30 s that is recorded
    assert len(begun(runs)) == 1


def test_the_estimate_is_that_of_the_row_or_else_the_longest_of_the_data_set(runs, tmp_path):
    folder = tmp_path / "records"
    other = Counted("t", "set", "other", "seed-0", runs[0].source, runs[0].notes)
    elsewhere = Counted("t", "second", "row", "seed-0", runs[0].source, runs[0].notes)
    third = Counted("t", "set", "third", "seed-0", runs[0].source, runs[0].notes)
    execute([*runs[:1], third], folder)
    longer = json.loads((folder / third.path).read_text()) | {"seconds": 40.0}
    (folder / third.path).write_text(json.dumps(longer))
    assert (estimate(runs[1], folder), estimate(other, folder), estimate(elsewhere, folder)) == (30.0, 40.0, 120.0)


def test_a_record_of_other_settings_or_other_data_is_refused(runs, tmp_path):
    folder = tmp_path / "records"
    execute(runs, folder)
    stronger = Counted("t", "set", "row", "seed-1", runs[0].source, runs[0].notes, strength=2.0)
    with pytest.raises(InputError, match=r"seed-1.json was made with other settings \(strength: 1.0, now 2.0\)"):
        execute([stronger], folder)
    runs[0].source.write_text("other")
    with pytest.raises(InputError, match=r"checksum of data.txt differs from that in .*seed-0.json"):
        execute(runs, folder)


def test_what_was_begun_with_other_settings_is_thrown_away(runs, tmp_path, monkeypatch):
    """A run goes on with its own unfinished work alone."""
    seen = []

    def stopped(self, folder):
        seen.append((folder, folder.exists()))
        folder.mkdir(parents=True, exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(Counted, "execute", stopped)
    stronger = Counted("t", "set", "row", "seed-0", runs[0].source, runs[0].notes, strength=2.0)
    for one in (runs[0], runs[0], stronger, runs[0]):
        with pytest.raises(KeyboardInterrupt):
            execute([one], tmp_path / "records")
    assert [there for _, there in seen] == [False, True, False, False]
    assert seen[0][0] == seen[1][0] == seen[3][0] != seen[2][0]


def test_a_run_that_fails_leaves_no_record(runs, tmp_path, monkeypatch):
    def broken(self, folder):
        raise InputError("bad data")

    monkeypatch.setattr(Counted, "execute", broken)
    with pytest.raises(InputError, match=r"3 runs failed; first error \(set/row/seed-0\): bad data"):
        execute(runs, tmp_path / "records")
    assert read_records(tmp_path / "records") == []


def test_a_run_that_fails_does_not_keep_the_others_waiting(runs, tmp_path, monkeypatch):
    def broken(self, folder):
        if self.name == "seed-1":
            raise InputError("it diverged")
        return whole(self, folder)

    whole = Counted.execute
    monkeypatch.setattr(Counted, "execute", broken)
    with pytest.raises(InputError, match=r"1 run failed; first error \(set/row/seed-1\): it diverged"):
        execute(runs, tmp_path / "records")
    assert [record["run"] for record in read_records(tmp_path / "records")] == ["seed-0", "seed-2"]


def _runner(runs, folder):
    execute_all(runs, folder, minutes=None)


def test_two_runners_share_the_runs(runs, tmp_path):
    slow = [Counted("t", "set", "row", f"seed-{n}", runs[0].source, runs[0].notes, wait=0.3) for n in range(4)]
    spawn = multiprocessing.get_context("fork")
    workers = [spawn.Process(target=_runner, args=(slow, tmp_path / "records")) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert begun(slow) == [str(run.path) for run in slow]  # none twice
    assert len(read_records(tmp_path / "records")) == 4


@pytest.mark.parametrize("moment", ["during a run", "before its record", "after its record"])
def test_a_killed_runner_loses_the_run_under_way_and_counts_none_twice(runs, tmp_path, moment):
    """Killed in the second of three runs, before the record is in place, or after it is and before its folder is gone."""
    folder, spawn = tmp_path / "records", multiprocessing.get_context("fork")

    def die_at(runs, folder):
        from reproduce import runner

        calls = []
        original = {
            "during a run": Counted.execute,
            "before its record": runner.write_json,
            "after its record": runner._remove,
        }

        def counted(*args, **options):
            calls.append(1)
            if len(calls) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return original[moment](*args, **options)

        if moment == "during a run":
            Counted.execute = counted
        elif moment == "before its record":
            runner.write_json = counted
        else:
            runner._remove = counted
        _runner(runs, folder)

    worker = spawn.Process(target=die_at, args=(runs, folder))
    worker.start()
    worker.join(30)
    assert worker.exitcode == -signal.SIGKILL
    kept = {record["run"] for record in read_records(folder)}
    assert kept == ({"seed-0", "seed-1"} if moment == "after its record" else {"seed-0"})
    left, _ = execute(runs, folder)
    assert not left.runs
    assert [record["run"] for record in read_records(folder)] == ["seed-0", "seed-1", "seed-2"]
    assert begun(runs).count("set/row/seed-0.json") == 1
    assert begun(runs).count("set/row/seed-1.json") == (2 if moment == "before its record" else 1)


@pytest.fixture
def record(runs, tmp_path):
    execute(runs[:1], tmp_path / "records")
    path = tmp_path / "records" / runs[0].path
    return json.loads(path.read_text()), path


def test_a_record_without_a_test_part_is_refused(record):
    value, path = record
    assert check_record(value, path) == value
    with pytest.raises(InputError, match="no test part"):
        check_record(value | {"test": {}}, path)


@pytest.mark.parametrize("key", ["machine", "versions"])
def test_a_record_without_its_circumstances_is_refused(record, key):
    value, path = record
    with pytest.raises(InputError, match="does not name its machine"):
        check_record(value | {key: {}}, path)


@pytest.mark.parametrize("entry", [{"accuracy": 0.5, "test_accuracy": 0.6}, 1])
def test_a_dev_curve_with_anything_but_dev_figures_is_refused(record, entry):
    value, path = record
    with pytest.raises(InputError, match="dev metrics only"):
        check_record(value | {"dev_curve": [entry]}, path)


@pytest.mark.parametrize("seconds", [float("nan"), -5.0, True])
def test_impossible_seconds_are_refused(record, seconds):
    value, path = record
    with pytest.raises(InputError, match="a number of at least 0"):
        check_record(value | {"seconds": seconds}, path)


@pytest.mark.parametrize("unseen", [3, {}, {"accuracy": 0.5}, {"accuracy": 2.0, "count": 3}])
def test_impossible_figures_without_repeated_texts_are_refused(record, unseen):
    value, path = record
    test = value["test"]["test"] | {"unseen": unseen}
    with pytest.raises(InputError, match="delete it to repeat the run"):
        check_record(value | {"test": {"test": test}}, path)


@pytest.mark.parametrize("key", ["settings", "seed", "versions", "machine", "time", "seconds", "dev_curve", "test"])
def test_a_record_without_what_it_must_hold_is_refused(record, key):
    value, path = record
    with pytest.raises(InputError, match=f'the record has no "{key}"; delete it to repeat the run'):
        check_record({name: item for name, item in value.items() if name != key}, path)


def test_a_record_in_the_place_of_another_is_refused(record):
    value, path = record
    with pytest.raises(InputError, match="is the record of set/row/seed-0"):
        check_record(value, path.with_name("seed-1.json"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"accuracy": 1}'])
def test_what_is_no_record_is_refused(record, text):
    _, path = record
    path.write_text(text)
    with pytest.raises(InputError, match="delete it to repeat the run"):
        read_record(path)


@pytest.mark.parametrize("accuracy", [float("nan"), 1.5, None, "0.5"])
def test_an_impossible_accuracy_is_refused(record, accuracy):
    value, path = record
    with pytest.raises(InputError, match="must be between 0 and 1"):
        check_record(value | {"test": {"test": {"accuracy": accuracy}}}, path)


def test_a_lock_goes_with_its_process(runs, tmp_path):
    """What a killed process held can be run by the next one."""
    folder = tmp_path / "records"
    lock = folder / ".work" / runs[0].path.with_suffix(".lock")
    lock.parent.mkdir(parents=True)
    code = f"import fcntl,time;f=open({str(lock)!r},'w');fcntl.flock(f,fcntl.LOCK_EX);print('held',flush=True);time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    left, said = execute(runs[:1], folder)
    assert left.runs == runs[:1]
    assert said[-1] == "in progress in other processes: set/row/seed-0"
    holder.kill()
    holder.communicate()
    left, _ = execute(runs[:1], folder)
    assert not left.runs
