"""Run one recipe: from files to a run folder. A run that was stopped goes on where its last checkpoint is."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import PreTrainedModel, TrainerCallback

from mtsa.data.batches import LEAST
from mtsa.data.source import InputError
from mtsa.data.tasks import TASKS, Task
from mtsa.machine import circumstances
from mtsa.models.quiet import quiet

from . import checkpoints
from .card import model_card
from .folder import write_run
from .loading import batches_of, count_batches
from .parts import Part
from .prepare import Prepared, prepare
from .recipe import Recipe
from .score import PartScore
from .split import Split, read_split
from .stopping import stopping
from .trainer import RecipeTrainer, curve, steps_of
from .unfinished import CHECKPOINTS, REFIT, alone, begin, find, is_first, sources_of, tidy
from .weights import written

Bar = Callable[[int, str], None]  # how much is done, and a note
Progress = Callable[[str, int | None], AbstractContextManager[Bar]]  # a note, and how much there is


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    folder: Path
    dev: PartScore
    test: PartScore | None
    unseen: PartScore | None  # the test part without texts that stand in the training or dev data, if there are such
    further: dict[str, PartScore]  # further test parts
    best_step: int
    steps: int
    seconds: float
    task: Task


def run_recipe(
    recipe: Recipe,
    folder: Path,
    *,
    say: Callable[[str], None],
    progress: Progress,
    split: Split | None = None,
    tensorboard: bool = False,
) -> Outcome:
    """Train, evaluate and save.

    Args:
        recipe: what to do.
        folder: the run folder; one that holds an unfinished run of the same recipe and data is gone on with.
        say: hears what a user should know, a line at a time.
        progress: makes a progress bar.
        split: the examples, where they are not those of the recipe's files.
        tensorboard: whether to write files for TensorBoard.

    Raises:
        InputError: bad data, or a folder that holds something else.
    """
    quiet()
    first = is_first()
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > min(LEAST if recipe.training.batch_tokens else recipe.training.batch, LEAST):
        raise InputError(
            f"{processes} processes need batches of at least as many, and are at most {LEAST}; set training.batch"
        )
    tell = say if first else lambda line: None
    own = split or read_split(recipe)
    sources = sources_of(recipe, own)
    find(folder, recipe, sources)
    with progress("reading vectors", None) as bar:
        prepared = prepare(recipe, own, lambda count: bar(count, "reading vectors"))
    with alone(folder):
        last = find(folder, recipe, sources)  # again: another process may have ended since
        return _run(prepared, folder, own, sources, last, tell=tell, progress=progress, tensorboard=tensorboard)


def _run(
    prepared: Prepared,
    folder: Path,
    own: Split,
    sources: dict[str, Any],
    last: Path | None,
    *,
    tell: Callable[[str], None],
    progress: Progress,
    tensorboard: bool,
) -> Outcome:
    recipe, first, model = prepared.recipe, is_first(), _start_model(prepared)
    if first:
        begin(folder, recipe, sources, fresh=last is None)
    for line in prepared.remarks:
        tell(line)
    tell(_overview(prepared))
    if prepared.repeated and all(prepared.repeated):
        tell("every test example stands in the training or dev data too: its figures say nothing about new text")
    _check_shares(prepared)
    trainer = _trainer(prepared, recipe, model, folder / CHECKPOINTS, folder / "tensorboard" if tensorboard else None)
    _train(trainer, last, "training", tell, progress, best=True)
    best = trainer.load_best()
    dev = prepared.parts["dev"].score(prepared.parts["dev"].answers(model))
    end = _End(prepared, trainer, dev, best, trainer.state.global_step, trainer.seconds)
    if recipe.training.refit:
        end = _refit(end, own, folder / REFIT, tell, progress)
    outcome = _finish(end, folder, sources, curve(trainer.state), write=first)
    if dist.is_initialized():
        dist.barrier()
    return outcome


def _start_model(prepared: Prepared) -> PreTrainedModel:
    """The model to start from; a value that its layers refuse is the recipe's fault."""
    try:
        return prepared.model()
    except InputError:
        raise
    except (ValueError, TypeError, RuntimeError, MemoryError) as error:
        raise InputError(f"[encoder] or [model] of the recipe: {error}") from None


