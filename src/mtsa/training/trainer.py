"""The transformers Trainer, made to do what it does not do by itself.

Batches of like length that are the same for any number of processes; a loss that is the sum over the global batch, divided by
its size (of a language model below and of a predicate finder: a mean over each process's own tokens); L2 on matrices alone;
checkpoints that appear whole; no pickled arguments; the best model by the dev part.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from mtsa.data.source import InputError
from mtsa.files import write_json
from mtsa.models.tagger import IGNORED
from mtsa.models.translator import smoothed_loss

from . import checkpoints
from .loading import Places, count_batches, loader
from .optimizer import make_optimizer
from .parts import Part
from .recipe import Recipe
from .spread import gather, scatter, spread, take_shares, whole, whole_state
from .weights import load_weights, save_weights, written

WEIGHTS = "weights.safetensors"
_SPENT = "seconds.json"
_STATE = "trainer_state.json"
_FROZEN = frozenset({"words.frozen"})  # never changes in training, so no checkpoint holds it


class RecipeTrainer(Trainer):
    """Trains one model by one recipe.

    Args:
        model: to train.
        recipe: how.
        train: on what.
        dev: which part decides the best model.
        known: numbers of the words that have a vector in the file; they learn at the recipe's rate for them.
        folder: where checkpoints go.
        tensorboard: where its files go, if wanted.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: Recipe,
        train: Part,
        dev: Part,
        *,
        known: Tensor,
        folder: Path,
        tensorboard: Path | None = None,
    ) -> None:
        self.own, self.known = model, known
        self.begun, self.spent = time.perf_counter(), 0.0
        self.recipe, self.train_part, self.dev_part, self.folder = recipe, train, dev, folder
        epoch = count_batches(train, recipe.training)
        args = _arguments(recipe, epoch, folder, tensorboard)
        self.shared = (
            recipe.training.spread == "fsdp" and args.world_size > 1
        )  # whether each process has a share of the weights
        self.trained = spread(model, args.device, blocks=not recipe.paired) if self.shared else model
        super().__init__(
            model=self.trained,
            args=args,
            train_dataset=Places(train),
            eval_dataset=Places(dev),
        )
        if self.shared:
            self.accelerator.prepare_model = lambda model, **_: model  # it is ready; no copies are to be kept alike
        self.remove_callback(PrinterCallback)
        self.add_callback(_Stops(recipe.training.patience))

    @property
    def seconds(self) -> float:
        """Time spent so far, that of the sessions before this one included."""
        return self.spent + time.perf_counter() - self.begun

    # Data

    def get_train_dataloader(self) -> DataLoader[Any]:
        args = self.args
        return loader(self.train_part, self.recipe.training, rank=args.process_index, world=args.world_size)

    # Optimisation

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            self.optimizer = make_optimizer(self.trained, self.recipe, self.known)
            if self.shared:
                take_shares(self.optimizer)
        return self.optimizer

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        return whole(super()._clip_grad_norm(model))

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """This process's part of (sum over the global batch) / (its size); the processes' gradients are averaged."""
        outputs = self._outputs(model, inputs)
        loss = outputs.loss
        if not torch.isfinite(loss):
            step = self.state.global_step + 1
            raise InputError(f"the loss is no finite number any more at step {step}; lower training.learning_rate")
        if self.args.world_size > 1:
            here = _weight(inputs["labels"]).to(loss.device)
            everywhere = here.clone()
            dist.all_reduce(everywhere)
            everywhere = everywhere.clamp(min=1.0)  # a batch may hold no tagged word at all
            loss = loss * (here * self.args.world_size / everywhere)
        return (loss, outputs) if return_outputs else loss

    def _outputs(self, model: nn.Module, inputs: dict[str, Tensor]) -> Any:
        """What the model makes of a batch, with its loss; a translator's is smoothed here, as its class knows no smoothing."""
        if not self.recipe.translated:
            return model(**inputs)
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
        outputs.loss = smoothed_loss(outputs.logits, inputs["labels"], self.recipe.model.smoothing)
        return outputs

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        if self.lr_scheduler is None and self.recipe.training.halve_at:
            steps = list(self.recipe.training.halve_at)
            halved = torch.optim.lr_scheduler.MultiStepLR(optimizer or self.create_optimizer(), steps, gamma=0.5)
            self.lr_scheduler = halved  # type: ignore[assignment]
        return super().create_scheduler(num_training_steps, optimizer)

    # Evaluation

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Score the dev part; every process does all of it, so that all decide alike."""
        with self._whole():
            score = self.dev_part.score(self.dev_part.quick_answers(self.own))
        metrics = {f"eval_{name}": value for name, value in score.curve().items()}
        if self.args.world_size > 1:  # unlike processors round unlike: the first one's figures count
            values = torch.tensor(list(metrics.values()), dtype=torch.float64, device=self.args.device)
            dist.broadcast(values, 0)
            metrics = dict(zip(metrics, values.tolist(), strict=True))
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """While it lasts, `own` has the weights of this step, on the device that trains."""
        if self.shared:
            nn.Module.to(self.own, self.args.device)
            gather(self.trained, self.own)
        yield
        if self.shared:
            self.own.cpu()

    # Checkpoints

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        step = self.state.global_step
        partial = checkpoints.saving_folder(self.folder, step)
        with self._whole(), written(self.folder):
            if self.args.should_save:
                checkpoints.sweep(self.folder, keep=set(checkpoints.checkpoints(self.folder)))
                partial.mkdir()
                save_weights(self.own, partial / WEIGHTS, _FROZEN)
                self.state.save_to_json(str(partial / _STATE))
                write_json(partial / _SPENT, {"seconds": self.seconds, "processes": self.args.world_size})
        self._together()
        with written(self.folder):
            self._save_optimizer_and_scheduler(str(partial))
            self._save_rng_state(str(partial))
        self._together()
        if self.args.should_save:
            with written(self.folder):
                final = checkpoints.appear(partial, self.folder, step)
            checkpoints.sweep(self.folder, keep={final, checkpoints.checkpoint(self.folder, self._best_step())})

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self.shared:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        assert self.optimizer is not None
        state = whole_state(self.optimizer)
        if self.args.should_save:
            torch.save(state, Path(output_dir) / OPTIMIZER_NAME)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)  # type: ignore[union-attr]

    def _best_step(self) -> int:
        return self.state.best_global_step or self.state.global_step

    def _together(self) -> None:
        if self.args.world_size > 1:
            dist.barrier()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        load_weights(self.own, Path(resume_from_checkpoint) / WEIGHTS, _FROZEN)
        if self.shared:
            scatter(self.own, self.trained)

    def load_best(self) -> int:
        """Bring back the weights of the best checkpoint; the step they are from."""
        self._together()
        self._load_from_checkpoint(str(checkpoints.checkpoint(self.folder, self._best_step())))
        return self._best_step()

    def load_last(self) -> None:
        """Bring back the weights of the last step."""
        self._together()
        load_weights(self.own, checkpoints.checkpoint(self.folder, self.state.global_step) / WEIGHTS, _FROZEN)

    def restore(self, folder: Path, *, best: bool) -> bool:
        """Take over the state of a checkpoint; whether training had ended with it.

        Args:
            folder: the checkpoint.
            best: whether the best one will be asked for too.

        Raises:
            InputError: it, or the best one so far, is damaged, or it is of another number of processes.
        """
        checkpoints.check(folder)
        self.state = TrainerState.load_from_json(str(folder / _STATE))
        chosen = checkpoints.checkpoint(self.folder, self._best_step())
        if best and chosen != folder:
            try:
                checkpoints.check(chosen)
            except InputError:
                raise InputError(
                    f"{chosen}, with the best model so far, is damaged; delete {self.folder.parent}, and train anew"
                ) from None
        told = json.loads((folder / _SPENT).read_text(encoding="utf-8"))
        self.spent = float(told["seconds"])
        if told["processes"] != self.args.world_size:
            raise InputError(f"{folder} is of {told['processes']} processes, not {self.args.world_size}; go on with as many")
        return self.state.global_step >= self.args.max_steps or _stale(self.state, self.recipe.training.patience)


def _weight(labels: Tensor) -> Tensor:
    """What a process's mean loss counts for: its examples, or its tagged words."""
    return torch.tensor(float(len(labels) if labels.dim() == 1 else (labels != IGNORED).sum()))


