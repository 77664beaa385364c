"""`python -m reproduce bench nli`: the cost of the pair models of the paper's Table 1, relative to multi-head attention.

`python -m reproduce.benchmarks.nli NAME BATCH LENGTH DROPOUT` prints the peak memory of a training step, in its own process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mtsa.bench.memory import peak_bytes, resident
from mtsa.data.batching import make_batch, shuffled_batches
from mtsa.data.tokenization import encode_texts, word_tokenizer
from mtsa.encoders.biblosa import BiblosaEncoder
from mtsa.machine import environment_info
from mtsa.models.hub_models import MtsaForSequencePairClassification
from reproduce.names import display
from reproduce.parameter_counts import EIGHT_HEADS, NLI, build, count
from reproduce.paths import Paths
from reproduce.tables.nli import DATASETS

BASELINE = "multihead"
_WORDS = 20_000
_REAL = 128  # pairs of a batch of the paper's training and evaluation

PAPER_SECONDS: dict[str, tuple[float, float]] = {  # its Tables 1 and 3, on one GTX 1080Ti: an epoch, the dev part
    "bilstm": (854, 9.1), "bigru": (850, 9.4), "multi_cnn": (137, 1.4), "hierarchical_cnn": (195, 1.8),
    "multihead": (179, 1.5), "disa": (390, 5.2), "biblosa": (303, 3.2), "mtsa": (180, 1.6), "mtsa_no_masks": (0, 1.6),
    "mtsa_no_token2token": (0, 1.5), "mtsa_no_source2token": (0, 1.4), "mtsa_none": (0, 1.1),
}  # fmt: skip
PAPER_MEMORY: dict[str, int] = {  # its Table 1, in MB
    "bilstm": 942, "bigru": 810, "multi_cnn": 208, "hierarchical_cnn": 309, "multihead": 466, "disa": 6682, "biblosa": 1600,
    "mtsa": 558,
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Settings of the benchmark."""

    lengths: tuple[int, ...] = (10, 15, 25, 40, 64)  # words of both sentences
    batch: int = 64
    repeats: int = 5
    dropout: float = 0.35  # of the recipe snli.paper
    names: tuple[str, ...] = (*NLI, *EIGHT_HEADS)
    memory_length: int = 64
    train_lengths: tuple[
        tuple[int, int], ...
    ] = ()  # words of the two sentences of each training pair, for the time of an epoch
    dev_lengths: tuple[tuple[int, int], ...] = ()  # and of each dev pair
    sample: int = 8  # batches of them that are measured
    seed: int = 0


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Measure everything and return the record; each round times every model once; the fastest time is reported."""
    names = list(dict.fromkeys((BASELINE, *setting.names)))
    models = {name: _build(name, setting.dropout) for name in names}
    rows: list[dict[str, Any]] = []
    for length in setting.lengths:
        inputs = _inputs(setting.batch, length, setting.seed)
        steps: dict[str, list[float]] = {name: [] for name in names}
        passes: dict[str, list[float]] = {name: [] for name in names}
        for repeat in range(setting.repeats + 1):
            for name, model in models.items():
                step, inference = _step(model, inputs), _inference(model, inputs)
                if repeat:  # the first round is for warming up
                    steps[name].append(step)
                    passes[name].append(inference)
                tick(f"length {length}")
        for name, model in models.items():
            rows.append(
                {
                    "name": name,
                    "length": length,
                    "parameters": count(name),
                    "step_seconds": min(steps[name]),
                    "step_ratio": min(steps[name]) / min(steps[BASELINE]),
                    "inference_seconds": min(passes[name]),
                    "inference_ratio": min(passes[name]) / min(passes[BASELINE]),
                    "operations_ratio": operations(model, name, length) / operations(models[BASELINE], BASELINE, length),
                }
            )
    memory = []
    for name in names:
        memory.append({"name": name, "step_bytes": _peak(name, setting)})
        tick("memory")
    plain = json.loads(json.dumps(asdict(setting)))
    for key in ("train_lengths", "dev_lengths"):
        plain[key] = len(plain[key])
    epochs = _epochs(setting, models, tick) if setting.train_lengths else []
    return {"kind": "nli", "setting": plain, **environment_info(), "rows": rows, "memory": memory, "passes": epochs}


def _epochs(
    setting: Setting, models: dict[str, MtsaForSequencePairClassification], tick: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Seconds of one epoch, and of predicting the dev pairs, extrapolated from a sample of their batches.

    An epoch is forward and backward, without the step of the optimizer. Sentences have the lengths of the data and random
    words; batches are of similar length, as in training.
    """
    seconds: dict[str, dict[str, float]] = {name: {} for name in models}
    for part, lengths in (("epoch", setting.train_lengths), ("dev", setting.dev_lengths)):
        batches = shuffled_batches([max(pair) for pair in lengths], _REAL, seed=setting.seed, epoch=0)
        chosen = batches[:: max(1, len(batches) // setting.sample)][: setting.sample]
        for name in models:
            seconds[name][part] = 0.0
        for number, batch in enumerate(chosen):
            inputs = random_batch([lengths[place] for place in batch], setting.seed + number)
            for name, model in models.items():
                time_of = _step if part == "epoch" else _inference
                seconds[name][part] += min(time_of(model, inputs) for _ in range(2)) * len(batches) / len(chosen)
                tick(f"sampled batches: {part}")
    return [{"name": name, "epoch_seconds": value["epoch"], "dev_seconds": value["dev"]} for name, value in seconds.items()]


def random_batch(lengths: Sequence[tuple[int, int]], seed: int) -> dict[str, Tensor]:
    """Return a batch of pairs with sentences of these lengths, of random words, with labels."""
    generator = torch.Generator().manual_seed(seed)
    sides = [[torch.randint(2, _WORDS, (pair[side],), generator=generator).tolist() for pair in lengths] for side in (0, 1)]
    return make_batch(*sides) | {"labels": torch.randint(0, 3, (len(lengths),), generator=generator)}


def lengths_of(corpus: str, data: Path) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Words of the two sentences of each training pair, and of each dev pair, of a data set of the table.

    Raises:
        InputError: a file that does not exist or cannot be read.
    """
    tokenizer = word_tokenizer()
    split = DATASETS[corpus].read(Paths(data))
    found = []
    for examples in (split.train, split.dev):
        sides = [encode_texts(tokenizer, [example.texts[side] for example in examples], 0)[0] for side in (0, 1)]
        found.append([(len(first), len(second)) for first, second in zip(*sides, strict=True)])
    return found[0], found[1]


def ticks(setting: Setting) -> int:
    """Return the number of progress steps of `run`."""
    names = len({BASELINE, *setting.names})
    passes = 2 * setting.sample if setting.train_lengths else 0
    return names * (len(setting.lengths) * (setting.repeats + 1) + 1 + passes)


def operations(model: MtsaForSequencePairClassification, name: str, length: int) -> float:
    """Multiply-adds of the forward pass over one pair of sentences of that length, without sums over single features.

    Every weight of encoder and pooling is used once for each token; what grows with pairs of tokens comes on top.
    """
    per_token: float = _weights(model.encoder) + _weights(model.pool)
    if isinstance(model.encoder, BiblosaEncoder):  # a part of it works on blocks, not on tokens
        for part in model.encoder.directions:
            between, blocks = _weights(part.between), -(-length // int(part.block))  # type: ignore[arg-type]
            per_token += between * blocks / length - between
    width = model.encoder.out_dim
    two_products = ("multihead", "disa", "mtsa_no_token2token", "mtsa_no_source2token")
    if name in two_products:
        per_pair = 2 * width
    else:
        per_pair = 3 * width if name.startswith("mtsa") and name != "mtsa_none" else 0
    return 2 * (length * per_token + length * length * per_pair) + _weights(model.head)


def _weights(module: nn.Module) -> int:
    """Number of parameters of the weight matrices, without biases."""
    return sum(value.numel() for name, value in module.named_parameters() if "bias" not in name)


def _build(name: str, dropout: float) -> MtsaForSequencePairClassification:
    torch.manual_seed(0)
    return build(name, words=_WORDS, dropout=dropout)


def _inputs(batch: int, length: int, seed: int) -> dict[str, Tensor]:
    return random_batch([(length, length)] * batch, seed)


def _step(model: MtsaForSequencePairClassification, inputs: dict[str, Tensor]) -> float:
    model.train()
    model.zero_grad(set_to_none=True)
    start = time.perf_counter()
    model(**inputs).loss.backward()
    return time.perf_counter() - start


def _inference(model: MtsaForSequencePairClassification, inputs: dict[str, Tensor]) -> float:
    model.eval()
    with torch.no_grad():
        start = time.perf_counter()
        model(**inputs)
        return time.perf_counter() - start


def _peak(name: str, setting: Setting) -> int | None:
    """Peak bytes of a training step; None if it did not end in time or in memory."""
    numbers_given = (setting.batch, setting.memory_length, setting.dropout)
    command = [sys.executable, "-m", "reproduce.benchmarks.nli", name, *map(str, numbers_given)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return int(json.loads(done.stdout))


def probe(name: str, batch: int, length: int, dropout: float) -> int:
    """Peak bytes of a training step above what was there before it, in this process."""
    model = _build(name, dropout)
    _step(model, _inputs(2, 8, 0))  # libraries loaded, threads started
    model.zero_grad(set_to_none=True)
    inputs = _inputs(batch, length, 0)
    return peak_bytes(resident(), lambda: _step(model, inputs))


def table(record: dict[str, Any], quantity: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table of `step`, `inference` or `operations`: models down, lengths across."""
    lengths = list(dict.fromkeys(row["length"] for row in record["rows"]))
    cells = {(row["name"], row["length"]): row for row in record["rows"]}
    lines = []
    for name in dict.fromkeys(row["name"] for row in record["rows"]):
        shown = []
        for length in lengths:
            row = cells[name, length]
            ratio = f"{row[f'{quantity}_ratio']:.2f}x"
            shown.append(ratio if quantity == "operations" else f"{row[f'{quantity}_seconds'] * 1e3:.0f} ms {ratio}")
        lines.append([display(name), *shown])
    return ["model", *map(str, lengths)], lines


def memory_rows(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: peak memory of a training step."""
    peaks = {row["name"]: row["step_bytes"] for row in record["memory"]}
    base = peaks[BASELINE]
    lines = []
    for name, peak in peaks.items():
        measured = ["-", "-"] if not peak or not base else [f"{peak / 1e6:.0f} MB", f"{peak / base:.2f}x"]
        value = PAPER_MEMORY.get(name)
        paper = [f"{value} MB", f"{value / PAPER_MEMORY[BASELINE]:.2f}x"] if value else ["", ""]
        lines.append([display(name), *measured, *paper])
    setting = record["setting"]
    shape = f"length {setting['memory_length']}, batch {setting['batch']}"
    return ["model", shape, "ratio", "paper", "ratio (paper)"], lines


def pass_rows(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: seconds of one epoch and of the prediction of the dev pairs, with those of the paper."""
    setting = record["setting"]
    counts = f"{setting['train_lengths']:,} pairs", f"{setting['dev_lengths']:,} pairs"
    header = ["model", f"epoch, {counts[0]}", f"dev, {counts[1]}", "paper: epoch, 549,367 pairs", "paper: dev, 9,842 pairs"]
    lines = []
    for row in record["passes"]:
        paper = PAPER_SECONDS.get(row["name"])
        cells = ["", ""] if paper is None else [f"{paper[0]:.0f} s" if paper[0] else "", f"{paper[1]:.1f} s"]
        lines.append([display(row["name"]), f"{row['epoch_seconds']:.1f} s", f"{row['dev_seconds']:.1f} s", *cells])
    return header, lines


def arguments(values: Sequence[str]) -> tuple[str, int, int, float]:
    """The arguments of the memory probe."""
    name, batch, length, dropout = values
    return name, int(batch), int(length), float(dropout)


if __name__ == "__main__":
    print(json.dumps(probe(*arguments(sys.argv[1:]))))