@dataclass(frozen=True)
class _End:
    """What training ends with: the model to keep is the trainer's."""

    prepared: Prepared
    trainer: RecipeTrainer
    dev: PartScore
    best: int  # step
    steps: int
    seconds: float
    refit_steps: int = 0


def _trainer(
    prepared: Prepared, recipe: Recipe, model: PreTrainedModel, folder: Path, tensorboard: Path | None = None
) -> RecipeTrainer:
    return RecipeTrainer(
        model,
        recipe,
        prepared.parts["train"],
        prepared.parts["dev"],
        known=prepared.inputs.known,
        folder=folder,
        tensorboard=tensorboard,
    )


def _train(
    trainer: RecipeTrainer, last: Path | None, note: str, tell: Callable[[str], None], progress: Progress, *, best: bool
) -> None:
    """Train to the end, from the last checkpoint if there is one; `best`: whether the best model will be asked for."""
    _agree(trainer, last)
    if last is not None:
        tell(f"going on from step {checkpoints.step_of(last):,}")
    with progress(note, trainer.args.max_steps) as bar:
        trainer.add_callback(_Watch(bar))
        if last is None or not trainer.restore(last, best=best):
            with stopping() as stopper:
                trainer.add_callback(stopper)
                trainer.train(resume_from_checkpoint=None if last is None else str(last))
            if stopper.asked:
                raise KeyboardInterrupt


def _check_shares(prepared: Prepared) -> None:
    """See that each process has a share of every batch.

    Raises:
        InputError: a batch is too small.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    batches = batches_of(prepared.parts["train"], prepared.recipe.training) if processes > 1 else iter(())
    if any(len(batch) < processes for batch in batches):
        raise InputError(f"a batch has fewer examples than there are processes ({processes}); use fewer, or larger shards")


def _agree(trainer: RecipeTrainer, last: Path | None) -> None:
    """See that all processes look at the same run folder.

    Raises:
        InputError: they do not.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return
    dist.barrier()  # the first process has made the folder
    step = checkpoints.step_of(last) if last is not None else 0
    seen = torch.tensor([step, -step, int(trainer.folder.exists())], device=trainer.args.device)
    dist.all_reduce(seen, dist.ReduceOp.MIN)
    if seen[0] != -seen[1] or not seen[2]:
        raise InputError(
            f"{trainer.folder}: not all processes see the same files; it must be on a disk that all machines share"
        )


def _refit(found: _End, split: Split, folder: Path, tell: Callable[[str], None], progress: Progress) -> _End:
    """Train anew on training and dev data together, for as many passes as the best step took; its dev figures stay."""
    recipe = found.prepared.recipe
    assert isinstance(split.train, list)
    prepared = prepare(recipe, dataclasses.replace(split, train=[*split.train, *split.dev], remarks=[]))
    batches = [count_batches(given.parts["train"], recipe.training) for given in (found.prepared, prepared)]
    steps = max(1, round(found.best * batches[1] / batches[0]))
    training = dataclasses.replace(recipe.training, steps=steps, patience=0)
    folder.mkdir(parents=True, exist_ok=True)
    trainer = _trainer(prepared, dataclasses.replace(recipe, training=training), prepared.model(), folder)
    tell(f"once more for {steps:,} steps on all {len(prepared.parts['train']):,} examples")
    last = checkpoints.checkpoints(folder)
    _train(trainer, last[-1] if last else None, "once more", tell, progress, best=False)
    trainer.load_last()
    prepared.repeated = found.prepared.repeated
    prepared.remarks = found.prepared.remarks
    return _End(prepared, trainer, found.dev, found.best, found.steps, found.seconds + trainer.seconds, steps)


