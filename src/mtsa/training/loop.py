"""The training loop: batches, optimizer steps, evaluation, checkpoints and early stopping, in one process or several.

Every process has the same global batches, which depend on (seed, epoch) only, and trains on its part of each. The loss
of a step is the mean over the global batch, so that the result does not depend on the number of processes; only the auxiliary
losses (of a pretrained language model and of the predicate finder) are means over the tokens of each process. A run that was
stopped resumes from its last checkpoint with the same weights, optimizer state and random numbers.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mtsa.data.batching import sorted_batches
from mtsa.errors import InputError
from mtsa.files import write_json
from mtsa.tasks.base import Task
from mtsa.tasks.encoded import EncodedData

from . import checkpoints
from .distributed import any_process, full_optimizer_state, gather_weights, scatter_weights, shard, shard_loaded_state, world
from .epoch_batches import batches_of, count_batches
from .loop_state import LoopState, read_state
from .optimizer import lr_factor, make_optimizer
from .optimizer_state import load_optimizer, load_rng, save_optimizer, save_rng
from .precision import forward_dtype
from .recipe import Recipe, Training
from .signals import stop_requests
from .weight_files import load_weights, report_write_errors, save_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
_FROZEN = frozenset({"words.frozen"})  # never changes in training, so checkpoints do not contain it


def steps_per_epoch(part: EncodedData, training: Training) -> int:
    """Return the number of optimizer steps of an epoch."""
    return math.ceil(count_batches(part, training) / training.gradient_accumulation_steps)


def steps_of(training: Training, epoch: int) -> tuple[int, int]:
    """Return (total steps, steps between evaluations), given the steps of an epoch."""
    return training.max_steps or training.epochs * epoch, training.eval_steps or epoch


class TrainingLoop:
    """Trains one model with one recipe.

    Args:
        model: the model to train; `load_best` and `load_last` load weights into it.
        recipe: the settings.
        task: computes the loss.
        train: training examples.
        dev: dev examples; their score selects the best step.
        known: indices of words with a pretrained vector, for `vectors.lr_multiplier`.
        folder: checkpoint directory.
        class_weights: weight of the loss of each class, if any.
        tensorboard: TensorBoard directory, if any.
        stop_step: last step, if before the end of the learning-rate schedule.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: Recipe,
        task: Task,
        train: EncodedData,
        dev: EncodedData,
        *,
        known: Tensor,
        folder: Path,
        class_weights: Sequence[float] = (),
        tensorboard: Path | None = None,
        stop_step: int | None = None,
    ) -> None:
        training = recipe.training
        self.model, self.recipe, self.task, self.train_part, self.dev_part = model, recipe, task, train, dev
        self.folder, self.tensorboard = folder, tensorboard
        self.metric = training.metric if training.metric != Training().metric else ""  # by default the score of the task
        self.world = world()
        self.class_weights = torch.tensor(class_weights, device=self.world.device)
        self.state = LoopState(processes=self.world.size)
        self.epoch_steps = steps_per_epoch(train, training)
        self.max_steps, self.eval_steps = steps_of(training, self.epoch_steps)
        self.stop_step = self.max_steps if stop_step is None else min(stop_step, self.max_steps)
        self._started = time.perf_counter()
        self.dtype = forward_dtype(recipe, self.world.device)
        torch.manual_seed(training.seed + self.world.rank)
        nn.Module.to(model, self.world.device)
        self.sharded = training.distributed == "fsdp" and self.world.size > 1
        self.trained: nn.Module = shard(model, self.world.device, blocks=task.shard_blocks(recipe)) if self.sharded else model
        self.optimizer = make_optimizer(self.trained, recipe, known)
        self.base_rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.sharded:
            shard_loaded_state(self.optimizer)
        self.parallel: nn.Module = self.trained
        if self.world.size > 1 and not self.sharded:
            self.parallel = DistributedDataParallel(self.trained)
        if training.compile:
            self.parallel = torch.compile(self.parallel, dynamic=True)  # type: ignore[assignment]

    @property
    def seconds(self) -> float:
        """Training time so far, including that before the last checkpoint was resumed."""
        return self.state.seconds + time.perf_counter() - self._started

    @property
    def finished(self) -> bool:
        """Whether training is complete."""
        return self.state.step >= self.stop_step or self.state.stale(self.recipe.training.patience)

    def run(self, on_step: Callable[[int, str], None]) -> None:
        """Train to the end; `on_step` is called with the number of completed steps and the last dev metric.

        Raises:
            InputError: the loss is not finite, or a checkpoint cannot be written.
            KeyboardInterrupt: after SIGINT or SIGTERM; the last step is saved.
        """
        note = ""
        with stop_requests() as stop, self._writer() as write:
            for batches in self._steps():
                if self.finished:
                    return
                loss = self._step(batches)
                self.state.step += 1
                step = self.state.step
                on_step(step, note)
                write(step, {"train/loss": loss, "train/lr": self.optimizer.param_groups[0]["lr"]})
                stopping = any_process(stop.requested)
                due = step % self.eval_steps == 0 or step >= self.stop_step
                if due:
                    metrics = self.evaluate()
                    shown = self.metric or next((name for name in metrics if name not in ("step", "score", "loss")), None)
                    note = f"dev {shown} {metrics[shown]:.3f}" if shown else ""
                    write(step, {f"dev/{name}": value for name, value in metrics.items() if name != "step"})
                if due or stopping:
                    self.save()
                if stopping:
                    raise KeyboardInterrupt

    # Steps

    def _steps(self) -> Iterator[list[list[int]]]:
        """The batches of each optimizer step from the present one on, as lists of example indices."""
        epoch, done = divmod(self.state.step, self.epoch_steps)
        training = self.recipe.training
        for number in itertools.count(epoch):
            batches = batches_of(self.train_part, training, epoch=number)
            for step in itertools.count():
                group = list(itertools.islice(batches, training.gradient_accumulation_steps))
                if not group:
                    break
                if number > epoch or step >= done:
                    yield group

    def _step(self, batches: list[list[int]]) -> float:
        """One optimizer step on one batch, or on several whose gradients are accumulated; the loss of this process."""
        training, device = self.recipe.training, self.world.device
        shares = (self.train_part.collate(share) for batch in batches for share in self._shares(batch))
        inputs = [{name: value.to(device) for name, value in share.items()} for share in shares]
        if len(self.class_weights):
            weigh = self.task.sample_weights
            inputs = [{**given, "sample_weight": weigh(self.class_weights, given["labels"])} for given in inputs]
        weights = [self.task.loss_weight(given) for given in inputs]
        total = torch.tensor(float(sum(weights)), device=device)
        if self.world.size > 1:
            dist.all_reduce(total)
        total = torch.where(total > 0, total, 1.0)  # a batch may have no labelled token at all
        self.parallel.train()
        mean = 0.0
        for place, (given, weight) in enumerate(zip(inputs, weights, strict=True)):
            with self._gradients_synchronized(place == len(inputs) - 1):
                with torch.autocast(device.type, self.dtype, enabled=self.dtype != torch.float32):
                    loss = self.task.loss(self.recipe, self.parallel, given)
                if not torch.isfinite(loss):
                    raise InputError(
                        f"loss became {loss.item()} at step {self.state.step + 1}. "
                        f"Try a lower training.learning_rate (now {training.learning_rate:g})"
                    )
                if self.world.size > 1 or len(inputs) > 1:
                    # DDP and FSDP average the gradients of the processes, hence the factor `size`
                    loss = loss * (weight * self.world.size / total)
                loss.backward()
            mean += loss.item()
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * lr_factor(training, self.state.step, self.max_steps)
        if training.max_grad_norm:
            nn.utils.clip_grad_norm_(self.trained.parameters(), training.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return mean

    def _shares(self, batch: list[int]) -> list[list[int]]:
        """The examples of this process, in several calls of the model where long texts would need too much memory.

        With FSDP all processes must call the model equally often, so that a share is not divided.
        """
        share = batch[self.world.rank :: self.world.size]
        limit = self.recipe.training.batch_tokens
        if not limit or self.sharded or self.train_part.padded_size(share) <= 2 * limit:
            return [share]
        lengths = self.train_part.lengths
        parts = sorted_batches([lengths[index] for index in share], tokens=limit, most=len(share))
        return [[share[place] for place in part] for part in parts]

    def _gradients_synchronized(self, last: bool) -> contextlib.AbstractContextManager[None]:
        """With DDP, only the last of several accumulated batches exchanges gradients."""
        if last or not isinstance(self.parallel, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.parallel.no_sync()

    # Evaluation

    def evaluate(self) -> dict[str, float]:
        """Evaluate on the dev part and add the metrics to the curve. Every process evaluates all of it, with equal results."""
        with self._whole_model():
            self.model.eval()
            metrics = self.dev_part.score(self.dev_part.predict_fast(self.model)).scalars(self.metric)
        if self.world.size > 1:  # different processors round differently: the metrics of the first process count
            values = torch.tensor(list(metrics.values()), dtype=torch.float64, device=self.world.device)
            dist.broadcast(values, 0)
            metrics = dict(zip(metrics, values.tolist(), strict=True))
        if metrics["score"] > self.state.best_score:
            self.state.best_step = self.state.step
        self.state.curve.append({"step": self.state.step, **metrics})
        return metrics

    @contextlib.contextmanager
    def _whole_model(self) -> Iterator[None]:
        """Inside, `self.model` has the weights of this step."""
        if self.sharded:
            gather_weights(self.trained, self.model)
        yield

    # Checkpoints

    def save(self) -> None:
        """Write a checkpoint of this step, and delete all others except the best.

        Raises:
            InputError: the checkpoint cannot be written.
        """
        step, first = self.state.step, self.world.rank == 0
        partial = checkpoints.temporary_path(self.folder, step)
        state = full_optimizer_state(self.optimizer)  # called by all processes
        with self._whole_model(), report_write_errors(self.folder):
            if first:
                checkpoints.delete_except(self.folder, keep=set(checkpoints.list_checkpoints(self.folder)))
                partial.mkdir()
                save_weights(self.model, partial / WEIGHTS, _FROZEN)
                save_optimizer(state, partial / OPTIMIZER)
                write_json(partial / STATE, {**asdict(self.state), "seconds": self.seconds})
        self._barrier()
        with report_write_errors(self.folder):
            save_rng(partial / f"rng-{self.world.rank}.safetensors", self.world.device)
        self._barrier()
        if first:
            with report_write_errors(self.folder):
                final = checkpoints.finalize(partial, self.folder, step)
            checkpoints.delete_except(self.folder, keep={final, checkpoints.checkpoint_path(self.folder, self._best_step())})
        self._barrier()  # torchrun stops all processes when one exits: none may exit before the checkpoint is complete

    def restore(self, folder: Path, *, best: bool) -> None:
        """Resume from a checkpoint.

        Args:
            folder: the checkpoint.
            best: whether `load_best` will be called.

        Raises:
            InputError: the checkpoint or that of the best step is damaged, or was written by another version or a different
                number of processes.
        """
        checkpoints.verify(folder)
        self.state = read_state(folder / STATE)
        chosen = checkpoints.checkpoint_path(self.folder, self._best_step())
        if best and chosen != folder:
            try:
                checkpoints.verify(chosen)
            except InputError:
                raise InputError(
                    f"{chosen} (checkpoint of the best step) is damaged; delete {self.folder.parent} and train again"
                ) from None
        if self.state.processes != self.world.size:
            raise InputError(
                f"{folder} was written by {self.state.processes} processes; resume with the same number, not {self.world.size}"
            )
        self._load_weights(folder)
        self.optimizer.load_state_dict(load_optimizer(folder / OPTIMIZER))
        load_rng(folder / f"rng-{self.world.rank}.safetensors", self.world.device)

    def load_best(self) -> int:
        """Load the weights of the best step into the model and return the step."""
        self._barrier()
        self._load_weights(checkpoints.checkpoint_path(self.folder, self._best_step()))
        return self._best_step()

    def load_last(self) -> None:
        """Load the weights of the last step into the model."""
        self._barrier()
        self._load_weights(checkpoints.checkpoint_path(self.folder, self.state.step))

    def _load_weights(self, folder: Path) -> None:
        load_weights(self.model, folder / WEIGHTS, _FROZEN)
        if self.sharded:
            scatter_weights(self.model, self.trained)

    def _best_step(self) -> int:
        return self.state.best_step or self.state.step

    def _barrier(self) -> None:
        if self.world.size > 1:
            dist.barrier()

    @contextlib.contextmanager
    def _writer(self) -> Iterator[Callable[[int, dict[str, float]], None]]:
        """Writes scalars for TensorBoard, in the first process."""
        if self.tensorboard is None or self.world.rank:
            yield lambda step, values: None
            return
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(self.tensorboard)) as writer:

            def write(step: int, values: dict[str, float]) -> None:
                for name, value in values.items():
                    writer.add_scalar(name, value, step)

            yield write
