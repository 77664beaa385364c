"""The recipes with the paper's settings, each trained for a few steps; time and memory are extrapolated to the whole training.

The steps run on samples in the official layouts, made from the data at hand, with random word vectors and, for transfer, a
random GPT of the size of the paper's. Each recipe runs in a process of its own:
`python -m reproduce.benchmarks.paper_recipes FOLDER RECIPE STEPS` prints its measurements as JSON.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from mtsa.bench.memory import peak_bytes, resident
from mtsa.data import readers
from mtsa.data.examples import Example, Layout
from mtsa.data.srl_formats import read_roles, role_lines
from mtsa.errors import InputError
from mtsa.files import write_json
from mtsa.machine import environment_info
from mtsa.tasks.registry import get_task
from mtsa.training.launch import build_recipe
from mtsa.training.loop import TrainingLoop, steps_of, steps_per_epoch
from mtsa.training.prepare import Prepared, prepare
from mtsa.training.recipe_files import load_recipe, named_recipes
from mtsa.training.split import read_split

_COUNTED = 5  # steps whose operations are counted
_DEV = 16  # dev examples: the steps matter here, not their score
_NLI = {
    "snli_1.0": {
        "train": ("snli.train_subset_18k.tsv", "label_pair"),
        "dev": ("snli.dev.tsv", "label_pair"),
        "test": ("snli.test.tsv", "label_pair"),
    },
    "multinli_1.0": {
        "train": ("protocols.base.train.tsv", "nli"),
        "dev_matched": ("multinli.dev_matched_1k.tsv", "label_pair"),
        "dev_mismatched": ("multinli.dev_mismatched_1k.tsv", "label_pair"),
    },
}
_ROLES = {"train": "train", "devel": "dev", "test.wsj": "test", "brown": "test"}
_COPIED = (
    "classification/cr.all", "classification/mpqa.all", "classification/subj.all", "classification/trec.train",
    "classification/trec.test", "classification/sst/train.txt", "classification/sst/dev.txt", "classification/sst/test.txt",
)  # fmt: skip


def paper_recipes() -> list[str]:
    """The names of the recipes with the paper's settings."""
    return [name for name in named_recipes() if name.endswith(".paper")]


def make_samples(source: Path, folder: Path) -> None:
    """Write samples in the official layouts into the folder `data`, and a random GPT into `gpt`.

    Args:
        source: folder with the subfolders classification, nli, srl, translation, vectors and pretrained.
        folder: where the samples are written.

    Raises:
        InputError: a file that is missing or cannot be read.
    """
    data = folder / "data"
    (data / "wmt14").mkdir(parents=True)
    for name in _COPIED:
        shutil.copyfile(_require(source / name), data / Path(name).name)
    for name, parts in _NLI.items():
        for part, (file, format) in parts.items():
            examples = readers.read(_require(source / "nli" / file), Layout(format=format), paired=True).items
            (data / f"{name}_{part}.jsonl").write_text("".join(map(_json_line, examples)), encoding="utf-8")
    for name, part in _ROLES.items():
        sentences = read_roles(_require(source / "srl" / f"propbank_ewt.{part}.conll.gz"), format="propbank")[:2000]
        (data / f"conll05.{name}.props").write_text("\n".join(role_lines(sentences, "props")) + "\n")
        words = "\n\n".join("\n".join(sentence.words) for sentence in sentences)
        (data / f"conll05.{name}.words").write_text(words + "\n")
    for language in ("en", "de"):
        texts = {
            year: _require(source / "translation" / "wmt" / f"newstest{year}.{language}").read_text() for year in (2013, 2014)
        }
        pairs = _require(source / "translation" / "multi30k" / f"train.{language}").read_text()
        (data / "wmt14" / f"train.{language}").write_text(pairs + texts[2013])
        for year, text in texts.items():
            (data / "wmt14" / f"newstest{year}.{language}").write_text(text)
    _write_vectors(data / "glove.6B.zip", data)
    _write_gpt(source / "pretrained" / "gpt1_bpe", folder / "gpt")


def _require(path: Path) -> Path:
    if not path.exists():
        raise InputError(f"{path} does not exist; specify the folder with all data sets")
    return path


def _json_line(example: Example) -> str:
    row = {"gold_label": example.label, "sentence1": example.text, "sentence2": example.pair, "pairID": example.name}
    return json.dumps(row) + "\n"


def _write_vectors(path: Path, data: Path) -> None:
    """Random vectors for the lower-case words of the samples, in the layout of GloVe."""
    words = sorted({word for file in data.glob("*.*") for word in file.read_text("latin-1").lower().split() if word.isascii()})
    generator = random.Random(0)
    with zipfile.ZipFile(path, "w") as archive:
        for width in (100, 300):
            row = " ".join(f"{generator.gauss(0, 0.4):.4f}" for _ in range(width))
            archive.writestr(f"glove.6B.{width}d.txt", "".join(f"{word} {row}\n" for word in words))