def _finish(end: _End, folder: Path, sources: dict[str, Any], dev_curve: list[dict[str, Any]], *, write: bool) -> Outcome:
    prepared, model, parts = end.prepared, end.trainer.own, end.prepared.parts
    test, unseen = None, None
    if "test" in parts:
        found = parts["test"].answers(model)
        test = parts["test"].score(found)
        if any(prepared.repeated) and not all(prepared.repeated):
            unseen = parts["test"].score(found, [place for place, known in enumerate(prepared.repeated) if not known])
    further = {name: part.score(part.answers(model)) for name, part in parts.items() if name.startswith("test:")}
    if write:
        trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
        record = {
            **circumstances(),
            "seed": prepared.recipe.training.seed,
            "sources": sources,
            "remarks": prepared.remarks,
            "parameters": {"all": trained, "words": word_weights(model)},
            "steps": end.steps,
            "best_step": end.best,
            "refit_steps": end.refit_steps,
            "seconds": end.seconds,
            "dev_curve": dev_curve,
        }
        metrics = {"dev": end.dev.as_json()} | ({"test": test.as_json()} if test else {})
        metrics |= {name: score.as_json() for name, score in further.items()}
        if unseen is not None:  # the same answers, without the texts that training has seen
            metrics["test"]["unseen"] = {key: value for key, value in unseen.as_json().items() if not isinstance(value, list)}
        scores = {"dev": end.dev} | ({"test": test} if test else {}) | further
        card = model_card(prepared.recipe, folder.resolve().name, prepared.labels, scores, record)
        with written(folder):
            write_run(folder, prepared.recipe, model, prepared.inputs, {"metrics": metrics, "record": record}, card)
        tidy(folder)
    return Outcome(folder, end.dev, test, unseen, further, end.best, end.steps, end.seconds, TASKS[prepared.recipe.task])


def word_weights(model: PreTrainedModel) -> int:
    """How many of a model's weights are those of its words."""
    words = getattr(model, "words", None) or model.get_input_embeddings()
    return sum(value.numel() for value in words.parameters())


def _overview(prepared: Prepared) -> str:
    recipe, train = prepared.recipe, prepared.parts["train"]
    like = train.sample
    steps, every = steps_of(recipe, count_batches(train, recipe.training))
    kind = f"{len(prepared.labels)} {'tags' if recipe.tagged else 'classes'}" if prepared.labels else recipe.task
    size = f"{recipe.training.batch_tokens:,} words" if recipe.training.batch_tokens else str(recipe.training.batch)
    sizes = ", ".join(f"{len(part):,} {name}" for name, part in prepared.parts.items())
    return (
        f"{recipe.encoder['name']}: {sizes}, {kind}; {prepared.inputs.about}; at most {steps:,} steps of "
        f"{size}, dev every {every:,}; {padding_share(like, list(batches_of(like, recipe.training))):.1%} padding"
    )


def padding_share(part: Part, batches: list[list[int]]) -> float:
    """The part of all places that is padding; a pair's texts are read in two groups by length."""
    words = sum(part.words_in(batch) for batch in batches)
    places = sum(part.places_filled(batch) for batch in batches)
    return 1.0 - words / places if places else 0.0


class _Watch(TrainerCallback):
    """Moves the progress bar."""

    def __init__(self, bar: Bar) -> None:
        self.bar, self.note = bar, ""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.bar(state.global_step, self.note)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float] | None = None, **_: Any) -> None:
        shown = [name for name in metrics or {} if name.startswith("eval_") and name not in ("eval_score", "eval_loss")][:1]
        self.note = "".join(f"dev {name.removeprefix('eval_')} {(metrics or {})[name]:.3f}" for name in shown)


def set_threads() -> None:
    """One share of the cores for each process that torchrun starts here, unless the user chose."""
    share = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if share > 1 and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // share))
