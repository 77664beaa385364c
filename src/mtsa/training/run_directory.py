"""The run directory: configuration, tokenizer, weights, recipe, metrics, and a manifest with checksums."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from torch import nn

from mtsa.errors import InputError
from mtsa.files import fingerprint, replacing, write_json, write_text
from mtsa.machine import environment_info
from mtsa.messages import one_line
from mtsa.models.network_config import read_config
from mtsa.models.transformers_logging import silence_transformers
from mtsa.tasks.registry import get_task

from .model_card import CARD
from .model_inputs import Inputs
from .recipe import Recipe
from .recipe_files import load_recipe, to_toml
from .run_checks import check_weights
from .weight_files import load_weights, save_weights

MANIFEST = "manifest.json"
RECIPE = "recipe.toml"


@dataclass(frozen=True)
class Run:
    """A loaded run directory."""

    folder: Path
    recipe: Recipe
    model: Any
    tokenizer: Tokenizer

    @property
    def labels(self) -> list[str]:
        """The names of the classes or tags; empty for tasks without labels."""
        return get_task(self.recipe.task).labels_of(self.model.config)


def write_run(folder: Path, recipe: Recipe, model: Any, inputs: Inputs, reports: dict[str, Any], card: str) -> None:
    """Write a finished run: each file atomically, the manifest last."""
    task, config = get_task(recipe.task), model.config
    config.save_pretrained(folder)
    _write_weights(folder, model)
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=inputs.tokenizer,
        **inputs.special_tokens,
        model_max_length=recipe.tokens.max_length or 10**9,
        model_input_names=list(task.tokenizer_inputs),
    )
    wrapped.save_pretrained(folder)
    write_text(folder / RECIPE, to_toml(recipe))
    for name, report in reports.items():
        write_json(folder / f"{name}.json", report)
    write_text(folder / CARD, card)  # not in the manifest, because users may edit it
    names = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", RECIPE]
    names += task.write_extra(recipe, folder)
    _write_manifest(folder, [*names, *(f"{name}.json" for name in reports)])


def copy_run(run: Run, folder: Path) -> None:
    """Write a loaded run to another folder, with its current weights."""
    if folder.resolve() == run.folder.resolve():
        raise InputError(f"{folder} is the run directory itself; choose another folder")
    names = list(_manifest(run.folder / MANIFEST))
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name != "model.safetensors":
            with replacing(folder / name) as partial:
                shutil.copyfile(run.folder / name, partial)
    _write_weights(folder, run.model)
    get_task(run.recipe.task).write_extra(run.recipe, folder)
    _write_manifest(folder, names)


def _write_weights(folder: Path, model: Any) -> None:
    with replacing(folder / "model.safetensors") as partial:
        save_weights(model, partial)


def _write_manifest(folder: Path, names: list[str]) -> None:
    write_json(folder / MANIFEST, {name: fingerprint(folder / name) for name in sorted(names)})


def open_run(folder: Path) -> Run:
    """Load a finished run.

    Raises:
        InputError: not a valid run directory, or the run is not finished.
    """
    check_run(folder)
    recipe = load_recipe(str(folder / RECIPE))
    model = _load_network(folder, recipe) or _load_pretrained(folder, recipe)
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the checksums match, so another version has written it
        raise _wrong_version(folder, error) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Run(folder, recipe, model.eval(), tokenizer)


def _load_network(folder: Path, recipe: Recipe) -> nn.Module | None:
    """The model, loaded without transformers; None if that is not possible.

    Raises:
        InputError: the weights do not match the configuration.
    """
    network = get_task(recipe.task).network_class(recipe)
    if network is None or recipe.pretrained.model:
        return None
    config = check_weights(folder, network, read_config)
    try:
        model = network(config)
        load_weights(model, folder / "model.safetensors")
    except Exception as error:
        raise _wrong_version(folder, error) from None
    return model


def _load_pretrained(folder: Path, recipe: Recipe) -> nn.Module:
    """The model, loaded by `transformers`.

    Raises:
        InputError: the weights do not match the configuration.
    """
    silence_transformers()
    model_class: Any = get_task(recipe.task).model_class(recipe)
    check_weights(folder, model_class, model_class.config_class.from_pretrained)
    try:
        model, info = model_class.from_pretrained(folder, output_loading_info=True, use_safetensors=True)
    except Exception as error:
        raise _wrong_version(folder, error) from None
    if info["missing_keys"] or info["unexpected_keys"]:
        raise InputError(f"{folder}: the weights in model.safetensors do not match config.json; train again")
    loaded: nn.Module = model
    return loaded


def _wrong_version(folder: Path, error: Exception) -> InputError:
    version = environment_info()["versions"]["mtsa"]
    return InputError(
        f"{folder}: this run cannot be loaded with version {version} ({one_line(error)}); install the version in "
        "record.json, or train again"
    )


def check_run(folder: Path) -> None:
    """Verify the checksums of a finished run.

    Raises:
        InputError: see `open_run`.
    """
    if folder.is_file():
        raise InputError(f"{folder} is a file, not a run directory")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run directory; train a model with: mtsa train --out {folder} ...")
    path = folder / MANIFEST
    if not path.exists():
        if (folder / "summary.json").exists():
            one = next((entry.name for entry in sorted(folder.iterdir()) if (entry / MANIFEST).exists()), "fold-01")
            raise InputError(f"{folder} contains several runs; choose one of them, such as {folder / one}")
        begun = (folder / RECIPE).exists()
        raise InputError(
            f"{folder} contains an unfinished run; rerun the `mtsa train` command to resume it"
            if begun
            else f"{folder} is not a run directory: it has no {MANIFEST}"
        )
    for name, expected in _manifest(path).items():
        file = folder / name
        if not file.is_file():
            raise InputError(f"{folder}: {name} is missing; restore it, or train again")
        if fingerprint(file) != expected:
            raise InputError(
                f"{folder}: checksum mismatch in {name} (changed after training); restore the "
                "file from a backup, or train again"
            )


def _manifest(path: Path) -> dict[str, Any]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        entries = None
    known = isinstance(entries, dict) and {"config.json", "model.safetensors", "tokenizer.json", RECIPE} <= entries.keys()
    if not known or any(Path(name).name != name for name in entries):
        raise InputError(f"{path} is not a valid manifest; restore it, or train again")
    found: dict[str, Any] = entries
    return found
