"""Run one recipe: from data files to a run directory. Interrupted runs are resumed from the last checkpoint."""

from __future__ import annotations

import dataclasses
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from mtsa.data.batching import MIN_BATCH_SIZE
from mtsa.errors import InputError
from mtsa.machine import environment_info
from mtsa.metrics.protocol import PartScore
from mtsa.models.transformers_logging import silence_transformers
from mtsa.progress import progress
from mtsa.tasks.base import Task
from mtsa.tasks.encoded import EncodedData
from mtsa.tasks.registry import get_task

from . import checkpoints
from .distributed import world
from .epoch_batches import batches_of
from .loop import TrainingLoop, steps_of, steps_per_epoch
from .model_card import model_card
from .precision import forward_dtype
from .prepare import Prepared, prepare
from .recipe import Recipe
from .resume import (
    CHECKPOINTS,
    REFIT,
    describe_sources,
    find_checkpoint,
    init_run_directory,
    is_main_process,
    lock_run_directory,
    remove_checkpoints,
)
from .run_directory import write_run
from .split import Split, read_split
from .weight_files import report_write_errors

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The results of a run."""

    folder: Path
    dev: PartScore
    test: PartScore | None
    unseen: PartScore | None  # the test part without texts that also occur in the training or dev data
    further: dict[str, PartScore]  # further test parts
    best_step: int
    steps: int
    seconds: float
    task: Task


def run_recipe(recipe: Recipe, folder: Path, *, split: Split | None = None, tensorboard: bool = False) -> Outcome:
    """Train, evaluate and save.

    Args:
        recipe: the settings.
        folder: the run directory; an unfinished run of the same recipe and data in it is resumed.
        split: the examples, if not read from the files of the recipe.
        tensorboard: whether to write files for TensorBoard.

    Raises:
        InputError: invalid data, or the folder has other content.
    """
    silence_transformers()
    world()  # the process group, where there are several processes
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > MIN_BATCH_SIZE:
        raise InputError(f"at most {MIN_BATCH_SIZE} processes are supported, got {processes}")
    if not recipe.training.batch_tokens and processes > recipe.training.batch_size:
        raise InputError(
            f"training.batch_size ({recipe.training.batch_size}) must be at least the number of processes ({processes})"
        )
    examples = split or read_split(recipe)
    sources = describe_sources(recipe, examples)
    find_checkpoint(folder, recipe, sources)
    prepared = prepare(recipe, examples)
    with lock_run_directory(folder):
        last = find_checkpoint(folder, recipe, sources)  # again: another process may have finished since
        return _run(prepared, folder, examples, sources, last, tensorboard=tensorboard)


def _run(
    prepared: Prepared,
    folder: Path,
    split: Split,
    sources: dict[str, Any],
    last: Path | None,
    *,
    tensorboard: bool,
) -> Outcome:
    recipe, is_main, model = prepared.recipe, is_main_process(), _initial_model(prepared)
    if is_main:
        init_run_directory(folder, recipe, sources, fresh=last is None)
        for remark in prepared.remarks:
            _log.warning(remark)
        _log.info(_overview(prepared))
        if prepared.repeated and all(prepared.repeated):
            _log.warning("all test examples also occur in the training or dev data; test scores are not meaningful")
    _check_batch_sizes(prepared)
    if recipe.pretrained.frozen:
        prepared.compute_vectors(model)
    loop = _loop(prepared, recipe, model, folder / CHECKPOINTS, folder / "tensorboard" if tensorboard else None)
    _train(loop, last, "training", best=True)
    best = loop.load_best()
    calibration = _calibrate(loop)
    dev = prepared.parts["dev"].score(prepared.parts["dev"].predict(model))
    result = _TrainingResult(prepared, loop, dev, best, loop.state.step, loop.seconds, calibration)
    if recipe.training.refit:
        result = _refit(result, split, folder / REFIT)
    outcome = _finish(result, folder, sources, loop.state.curve, write=is_main)
    if dist.is_initialized():
        dist.barrier()
    return outcome


def _initial_model(prepared: Prepared) -> PreTrainedModel:
    """The initial model; invalid options of its layers are errors in the recipe."""
    try:
        return prepared.model()
    except InputError:
        raise
    except (ValueError, TypeError, RuntimeError, MemoryError) as error:
        raise InputError(f"[encoder] or [model] of the recipe: {error}") from None


@dataclass(frozen=True)
class _TrainingResult:
    """The result of the training; `loop.model` is the final model."""

    prepared: Prepared
    loop: TrainingLoop
    dev: PartScore
    best: int  # step
    steps: int
    seconds: float
    calibration: dict[str, Any]  # temperatures and thresholds, by their names in the configuration
    refit_steps: int = 0


def _loop(
    prepared: Prepared,
    recipe: Recipe,
    model: PreTrainedModel,
    folder: Path,
    tensorboard: Path | None = None,
) -> TrainingLoop:
    return TrainingLoop(
        model,
        recipe,
        get_task(recipe.task),
        prepared.parts["train"],
        prepared.parts["dev"],
        known=prepared.inputs.known,
        folder=folder,
        class_weights=prepared.class_weights,
        tensorboard=tensorboard,
    )


def _calibrate(loop: TrainingLoop) -> dict[str, Any]:
    """Fit the temperatures and thresholds of the model to the dev part; every process gets those of the first."""
    found: dict[str, Any] = loop.dev_part.calibrate(loop.model)
    if loop.world.size > 1:
        for name, value in found.items():
            values = torch.tensor(value, dtype=torch.float64, device=loop.world.device)
            dist.broadcast(values, 0)
            found[name] = values.tolist()
    _set_calibration(loop.model, found)
    return found


def _set_calibration(model: PreTrainedModel, calibration: dict[str, Any]) -> None:
    for name, value in calibration.items():
        setattr(model.config, name, value)


def _train(loop: TrainingLoop, last: Path | None, note: str, *, best: bool) -> None:
    """Train to the end, from the last checkpoint if there is one; `best`: whether `load_best` will be called."""
    _check_shared_directory(loop, last)
    if last is not None:
        loop.restore(last, best=best)
        if is_main_process():
            _log.info(f"resuming from step {loop.state.step:,}")
    with progress(note, loop.stop_step, unit="steps") as bar:
        loop.run(bar.update)


def _check_batch_sizes(prepared: Prepared) -> None:
    """Check that every batch has at least one example for each process.

    Raises:
        InputError: a batch is too small.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    batches = batches_of(prepared.parts["train"], prepared.recipe.training) if processes > 1 else iter(())
    if any(len(batch) < processes for batch in batches):
        raise InputError(
            f"a batch has fewer examples than there are processes ({processes}); use fewer processes, or larger shards"
        )


