"""Every reader of files from outside, and valid files to damage: what it cannot read it must refuse in one sentence."""

import json
import random
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.data import readers
from mtsa.data.check_tags import check_roles, check_tagged
from mtsa.data.check_texts import check_texts
from mtsa.data.embeddings import read_vectors
from mtsa.data.examples import Layout
from mtsa.data.parallel import read_parallel
from mtsa.data.props import read_props
from mtsa.data.sharding import open_shards, write_shards
from mtsa.data.srl_formats import read_roles
from mtsa.data.tagged import read_tagged
from mtsa.errors import InputError
from mtsa.training.recipe_files import load_recipe, make_recipe, to_toml

PIECES = [
    b"", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\t", b",", b'"', b"'", b"\\", b"{", b"}",
    b"[", b"]", b"(", b")", b"*", b"-", b"NaN", b"nan", b"inf", b"1e999", b"-1", b"99999999999999999999999", b"true", b"null",
    b"../../x", b"%s%n", b"\\ud800", b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80", b"[[[[[[[[", b"label", b"text", b"words", b"O",
    b"B-", b"(A0*", b"*)",
]  # fmt: skip


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """A file with one to four wounds: bytes changed, cut out, doubled, put in, or the end torn off."""
    found = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(found) + 1)
        end = min(len(found), start + rng.choice((0, 1, 1, 2, 5, 40)))
        kind = rng.randrange(6)
        if kind == 0:
            found[start:end] = bytes(rng.randrange(256) for _ in range(end - start))
        elif kind == 1:
            del found[start:end]
        elif kind == 2:
            found[start:start] = found[start:end] * rng.choice((1, 2, 50))
        elif kind == 3:
            found[start:end] = rng.choice(PIECES) * rng.choice((1, 1, 1, 3, 200))
        elif kind == 4:
            del found[start:]
        else:
            other = rng.randrange(len(found) + 1)
            found[start:start] = found[other : other + 30]
    return bytes(found)


@dataclass(frozen=True)
class Reader:
    """Something that reads a file, and what a good file of it is."""

    name: str
    file: str
    good: bytes
    read: Any  # called with the path

    def refuses(self, path: Path) -> bool:
        """Read a file; whether it was refused. Anything but a refusal in one sentence comes out as what it is."""
        try:
            found = self.read(path)
        except InputError as error:
            if "\n" in str(error).strip():
                raise ValueError(f"a refusal of several lines: {error}") from error
            return True
        return bool(getattr(found, "errors", False))


_CSV = b'text,label\n"what is it, then",a\nwho was it,b\nwhere,a\n'
_TAGS = b"-DOCSTART- O\n\nAnna B-PER\nsleeps O\n\nIn O\nBern S-LOC\n"
_PROPS = b"-\t(A0*)\ngive\t(V*)\n-\t(A1*\n-\t*)\n\n-\n-\n"
_WORDS = b"They\ngave\nthe\nbook\n\nOh\nno\n"
_PROPBANK = (
    b"d\t0\t0\tThey\tPRP\t-\t-\t-\t(ARG0*)\nd\t0\t1\tgave\tVBD\t-\tgive\tgive.01\t(V*)\nd\t0\t2\tup\tRP\t-\t-\t-\t*\n\n"
)
_ROLES = b'{"words": ["They", "gave"], "frames": [{"predicate": 1, "lemma": "give", "roles": [["A0", 0, 0], ["V", 1, 1]]}]}\n'
_NLI = (
    json.dumps({"gold_label": "neutral", "sentence1": "A man eats.", "sentence2": "He is hungry.", "pairID": "1"})
    + "\n"
    + json.dumps({"gold_label": "-", "sentence1": "A man eats.", "sentence2": "He sleeps.", "pairID": "2"})
    + "\n"
).encode()
_NLI_TAB = b"gold_label\tsentence1\tsentence2\tpairID\nneutral\tA man eats.\tHe is hungry.\t1\n-\tA\tB\t2\n"
_VECTORS = b"the 0.1 0.2 -0.3\nof 1e-3 0 7\n<unk> 0 0 0\n"


def _table(format, **more):
    paired = bool(more.get("pair_column")) or format in readers.PAIR_FORMATS
    return lambda path: readers.read(path, Layout(format=format, **more), paired=paired)


def _roles(path):
    words = path.with_name("words")
    words.write_bytes(_WORDS)
    return read_roles(path, words=words, format="props")


def _parallel(path):
    other = path.with_name("other")
    other.write_bytes(b"eins\nzwei\n\n")
    return read_parallel(path, other)


def _shards(path):
    return list(open_shards(path.parent, "classification"))


def readers_of(folder: Path) -> list[Reader]:
    """All of them; some need files beside."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "good.zip", "w") as archive:
        archive.writestr("glove.txt", _VECTORS)
    examples = readers.read(_put(folder / "good.csv", _CSV), Layout())
    write_shards(examples, folder / "shards", task="classification", shards=1, seed=0)
    recipe = to_toml(make_recipe({"data": {"train": "a.csv"}}, [])).encode()
    return [
        Reader("CSV", "a.csv", _CSV, _table("csv")),
        Reader(
            "CSV with numbers", "n.csv", b"text,label\na,1.5\nb,-2\n", lambda p: readers.read(p, Layout("csv"), number=True)
        ),
        Reader("CSV with pairs", "p.csv", b"a,b,label\nx,y,0\nz,w,1\n", _table("csv", text_column="a", pair_column="b")),
        Reader("TSV", "a.tsv", b"text\tlabel\nwhat is it\ta\nwho was it\tb\n", _table("tsv")),
        Reader("JSON lines", "a.jsonl", b'{"text": "a b", "label": "x"}\n{"text": "c", "label": 2}\n', _table("jsonl")),
        Reader("label and text", "a.all", b"1 a fine film\n0 a poor one\n", _table("label_text")),
        Reader("TREC", "a.trec", b"DESC:manner How did it end ?\nENTY:animal What is a gnu ?\n", _table("trec")),
        Reader("SST trees", "a.sst", b"(3 (2 a) (4 (2 fine) (2 film)))\n(1 (2 no) (1 (2 plot) (2 .)))\n", _table("sst")),
        Reader("SNLI, JSON", "a.nli.jsonl", _NLI, _table("nli")),
        Reader("SNLI, tab", "a.nli.tsv", _NLI_TAB, _table("nli")),
        Reader("label and pair", "a.pairs", b"neutral\ta man\the eats\nentailment\tx\ty\n", _table("label_pair")),
        Reader("tags in columns", "a.conll", _TAGS, lambda p: read_tagged(p, Layout(format="columns"))),
        Reader(
            "tags, JSON",
            "t.jsonl",
            b'{"words": ["a", "b"], "tags": ["O", "B-x"]}\n',
            lambda p: read_tagged(p, Layout("jsonl")),
        ),
        Reader("props", "a.props", _PROPS, _roles),
        Reader("props without words", "b.props", _PROPS, read_props),
        Reader("words of props", "w.words", _WORDS, lambda p: read_roles(_put(p.with_name("a.props"), _PROPS), words=p)),
        Reader("PropBank columns", "r.conll", _PROPBANK, lambda p: read_roles(p, format="propbank")),
        Reader("roles, JSON", "r.jsonl", _ROLES, lambda p: read_roles(p, format="jsonl")),
        Reader("parallel text", "a.en", b"one\ntwo\n\n", _parallel),
        Reader("word vectors", "v.txt", _VECTORS, lambda p: read_vectors(p, {"the", "of"}, others=2)),
        Reader(
            "word vectors, zip",
            "v.zip",
            (folder / "good.zip").read_bytes(),
            lambda p: read_vectors(p, {"the"}, member="glove.txt", others=2),
        ),
        Reader("index of shards", "shards/shards.json", (folder / "shards" / "shards.json").read_bytes(), _shards),
        Reader("recipe", "r.toml", recipe, lambda p: load_recipe(str(p))),
        Reader("check of a file", "c.csv", _CSV, lambda p: check_texts(p, Layout())),
        Reader("check of tags", "c.conll", _TAGS, lambda p: check_tagged(p, Layout(format="columns"))),
        Reader("check of roles", "c.jsonl", _ROLES, lambda p: check_roles(p, Layout(format="jsonl"))),
    ]


def _put(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


def fuzz(reader: Reader, folder: Path, count: int, seed: int) -> dict[str, int]:
    """Give a reader so many damaged files; how many it refused, and how many it read all the same."""
    rng = random.Random(f"{reader.name} {seed}")
    path = folder / reader.file
    refused = 0
    for _ in range(count):
        raw = damaged(reader.good, rng)
        refused += reader.refuses(_put(path, raw))
    _put(path, reader.good)
    return {"tried": count, "refused": refused, "read": count - refused}
