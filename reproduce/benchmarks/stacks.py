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
from mtsa.machine import environment_info
from mtsa.models.translator import build_translator
from mtsa.tasks.translation import config_of
from mtsa.training.launch import build_recipe
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import load_recipe
from reproduce.names import display
from reproduce.table import Model
from reproduce.tables import TABLES

BASELINE = "multihead"
_WORDS = 100  # the embedding is not measured


@dataclass(frozen=True)
class Setting:
    """Settings of the benchmark."""

    recipes: tuple[str, ...]  # define sizes and dropout
    tokens: int  # of a batch
    lengths: tuple[int, ...] = (16, 25, 50, 100)
    padding: float = 0.1  # fraction of the positions of a batch
    repeats: int = 5
    seconds: float = 30.0  # maximum for an encoder at a length
    seed: int = 0


PRESETS: dict[str, Setting] = {
    "translation": Setting(("multi30k.cpu", "wmt.setup1.paper"), 1024),
    "srl": Setting(("srl.cpu", "srl.paper"), 2048),
}
# Models with a recipe of their own differ in more than the encoder.
_MODELS: dict[str, Mapping[str, Model]] = {
    task: {name: model for name, model in TABLES[task].models.items() if not model.recipe} for task in ("translation", "srl")
}


class Translating(nn.Module):
    """The encoder of a translation model; its input is vectors."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.width = recipe.translator.d_model
        self.encoder = build_translator(config_of(recipe, _WORDS)).get_encoder()

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        hidden: Tensor = self.encoder(inputs_embeds=x, attention_mask=keep.long()).last_hidden_state
        return hidden


class Tagging(nn.Module):
    """The encoder of a tagger; its input is word vectors concatenated with predicate embeddings."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.width = recipe.vectors.dim + recipe.model.predicate_dim
        name = str(recipe.encoder["name"])
        shared = {"dropout": recipe.model.dropout} if "dropout" in find_encoder(name).options else {}
        self.encoder = build_encoder(name, self.width, **shared, **recipe.encoder_options)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        hidden: Tensor = self.encoder(x, keep)
        return hidden


class Padded(nn.Module):
    """Pads every second row of the input of an encoder."""

    def __init__(self, encoder: Translating | Tagging, padding: float) -> None:
        super().__init__()
        self.encoder, self.padding = encoder, padding

    def forward(self, x: Tensor) -> Tensor:
        B, N, _ = x.shape
        keep = torch.ones(B, N, dtype=torch.bool)
        keep[1::2, N - round(2 * self.padding * N) :] = False
        hidden: Tensor = self.encoder(x, keep)
        return hidden


def ticks(task: str, setting: Setting) -> int:
    """Return the number of progress steps of `run`."""
    return len(setting.recipes) * len(setting.lengths) * (setting.repeats + 1) * len(_MODELS[task])


def run(task: str, setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Measure every row of a task's table and return the record.

    Raises:
        InputError: a recipe of another task.
    """
    for name in setting.recipes:
        recipe_task = load_recipe(name).task
        if recipe_task != task:
            raise InputError(
                f"recipe {name} is for task {recipe_task}; choose a {task} recipe, such as {PRESETS[task].recipes[0]}"
            )
    rows: list[dict[str, Any]] = []
    for name in setting.recipes:
        encoders = {row: encoder(task, name, row, setting) for row in _MODELS[task]}
        for length in setting.lengths:
            rows += _at(encoders, name, length, setting, lambda note=f"{name}, length {length}": tick(note))  # type: ignore[misc]
    return {"kind": task, "setting": asdict(setting), **environment_info(), "rows": rows}


def encoder(task: str, recipe: str, row: str, setting: Setting) -> Padded:
    """The encoder of a row of a task's table, in the sizes of a recipe."""
    model = _MODELS[task][row]
    settings = [f"{key}={value}" for key, value in model.options.items()]
    with_encoder = build_recipe(recipe, encoder=model.encoder, settings=settings)
    torch.manual_seed(setting.seed)
    return Padded(Translating(with_encoder) if task == "translation" else Tagging(with_encoder), setting.padding)


def _at(
    encoders: dict[str, Padded], recipe: str, length: int, setting: Setting, tick: Callable[[], None]
) -> Iterable[dict[str, Any]]:
    """A row of the record for each encoder, at one length."""
    batch, width = max(2, setting.tokens // length), encoders[BASELINE].encoder.width
    limits = {"repeats": setting.repeats, "seconds": setting.seconds, "seed": setting.seed}
    timings = measure(encoders, (batch, length, width), trained=encoders, tick=tick, **limits)  # type: ignore[arg-type]
    base = timings[BASELINE]
    for name, timing in timings.items():
        assert timing.step is not None
        assert base.step is not None
        figures = {"step_seconds": timing.step, "step_ratio": timing.step / base.step}
        figures |= {"inference_seconds": timing.inference, "inference_ratio": timing.inference / base.inference}
        yield {"recipe": recipe, "name": name, "length": length, "batch": batch, **figures}


def tables(record: dict[str, Any]) -> dict[str, str]:
    """A table of training steps for each recipe, by its name."""
    texts = {}
    for recipe in record["setting"]["recipes"]:
        rows = [row for row in record["rows"] if row["recipe"] == recipe]
        lengths = sorted({row["length"] for row in rows})
        cells = {(row["name"], row["length"]): f"{1000 * row['step_seconds']:.0f} ms {row['step_ratio']:.2f}x" for row in rows}
        names = list(dict.fromkeys(row["name"] for row in rows))
        lines = [[display(name), *(cells[name, length] for length in lengths)] for name in names]
        texts[recipe] = aligned(["encoder", *(f"length {length}" for length in lengths)], lines)
    return texts
