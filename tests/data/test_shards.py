"""Examples dealt out into shards: each once, read back as they were, damage noticed."""

import dataclasses
import json
import os
from collections import Counter
from unittest.mock import patch

import pytest

from mtsa.data.examples import Example
from mtsa.data.frames import Frame, RoleSentence, Span
from mtsa.data.sharding import INDEX, is_shards, open_shards, write_shards
from mtsa.data.tagged import TaggedSentence
from mtsa.errors import InputError
from mtsa.files import locked
from mtsa.tasks import registry
from mtsa.tasks.text import Similarity

ROLES = RoleSentence(("They", "gave", "up"), (Frame(1, "give", (Span(0, 0, "A0"), Span(1, 1, "V")), "VBD", "give.05"),), 1)
KINDS = {
    "classification": [Example(f"text \u2028 {n} é", f"class {n % 3}", n) for n in range(200)],
    "regression": [Example(f"text {n}", n / 7, n) for n in range(50)],
    "pair": [Example(f"one {n}", "yes", n, pair=f"two {n}") for n in range(50)],
    "similarity": [Example(f"one {n}", float(n), n, pair=f"two {n}") for n in range(50)],
    "tagging": [TaggedSentence((f"word{n}", "b"), ("O", "B-x"), n) for n in range(50)],
    "srl": [dataclasses.replace(ROLES, words=(f"they{n}", "gave", "up"), line=n) for n in range(50)],
    "translation": [Example(f"line {n}", f"Zeile {n}", n) for n in range(50)],
}


def unplaced(examples):
    return Counter(dataclasses.replace(example, line=0) for example in examples)


@pytest.mark.parametrize("task", KINDS)
def test_each_example_is_in_one_shard(tmp_path, task):
    dealt = write_shards(KINDS[task], tmp_path / "s", task=task, shards=4, seed=0)
    found = open_shards(tmp_path / "s", task)
    assert dealt == found
    assert unplaced(found) == unplaced(KINDS[task])
    assert len(found) == len(KINDS[task]) == sum(found.counts)
    assert len(found.counts) == 4
    assert max(found.counts) < len(found) / 2  # by chance, not one after the other


def test_chance_deals(tmp_path):
    """A shard is a sample of all: the first half of the file is in it as often as the second; another seed, other shards."""
    examples = [Example(str(n), "a", n) for n in range(1000)]
    one, again, other = (
        write_shards(examples, tmp_path / str(n), task="classification", shards=4, seed=seed)
        for n, seed in enumerate((0, 0, 1))
    )
    first = [int(example.text) for example in one.read(0)]
    assert 80 < sum(number < 500 for number in first) < 170
    assert [example.text for example in one] == [example.text for example in again]
    assert [example.text for example in one] != [example.text for example in other]


def test_a_shard_that_chance_leaves_empty_is_left_out(tmp_path):
    shards = write_shards([Example("a", "b", 1)], tmp_path / "s", task="classification", shards=9, seed=0)
    assert shards.counts == (1,)
    assert [path.name for path in sorted((tmp_path / "s").iterdir())] == ["shard-00000.jsonl", INDEX]


def test_what_waits_in_memory_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("mtsa.data.sharding._BUFFER_SIZE", 100)
    shards = write_shards(KINDS["classification"], tmp_path / "s", task="classification", shards=4, seed=0)
    assert unplaced(shards) == unplaced(KINDS["classification"])


def test_nothing_is_left_of_a_deal_that_fails(tmp_path):
    def broken():
        yield Example("a", "b", 1)
        raise InputError("line 2 is bad")

    with pytest.raises(InputError, match="line 2 is bad"):
        write_shards(broken(), tmp_path / "s", task="classification", shards=2, seed=0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="no examples"):
        write_shards([], tmp_path / "s", task="classification", shards=2, seed=0)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_refused(tmp_path):
    (tmp_path / "s").mkdir()
    with pytest.raises(InputError, match="already exists"):
        write_shards(KINDS["pair"], tmp_path / "s", task="pair", shards=2, seed=0)


def test_damage_is_told(tmp_path):
    folder = tmp_path / "s"
    write_shards(KINDS["classification"], folder, task="classification", shards=2, seed=0)
    assert is_shards(str(folder))
    assert not is_shards(str(tmp_path))
    shards = open_shards(folder, "classification")
    before = shards.sha256()
    with pytest.raises(InputError, match="for task classification, not pair"):
        open_shards(folder, "pair")
    file = folder / "shard-00001.jsonl"
    whole = file.read_text()
    file.write_text(whole[: whole.rindex("{")])
    with pytest.raises(InputError, match=f"but {INDEX} lists"):
        shards.read(1)
    assert shards.sha256() != before
    file.write_text(whole[:-20])
    with pytest.raises(InputError, match=r"shard-00001.jsonl, line .* not valid JSON"):
        shards.read(1)
    file.unlink()
    with pytest.raises(InputError, match="no such file"):
        shards.read(1)
    with pytest.raises(InputError, match="no such file; create the shards again"):
        shards.sha256()


@pytest.mark.parametrize("counts", [[], [0], [True], ["1"], [-1], None, {"a": 1}, [1] * 100_001])
def test_an_index_that_is_none(tmp_path, counts):
    (tmp_path / INDEX).write_text(json.dumps({"task": "pair", "counts": counts}))
    with pytest.raises(InputError, match='"counts" must be'):
        open_shards(tmp_path, "pair")


@pytest.mark.parametrize("raw", [b"", b"[1]", b"\xff", b"{", b"[" * 100_000])
def test_an_index_that_is_no_json(tmp_path, raw):
    (tmp_path / INDEX).write_bytes(raw)
    with pytest.raises(InputError, match=r"not a valid index|must be a list"):
        open_shards(tmp_path, "pair")


def test_two_that_deal_into_one_folder_are_refused(tmp_path):
    partial = tmp_path / ".shards.partial"
    partial.mkdir()
    (partial / "shard-00000.jsonl").write_text("of another")
    with locked(partial) as mine:
        assert mine
        with pytest.raises(InputError, match="in use by another process"):
            write_shards(KINDS["classification"], tmp_path / "shards", task="classification", shards=2, seed=0)
    assert (partial / "shard-00000.jsonl").read_text() == "of another"
    write_shards(KINDS["classification"], tmp_path / "shards", task="classification", shards=2, seed=0)
    assert not partial.exists()
    assert unplaced(open_shards(tmp_path / "shards", "classification")) == unplaced(KINDS["classification"])


def test_a_lock_on_what_was_renamed_is_none(tmp_path):
    """As when one process ends, and gives the folder its name, between another's opening and locking."""
    (tmp_path / "a").mkdir()
    opened = os.open

    def renamed(path, *arguments):
        descriptor = opened(path, *arguments)
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").mkdir()
        return descriptor

    with pytest.MonkeyPatch.context() as attributes:
        attributes.setattr(os, "open", renamed)
        with locked(tmp_path / "a") as mine:
            assert not mine
    with locked(tmp_path / "a") as mine:
        assert mine
    with locked(tmp_path / "nothing") as mine:
        assert not mine


def test_shards_of_a_task_from_outside(tmp_path):
    with patch.dict(registry._tasks):
        registry.register(type("Own", (Similarity,), {"name": "own"}))
        write_shards(KINDS["similarity"], tmp_path / "s", task="own", shards=2, seed=0)
        assert unplaced(open_shards(tmp_path / "s", "own")) == unplaced(KINDS["similarity"])