def _check_shared_directory(loop: TrainingLoop, last: Path | None) -> None:
    """Check that all processes see the same run directory.

    Raises:
        InputError: they do not.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return
    dist.barrier()  # the first process has made the folder
    step = checkpoints.step_of(last) if last is not None else 0
    seen = torch.tensor([step, -step, int(loop.folder.exists())], device=loop.world.device)
    dist.all_reduce(seen, dist.ReduceOp.MIN)
    if seen[0] != -seen[1] or not seen[2]:
        raise InputError(f"{loop.folder}: the processes do not share this folder; it must be on a shared file system")


def _refit(first: _TrainingResult, split: Split, folder: Path) -> _TrainingResult:
    """Train again on training and dev data, for as many epochs as the best step; the dev metrics do not change."""
    recipe = first.prepared.recipe
    assert isinstance(split.train, list)
    prepared = prepare(recipe, dataclasses.replace(split, train=[*split.train, *split.dev], remarks=[]))
    batches = [steps_per_epoch(given.parts["train"], recipe.training) for given in (first.prepared, prepared)]
    steps = max(1, round(first.best * batches[1] / batches[0]))
    training = dataclasses.replace(recipe.training, max_steps=steps, patience=0)  # the schedule also decays to 0
    folder.mkdir(parents=True, exist_ok=True)
    model = prepared.model()
    if recipe.pretrained.frozen:
        prepared.compute_vectors(model)
    loop = _loop(prepared, dataclasses.replace(recipe, training=training), model, folder)
    if is_main_process():
        _log.info(f"refit: {steps:,} steps on all {len(prepared.parts['train']):,} examples")
    last = checkpoints.list_checkpoints(folder)
    _train(loop, last[-1] if last else None, "refit", best=False)
    loop.load_last()
    _set_calibration(loop.model, first.calibration)  # the dev data is training data here
    prepared.repeated = first.prepared.repeated
    prepared.remarks = first.prepared.remarks
    seconds = first.seconds + loop.seconds
    return _TrainingResult(prepared, loop, first.dev, first.best, first.steps, seconds, first.calibration, steps)


def _finish(
    end: _TrainingResult, folder: Path, sources: dict[str, Any], dev_curve: list[dict[str, Any]], *, write: bool
) -> Outcome:
    prepared, model, parts = end.prepared, end.loop.model, end.prepared.parts
    test, unseen = None, None
    if "test" in parts:
        predictions = parts["test"].predict(model)
        test = parts["test"].score(predictions)
        if any(prepared.repeated) and not all(prepared.repeated):
            unseen = parts["test"].score(predictions, [place for place, known in enumerate(prepared.repeated) if not known])
    further = {name: part.score(part.predict(model)) for name, part in parts.items() if name.startswith("test:")}
    if write:
        trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
        record = {
            **environment_info(),
            "seed": prepared.recipe.training.seed,
            "sources": sources,
            "remarks": prepared.remarks,
            "precision": str(forward_dtype(prepared.recipe, model.device)).removeprefix("torch."),
            "parameters": {"all": trained, "words": count_word_parameters(model)},
            "steps": end.steps,
            "best_step": end.best,
            "refit_steps": end.refit_steps,
            "calibration": end.calibration,
            "seconds": end.seconds,
            "dev_curve": dev_curve,
        }
        metrics = {"dev": end.dev.as_json()} | ({"test": test.as_json()} if test else {})
        metrics |= {name: score.as_json() for name, score in further.items()}
        if unseen is not None:  # the same predictions, without texts that occur in the training data
            metrics["test"]["unseen"] = {key: value for key, value in unseen.as_json().items() if not isinstance(value, list)}
        scores = {"dev": end.dev} | ({"test": test} if test else {}) | further
        card = model_card(prepared.recipe, folder.resolve().name, prepared.labels, scores, record)
        with report_write_errors(folder):
            write_run(folder, prepared.recipe, model, prepared.inputs, {"metrics": metrics, "record": record}, card)
        remove_checkpoints(folder)
    return Outcome(folder, end.dev, test, unseen, further, end.best, end.steps, end.seconds, get_task(prepared.recipe.task))


def count_word_parameters(model: PreTrainedModel) -> int:
    """Return the number of parameters of the word embeddings."""
    words = getattr(model, "words", None) or model.get_input_embeddings()
    return sum(value.numel() for value in words.parameters())


def _overview(prepared: Prepared) -> str:
    recipe, train = prepared.recipe, prepared.parts["train"]
    sample = train.sample
    steps, every = steps_of(recipe.training, steps_per_epoch(train, recipe.training))
    labels = get_task(recipe.task).describe_labels(prepared.labels)
    size = f"{recipe.training.batch_tokens:,} tokens" if recipe.training.batch_tokens else str(recipe.training.batch_size)
    sizes = ", ".join(f"{len(part):,} {name}" for name, part in prepared.parts.items())
    return (
        f"encoder {recipe.encoder['name']}; examples: {sizes}; {labels}; {prepared.inputs.about}; at most {steps:,} steps, "
        f"batch size {size}, evaluation every {every:,} steps; "
        f"{100 * padding_share(sample, list(batches_of(sample, recipe.training))):.1f} % padding"
    )


def padding_share(part: EncodedData, batches: list[list[int]]) -> float:
    """Return the share of padding in all tokens of the batches."""
    words = sum(part.token_count(batch) for batch in batches)
    padded = sum(part.padded_size(batch) for batch in batches)
    return 1.0 - words / padded if padded else 0.0


def set_threads() -> None:
    """Divide the cores among the processes of torchrun, unless OMP_NUM_THREADS is set."""
    share = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if share > 1 and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // share))
