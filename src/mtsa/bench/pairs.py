"""`mtsa bench nli`: what the pair models of the paper's Table 1 cost, at its width, beside multi-head attention in one run.

`python -m mtsa.bench.pairs NAME BATCH LENGTH` prints, as JSON, the peak memory of a training step in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from mtsa.data.batches import tensors
from mtsa.experiments.params import EIGHT, NLI, build, count
from mtsa.machine import circumstances
from mtsa.models.pair import MtsaForSequencePairClassification

from .memory import peak_bytes, resident

BASELINE = "multihead"
_WORDS = 20_000


@dataclass(frozen=True)
class Setting:
    """What is measured."""

    lengths: tuple[int, ...] = (10, 15, 25, 40, 64)  # words of both sentences
    batch: int = 64
    repeats: int = 5
    dropout: float = 0.35  # of the recipe snli.paper
    names: tuple[str, ...] = (*NLI, *EIGHT)
    memory_length: int = 64
    seed: int = 0


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Measure everything and return the record; a model joins each round once, and its best time counts."""
    names = list(dict.fromkeys((BASELINE, *setting.names)))
    models = {name: _made(name, setting.dropout) for name in names}
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
        memory.append({"name": name, "step_bytes": _peak(name, setting.batch, setting.memory_length)})
        tick("memory")
    return {
        "kind": "nli",
        "setting": json.loads(json.dumps(asdict(setting))),
        **circumstances(),
        "rows": rows,
        "memory": memory,
    }


def ticks(setting: Setting) -> int:
    """How often `run` calls `tick`."""
    names = len({BASELINE, *setting.names})
    return names * (len(setting.lengths) * (setting.repeats + 1) + 1)


def operations(model: MtsaForSequencePairClassification, name: str, length: int) -> float:
    """Multiply-adds of the forward pass over one pair of sentences of that length, without sums over single features.

    Every weight of encoder and pooling is used once for each token; what grows with pairs of tokens comes on top.
    """
    parts = (*model.encoder.parameters(), *model.pool.parameters())
    each = sum(value.numel() for value in parts if value.dim() > 1 and value.requires_grad)
    width = model.encoder.out_dim
    of_pairs = {"multihead": 2 * width, "disa": 2 * width, "mtsa_no_token2token": 2 * width, "mtsa_no_source2token": 2 * width}
    pairs = of_pairs.get(name, 3 * width if name.startswith("mtsa") and name != "mtsa_none" else 0)
    head = sum(value.numel() for value in model.head.parameters() if value.dim() > 1)
    return 2 * (length * each + length * length * pairs) + head


def _made(name: str, dropout: float) -> MtsaForSequencePairClassification:
    torch.manual_seed(0)
    return build(name, words=_WORDS, dropout=dropout)


def _inputs(batch: int, length: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows, pairs = (torch.randint(2, _WORDS, (batch, length), generator=generator).tolist() for _ in range(2))
    return tensors(rows, pairs) | {"labels": torch.randint(0, 3, (batch,), generator=generator)}


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


def _peak(name: str, batch: int, length: int) -> int | None:
    command = [sys.executable, "-m", "mtsa.bench.pairs", name, str(batch), str(length)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return int(json.loads(done.stdout)) if done.returncode == 0 else None


def probe(name: str, batch: int, length: int) -> int:
    """Peak bytes of a training step above what was there before it, in this process."""
    model = _made(name, 0.35)
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
        lines.append([name, *shown])
    return ["model", *map(str, lengths)], lines


def memory_rows(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: peak memory of a training step."""
    peaks = {row["name"]: row["step_bytes"] for row in record["memory"]}
    base = peaks[BASELINE]
    lines = [
        [name, "-" if peak is None else f"{peak / 1024**2:.0f} MiB", "-" if not peak or not base else f"{peak / base:.2f}x"]
        for name, peak in peaks.items()
    ]
    setting = record["setting"]
    return ["model", f"length {setting['memory_length']}, batch {setting['batch']}", "ratio"], lines


def arguments(values: Sequence[str]) -> tuple[str, int, int]:
    """The arguments of the memory probe."""
    name, batch, length = values
    return name, int(batch), int(length)


if __name__ == "__main__":
    print(json.dumps(probe(*arguments(sys.argv[1:]))))
