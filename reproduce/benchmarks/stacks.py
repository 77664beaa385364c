"""`python -m reproduce bench translation` and `bench srl`: a training step of the encoder of a translator or a role labeller.

Every row of the task's table is timed beside the one with multi-head attention, in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtsa.bench.layer import aligned
from mtsa.bench.timing import measure
from mtsa.encoders import build_encoder, find_encoder
from mtsa.errors import InputError
from mtsa.machine import circumstances
from mtsa.models.translator import build_translator
from mtsa.tasks.translation import config_of
from mtsa.training.launch import build_recipe
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import load_recipe
from reproduce.table import Model
from reproduce.tables import TABLES

BASELINE = "multihead"
_WORDS = 100  # the embedding is not measured


@dataclass(frozen=True)
class Setting:
    """What is measured."""

    recipes: tuple[str, ...]  # where the sizes and dropouts come from
    tokens: int  # of a batch
    lengths: tuple[int, ...] = (16, 25, 50, 100)
    padding: float = 0.1  # part of the places of a batch
    repeats: int = 5
    seconds: float = 30.0  # an encoder's share at a length
    seed: int = 0


PRESETS: dict[str, Setting] = {
    "translation": Setting(("multi30k.cpu", "wmt.setup1.paper"), 1024),
    "srl": Setting(("srl.cpu", "srl.paper"), 2048),
}
_MODELS: dict[str, Mapping[str, Model]] = {task: TABLES[task].models for task in ("translation", "srl")}


class Translating(nn.Module):
    """The encoder of a translator over vectors."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.width = recipe.translator.d_model
        self.encoder = build_translator(config_of(recipe, _WORDS)).get_encoder()

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        found: Tensor = self.encoder(inputs_embeds=x, attention_mask=keep.long()).last_hidden_state
        return found


class Tagging(nn.Module):
    """The stack of a tagger over word vectors with the mark of the predicate beside them."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.width = recipe.vectors.dim + recipe.model.predicate_dim
        name = str(recipe.encoder["name"])
        shared = {"dropout": recipe.model.dropout} if "dropout" in find_encoder(name).options else {}
        self.encoder = build_encoder(name, self.width, **shared, **recipe.encoder_options)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        found: Tensor = self.encoder(x, keep)
        return found


class Padded(nn.Module):
    """An encoder that finds padding at the end of every other row."""

    def __init__(self, encoder: Translating | Tagging, padding: float) -> None:
        super().__init__()
        self.encoder, self.padding = encoder, padding

    def forward(self, x: Tensor) -> Tensor:
        B, N, _ = x.shape
        keep = torch.ones(B, N, dtype=torch.bool)
        keep[1::2, N - round(2 * self.padding * N) :] = False
        found: Tensor = self.encoder(x, keep)
        return found


def ticks(task: str, setting: Setting) -> int:
    """How often `run` tells of its progress."""
    return len(setting.recipes) * len(setting.lengths) * (setting.repeats + 1) * len(_MODELS[task])


def run(task: str, setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Measure every row of a task's table and return the record.

    Raises:
        InputError: a recipe of another task.
    """
    for name in setting.recipes:
        found = load_recipe(name).task
        if found != task:
            raise InputError(f"recipe {name} is for {found}; name one of {task}, such as {PRESETS[task].recipes[0]}")
    rows: list[dict[str, Any]] = []
    for name in setting.recipes:
        made = {row: encoder(task, name, row, setting) for row in _MODELS[task]}
        for length in setting.lengths:
            rows += _at(made, name, length, setting, lambda where=f"{name}, length {length}": tick(where))  # type: ignore[misc]
    return {"kind": task, "setting": asdict(setting), **circumstances(), "rows": rows}


def encoder(task: str, recipe: str, row: str, setting: Setting) -> Padded:
    """The encoder of a row of a task's table, in the sizes of a recipe."""
    kind = _MODELS[task][row]
    made = build_recipe(recipe, encoder=kind.encoder, settings=[f"{key}={value}" for key, value in kind.options.items()])
    torch.manual_seed(setting.seed)
    return Padded(Translating(made) if task == "translation" else Tagging(made), setting.padding)


def _at(
    encoders: dict[str, Padded], recipe: str, length: int, setting: Setting, tick: Callable[[], None]
) -> Iterable[dict[str, Any]]:
    """A row of the record for each encoder, at one length."""
    batch, width = max(2, setting.tokens // length), encoders[BASELINE].encoder.width
    limits = {"repeats": setting.repeats, "seconds": setting.seconds, "seed": setting.seed}
    found = measure(encoders, (batch, length, width), trained=encoders, tick=tick, **limits)  # type: ignore[arg-type]
    base = found[BASELINE]
    for name, timing in found.items():
        assert timing.step is not None
        assert base.step is not None
        figures = {"step_seconds": timing.step, "step_ratio": timing.step / base.step}
        figures |= {"inference_seconds": timing.inference, "inference_ratio": timing.inference / base.inference}
        yield {"recipe": recipe, "name": name, "length": length, "batch": batch, **figures}


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
