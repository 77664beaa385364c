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


def run(texts: Sequence[str], setting: Setting, seeds: int, runs: Path) -> dict[str, Any]:
    """Train each model once with each seed, below the folder `runs`, and return the record; finished runs are not repeated.

    Raises:
        InputError: too little text.
    """
    rows = []
    for seed in range(seeds):
        for attention in ATTENTIONS:
            chosen, folder = replace(setting, attention=attention, seed=seed), runs / f"{attention}-{seed}"
            if not (folder / "record.json").exists():
                pretrain(texts, folder, chosen)
            found = json.loads((folder / "record.json").read_text(encoding="utf-8"))
            keys = ("parameters", "texts", "tokens", "dev_tokens", "dev_loss", "dev_perplexity", "seconds", "sha256", "curve")
            rows.append({"attention": attention, "seed": seed, **{key: found[key] for key in keys}})
    shared = {key: value for key, value in vars(setting).items() if key not in ("attention", "seed")}
    return {"kind": "language model", "setting": shared, **environment_info(), "rows": rows}


def table(record: dict[str, Any]) -> list[list[str]]:
    """Return header and rows: parameters, dev loss and perplexity, and training time of each model, means over the seeds."""
    lines = [["attention", "parameters", "seeds", "dev loss", "dev perplexity", "seconds of training"]]
    for attention in ATTENTIONS:
        rows = [row for row in record["rows"] if row["attention"] == attention]
        losses = [row["dev_loss"] for row in rows]
        spread = f" ± {statistics.stdev(losses):.3f}" if len(losses) > 1 else ""
        loss, seconds = statistics.mean(losses), statistics.mean(row["seconds"] for row in rows)
        cells = [
            f"{rows[0]['parameters']:,}",
            str(len(rows)),
            f"{loss:.3f}{spread}",
            f"{math.exp(loss):.1f}",
            f"{seconds:.0f}",
        ]
        lines.append([attention, *cells])
    return lines
