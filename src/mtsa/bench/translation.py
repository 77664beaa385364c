"""`mtsa bench translation`: a training step of a translator's encoder, tensorized attention beside multi-head attention."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtsa.data.source import InputError
from mtsa.experiments.translation import ROWS
from mtsa.machine import circumstances
from mtsa.models.translator import build_translator
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import load_recipe
from mtsa.training.translation import config_of

from .layer import aligned
from .timing import measure

BASELINE = "multihead"
_WORDS = 100  # the embedding is not measured


@dataclass(frozen=True)
class Setting:
    """What is measured."""

    recipes: tuple[str, ...] = ("multi30k.cpu", "wmt.setup1.paper")  # where the sizes and dropouts come from
    lengths: tuple[int, ...] = (16, 25, 50, 100)  # subwords
    tokens: int = 1024  # of a batch
    padding: float = 0.1  # part of the places of a batch
    repeats: int = 5
    seconds: float = 30.0  # an encoder's share at a length
    seed: int = 0


class _Encoder(nn.Module):
    """The encoder of a translator over vectors, some of which are padding."""

    def __init__(self, recipe: Recipe, padding: float) -> None:
        super().__init__()
        self.encoder = build_translator(config_of(recipe, _WORDS)).get_encoder()
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        B, N, _ = x.shape
        padded = round(2 * self.padding * N)  # of every other row
        mask = torch.ones(B, N, dtype=torch.long)
        mask[1::2, N - padded :] = 0
        found: Tensor = self.encoder(inputs_embeds=x, attention_mask=mask).last_hidden_state
        return found


def ticks(setting: Setting) -> int:
    """How often `run` tells of its progress."""
    return len(setting.recipes) * len(setting.lengths) * (setting.repeats + 1) * len(ROWS)


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Measure everything and return the record."""
    rows: list[dict[str, Any]] = []
    for name in setting.recipes:
        recipe = load_recipe(name)
        if not recipe.translated:
            raise InputError(f"recipe {name} is for {recipe.task}; name one of translation, such as {Setting.recipes[0]}")
        encoders = {row.name: _encoder(recipe, row.name, setting) for row in ROWS.values()}
        for length in setting.lengths:
            shape = (max(2, setting.tokens // length), length, recipe.translator.width)
            found = measure(
                encoders,
                shape,
                trained=encoders,
                repeats=setting.repeats,
                seconds=setting.seconds,
                seed=setting.seed,
                tick=lambda where=f"{name}, length {length}": tick(where),  # type: ignore[misc]
            )
            base = found[BASELINE]
            for row, timing in found.items():
                assert timing.step is not None
                assert base.step is not None
                figures = {"step_seconds": timing.step, "step_ratio": timing.step / base.step}
                figures |= {"inference_seconds": timing.inference, "inference_ratio": timing.inference / base.inference}
                rows.append({"recipe": name, "name": row, "length": length, "batch": shape[0], **figures})
    return {"kind": "translation", "setting": asdict(setting), **circumstances(), "rows": rows}


def _encoder(recipe: Recipe, row: str, setting: Setting) -> _Encoder:
    torch.manual_seed(setting.seed)
    section = {"name": ROWS[row].encoder, **dict(ROWS[row].options)}
    return _Encoder(dataclasses.replace(recipe, encoder=section), setting.padding)


def tables(record: dict[str, Any]) -> dict[str, str]:
    """A table of training steps for each recipe, by its name."""
    found = {}
    for recipe in record["setting"]["recipes"]:
        own = [row for row in record["rows"] if row["recipe"] == recipe]
        lengths = sorted({row["length"] for row in own})
        cells = {(row["name"], row["length"]): f"{1000 * row['step_seconds']:.0f} ms {row['step_ratio']:.2f}x" for row in own}
        names = list(dict.fromkeys(row["name"] for row in own))
        lines = [[name, *(cells[name, length] for length in lengths)] for name in names]
        found[recipe] = aligned(["encoder", *(f"length {length}" for length in lengths)], lines)
    return found