def steps_of(recipe: Recipe, epoch: int) -> tuple[int, int]:
    """(steps in all, steps between evaluations), given the steps of an epoch."""
    training = recipe.training
    return training.steps or training.epochs * epoch, training.evaluate_every or epoch


def _arguments(recipe: Recipe, epoch: int, folder: Path, tensorboard: Path | None) -> TrainingArguments:
    training = recipe.training
    steps, every = steps_of(recipe, epoch)
    if tensorboard is not None:
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(tensorboard)
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=training.batch,
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        logging_steps=max(1, min(50, every)),
        metric_for_best_model="score",
        greater_is_better=True,
        learning_rate=training.learning_rate,
        lr_scheduler_type=training.schedule,
        warmup_steps=training.warmup,
        max_grad_norm=training.clip,
        seed=training.seed,
        use_cpu=not torch.cuda.is_available(),
        ddp_find_unused_parameters=False,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=["tensorboard"] if tensorboard is not None else [],
    )


def _stale(state: TrainerState, patience: int) -> bool:
    """Whether the last `patience` evaluations brought nothing better; told from the log, so that a resumed run knows too."""
    scores = [entry["eval_score"] for entry in state.log_history if "eval_score" in entry]
    return bool(patience) and len(scores) - 1 - scores.index(max(scores)) >= patience if scores else False


class _Stops(TrainerCallback):
    """Evaluates and saves at the last step, and stops early when patience ends."""

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> TrainerControl:
        if state.global_step >= state.max_steps:
            control.should_evaluate = control.should_save = True
        return control

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> TrainerControl:
        if _stale(state, self.patience):
            control.should_training_stop = True
        return control


def curve(state: TrainerState) -> list[dict[str, Any]]:
    """The dev figures of every evaluation, by step."""
    kept = []
    for entry in json.loads(json.dumps(state.log_history)):
        if "eval_score" in entry:
            kept.append(
                {"step": entry["step"], **{k.removeprefix("eval_"): v for k, v in entry.items() if k.startswith("eval_")}}
            )
    return kept
