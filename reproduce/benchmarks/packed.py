"""`python -m reproduce bench packed`: the time that packed sequences save on batches of SNLI.

Sentences have the lengths of the data and random words. The model of the paper (`snli.paper`) computes the same batches packed
and padded, in turn; padded batches are computed in two groups by length where that saves padding. The least CPU time of
several repeats counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtsa.data.batching import shuffled_batches
from mtsa.machine import environment_info
from mtsa.models.hub_models import MtsaForSequencePairClassification
from mtsa.models.length_groups import padded_size
from mtsa.models.packed_batch import without_packing
from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.packing import unpadded_rows
from reproduce.parameter_counts import build

from .nli import lengths_of, random_batch

WORDS = 20_000


@dataclass(frozen=True)
class Setting:
    """Settings of the benchmark."""

    batches: tuple[int, ...] = (32, 128)  # pairs
    sample: int = 6  # batches of each size
    repeats: int = 5
    dropout: float = 0.35  # of the recipe snli.paper
    seed: int = 0


def run(
    setting: Setting, data: Path, corpus: str = "snli-subset", tick: Callable[[str], None] = lambda note: None
) -> dict[str, Any]:
    """Measure layer and model, and return the record.

    Raises:
        InputError: a file of the data does not exist or cannot be read.
    """
    lengths = lengths_of(corpus, data)[0]
    torch.manual_seed(setting.seed)
    model = build("mtsa", words=WORDS, dropout=setting.dropout)
    rows = []
    for size in setting.batches:
        batches = shuffled_batches([max(pair) for pair in lengths], size, seed=setting.seed, epoch=0)
        for number, batch in enumerate(batches[:: max(1, len(batches) // setting.sample)][: setting.sample]):
            pairs = [lengths[place] for place in batch]
            sentences = sorted(length for pair in pairs for length in pair)
            shape = {
                "batch": len(pairs),
                "tokens": sum(sentences),
                "padded": len(sentences) * sentences[-1],
                "two_groups": padded_size(sentences),
            }
            inputs = random_batch(pairs, setting.seed + number)
            rows += [{**shape, **row} for row in _compare(_model_calls(model, inputs), setting.repeats)]
            rows += [{**shape, **row} for row in _compare(_layer_calls(sentences, setting), setting.repeats)]
            tick(f"batches of {size}")
    return {"kind": "packed", "setting": asdict(setting), "corpus": corpus, **environment_info(), "rows": rows}


def ticks(setting: Setting) -> int:
    """Return the number of calls of `tick`."""
    return len(setting.batches) * setting.sample


Calls = dict[tuple[str, str, str], Callable[[], None]]  # by what, mode and form


def _model_calls(model: MtsaForSequencePairClassification, inputs: dict[str, Tensor]) -> Calls:
    def step() -> None:
        model.train().zero_grad(set_to_none=True)
        model(**inputs).loss.backward()

    def predict() -> None:
        model.eval()
        with torch.inference_mode():
            model(**inputs)

    def padded(call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            with without_packing():
                call()

        return run

    calls: Calls = {}
    for mode, call in (("training", step), ("inference", predict)):
        calls["model", mode, "packed"], calls["model", mode, "padded"] = call, padded(call)
    return calls


def _layer_calls(lengths: list[int], setting: Setting) -> Calls:
    """The layer alone, on one packed or padded tensor."""
    layer = MultiMaskAttention(300, 2, head_dim=300, form="released", activation="elu", dropout=setting.dropout)
    bounds = torch.tensor([0, *lengths]).cumsum(0)
    x = torch.randn(int(bounds[-1]), 300)
    rows, mask = unpadded_rows(bounds, max(lengths))
    forms = {"packed": (x, {"cu_seqlens": bounds}), "padded": (x[rows] * mask[..., None], {"attention_mask": mask})}
    calls: Calls = {}

    def add(form: str, given: Tensor, options: dict[str, Tensor]) -> None:
        def step() -> None:
            layer.train().zero_grad(set_to_none=True)
            layer(leaf, **options).sum().backward()

        def predict() -> None:
            layer.eval()
            with torch.inference_mode():
                layer(given, **options)

        leaf = given.clone().requires_grad_()
        calls["layer", "training", form], calls["layer", "inference", form] = step, predict

    for form, (given, options) in forms.items():
        add(form, given, options)
    return calls


def _compare(calls: Calls, repeats: int) -> list[dict[str, Any]]:
    best: dict[tuple[str, str, str], float] = {}
    for repeat in range(repeats + 1):  # the first is for warming up
        for key, call in calls.items():
            start = time.process_time()
            call()
            seconds = time.process_time() - start
            if repeat:
                best[key] = min(seconds, best.get(key, seconds))
    return [
        {
            "what": what,
            "mode": mode,
            "packed_seconds": best[what, mode, "packed"],
            "padded_seconds": best[what, mode, "padded"],
        }
        for what, mode, form in calls
        if form == "packed"
    ]


def table(record: dict[str, Any]) -> list[list[str]]:
    """Return header and rows: padding, seconds of all batches in both forms, and the share of time saved."""
    header = ["", "pairs in a batch", "mode", "padding", "in two groups", "padded", "packed", "time saved"]
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        groups.setdefault((row["what"], row["batch"], row["mode"]), []).append(row)
    lines = []
    for (what, batch, mode), rows in groups.items():
        tokens, padded, packed_time, padded_time, two = (
            sum(row[key] for row in rows) for key in ("tokens", "padded", "packed_seconds", "padded_seconds", "two_groups")
        )
        grouped = f"{1 - tokens / two:.0%}" if what == "model" else "-"
        times = [f"{padded_time:.2f} s", f"{packed_time:.2f} s", f"{1 - packed_time / padded_time:.0%}"]
        lines.append([what, str(batch), mode, f"{1 - tokens / padded:.0%}", grouped, *times])
    return [header, *lines]
