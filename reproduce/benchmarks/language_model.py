"""`python -m reproduce bench language-model`: perplexity of GPT with tensorized and with dot-product attention.

Both models have equally many parameters, within a percent, and are trained by `mtsa pretrain` on the same text with the same
settings and seeds.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mtsa.machine import environment_info
from mtsa.training.language_model import ATTENTIONS, Setting, pretrain

SETTING = Setting(layers=3, width=96, heads=4, tokens=2000, length=48, batch=16, steps=400, warmup=40)


def run(texts: Sequence[str], sources: Sequence[str], setting: Setting, seeds: int, runs: Path) -> dict[str, Any]:
    """Train each model once with each seed, below the folder `runs`, and return the record; finished runs are not repeated.

    A text that occurs several times is used once, so that no dev text is a training text too.

    Args:
        texts: the texts of all files.
        sources: the files, for the record.
        setting: model size and schedule.
        seeds: number of seeds; each has its own dev part and initial weights, the same for both models.
        runs: folder of the trained models.

    Raises:
        InputError: too little text.
    """
    rows, distinct = [], list(dict.fromkeys(texts))
    for seed in range(seeds):
        for attention in ATTENTIONS:
            chosen, folder = replace(setting, attention=attention, seed=seed), runs / f"{attention}-{seed}"
            if not (folder / "record.json").exists():
                pretrain(distinct, folder, chosen)
            found = json.loads((folder / "record.json").read_text(encoding="utf-8"))
            keys = ("parameters", "texts", "tokens", "dev_tokens", "dev_loss", "dev_perplexity", "sha256", "curve")
            rows.append({"attention": attention, "seed": seed, **{key: found[key] for key in keys}})
    shared = {key: value for key, value in vars(setting).items() if key not in ("attention", "seed")}
    names = ["/".join(Path(source).parts[-2:]) for source in sources]
    return {"kind": "language model", "sources": names, "setting": shared, **environment_info(), "rows": rows}


def table(record: dict[str, Any]) -> list[list[str]]:
    """Return header and rows: parameters, dev loss and perplexity of each model, means over the seeds.

    The difference to multi-head attention is the mean over the seeds of that of two models with the same seed.
    """
    lines = [["attention", "parameters", "seeds", "dev loss", "dev perplexity", "difference of the loss"]]
    losses = {name: [row["dev_loss"] for row in record["rows"] if row["attention"] == name] for name in ATTENTIONS}
    for attention in ATTENTIONS:
        parameters = next(row["parameters"] for row in record["rows"] if row["attention"] == attention)
        found = losses[attention]
        change = [own - other for own, other in zip(found, losses["multihead"], strict=True)]
        cells = [f"{parameters:,}", str(len(found)), _mean(found), f"{math.exp(statistics.mean(found)):.1f}"]
        lines.append([attention, *cells, "-" if attention == "multihead" else _mean(change, "+")])
    return lines


def _mean(values: Sequence[float], sign: str = "") -> str:
    """The mean with its standard deviation."""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):{sign}.3f}{spread}"