def _write_gpt(source: Path, folder: Path) -> None:
    """A GPT with the vocabulary and size of the paper's, and random weights."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel, PreTrainedTokenizerFast

    vocabulary = json.loads(_require(source / "encoder_bpe_40000.json").read_text())
    lines = _require(source / "vocab_40000.bpe").read_text().split("\n")[1:-1]
    merges = [(first, second) for first, second in (line.split() for line in lines)]
    unknown = "<unk>"
    vocabulary.setdefault(unknown, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown, end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=unknown, pad_token=unknown).save_pretrained(folder)
    OpenAIGPTLMHeadModel(OpenAIGPTConfig(vocab_size=max(40478, len(vocabulary)))).save_pretrained(folder)


def probe(folder: Path, name: str, steps: int) -> dict[str, Any]:
    """Train by a recipe for some steps, in this process; size, time, memory and operations."""
    loaded = load_recipe(name)
    settings = [f'pretrained.model="{folder / "gpt"}"'] if loaded.pretrained.model else []
    located = {
        key: _absolute(folder, value)
        for key, value in dataclasses.asdict(loaded.data).items()
        if value and key in ("train", "dev", "test", "train_target", "dev_target", "test_target")
    }
    vectors = str(folder / loaded.vectors.file) if loaded.vectors.file else None
    recipe = build_recipe(name, data={**located, "tests": []}, vectors=vectors, settings=settings)
    split = read_split(recipe)
    prepared = prepare(recipe, dataclasses.replace(split, dev=split.dev[:_DEV], test=[], tests={}))
    train = prepared.parts["train"]
    total, _ = steps_of(recipe.training, steps_per_epoch(train, recipe.training))
    times: list[float] = []
    before = resident()
    with tempfile.TemporaryDirectory() as work:
        loop = _loop(prepared, Path(work) / "timed", steps)

        def train_all() -> None:
            if not times:  # called twice
                times.append(time.perf_counter())
                loop.run(lambda step, note: times.append(time.perf_counter()))

        peak = peak_bytes(before, train_all)
        gaps = [after - earlier for earlier, after in itertools.pairwise(times[1:])]  # without the first step
        counter = FlopCounterMode(display=False)
        with counter:
            _loop(prepared, Path(work) / "counted", _COUNTED).run(lambda step, note: None)
        evaluation = FlopCounterMode(display=False)
        with evaluation, torch.no_grad():
            loop.evaluate()
    weights = [value for value in loop.model.parameters() if value.requires_grad]
    return {
        "recipe": name,
        "parameters": sum(value.numel() for value in weights),
        "batch_size": 0 if recipe.training.batch_tokens else recipe.training.batch_size,
        "batch_tokens": recipe.training.batch_tokens,
        "steps": total,
        "measured_steps": len(gaps),
        "seconds_per_step": statistics.median(gaps),
        "peak_bytes": peak,
        "flop_per_step": (counter.get_total_flops() - evaluation.get_total_flops()) / _COUNTED,
    }


def _absolute(folder: Path, value: str | tuple[str, ...]) -> str:
    assert isinstance(value, str)
    return str(folder / value)


def _loop(prepared: Prepared, folder: Path, steps: int) -> TrainingLoop:
    folder.mkdir()
    recipe = prepared.recipe
    parts = prepared.parts
    known = prepared.inputs.known
    return TrainingLoop(
        prepared.model(),
        recipe,
        get_task(recipe.task),
        parts["train"],
        parts["dev"],
        known=known,
        folder=folder,
        stop_step=steps,
    )


def run(source: Path, names: Sequence[str], steps: int, path: Path, tick: Callable[[str], None]) -> dict[str, Any]:
    """Measure recipes, each in a separate process, and return the record, which is written after each recipe.

    Recipes that the record at `path` already has, on the same machine and with as many steps, are not measured again.

    Raises:
        InputError: missing data, or a recipe that fails.
    """
    rows = {row["recipe"]: row for row in _known_rows(path, steps)}
    record = {**environment_info(), "kind": "paper-recipes", "rows": list(rows.values())}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if not rows.keys() >= set(names):
            make_samples(source, folder)
        for name in names:
            if name not in rows:
                command = [sys.executable, "-m", "reproduce.benchmarks.paper_recipes", str(folder), name, str(steps)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise InputError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
                rows[name] = json.loads(done.stdout)
                record["rows"] = [rows[recipe] for recipe in sorted(rows)]
                write_json(path, record)
            tick(name)
    return record


def _known_rows(path: Path, steps: int) -> list[dict[str, Any]]:
    """The rows of an earlier record of this machine that were measured with as many steps."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["machine"] != environment_info()["machine"]:
            return []
        return [row for row in record["rows"] if row["measured_steps"] == steps - 1]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def table(record: dict[str, Any]) -> list[list[str]]:
    """Return header and rows: time, memory and operations of each recipe, extrapolated from the measured steps."""
    header = ["recipe", "parameters", "batch", "steps", "seconds per step", "days (this machine)", "memory", "PFLOP in total"]
    lines = [header]
    for row in record["rows"]:
        batch = f"{row['batch_tokens']:,} tokens" if row["batch_tokens"] else f"{row['batch_size']} examples"
        lines.append(
            [
                row["recipe"],
                f"{row['parameters'] / 1e6:.1f} M",
                batch,
                f"{row['steps']:,}",
                f"{row['seconds_per_step']:.3f}",
                f"{row['seconds_per_step'] * row['steps'] / 86400:.1f}",
                f"{row['peak_bytes'] / 2**30:.2f} GiB",
                f"{row['flop_per_step'] * row['steps'] / 1e15:,.1f}",
            ]
        )
    return lines


if __name__ == "__main__":
    print(json.dumps(probe(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
