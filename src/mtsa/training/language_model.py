"""Pretraining of a small GPT on text, with dot-product or tensorized attention; `transformers` loads the result.

Notation: B batch, N tokens.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel, PreTrainedModel, PreTrainedTokenizerFast

from mtsa.errors import InputError
from mtsa.files import replacing, write_json
from mtsa.machine import environment_info
from mtsa.models.gpt import MtsaGPTConfig, MtsaGPTLMHeadModel
from mtsa.models.transformers_logging import silence_transformers
from mtsa.progress import progress

from . import checkpoints
from .distributed import any_process, full_optimizer_state, gather_weights, scatter_weights, shard, shard_loaded_state
from .language_model_data import END, UNKNOWN, token_rows, train_tokenizer
from .resume import is_main_process, lock_run_directory, read_state
from .run import set_threads
from .signals import StopRequest, stop_requests
from .weight_files import report_write_errors

_RECORD, _BEGUN = "record.json", "begun.json"
_CHECKPOINTS = "checkpoints"


_log = logging.getLogger(__name__)


ATTENTIONS = ("multihead", "mtsa")


@dataclass(frozen=True)
class Setting:
    """Model size and training schedule."""

    attention: str = "multihead"  # "mtsa": tensorized attention, in a model with as many parameters
    layers: int = 4
    width: int = 256
    heads: int = 4
    tokens: int = 8000  # vocabulary size
    length: int = 128  # tokens of a row
    batch: int = 32  # rows
    steps: int = 1000
    learning_rate: float = 1e-3
    warmup: int = 100
    seed: int = 0


def pretrain(
    texts: Sequence[str],
    out: Path,
    setting: Setting,
    *,
    save_every: int = 200,
    sharded: bool = False,
) -> float:
    """Train and save a language model, resuming from the last checkpoint if interrupted. Returns the dev loss.

    Args:
        texts: training texts; 5 % of them are used for the dev loss.
        out: output folder.
        setting: model size and schedule.
        save_every: steps between checkpoints.
        sharded: with several processes (torchrun), whether the weights are sharded (FSDP) instead of replicated.

    Raises:
        InputError: too little text, or the folder has other content.
    """
    silence_transformers()
    _init_processes(setting.batch)
    with lock_run_directory(out):
        return _pretrain(texts, out, setting, save_every=save_every, sharded=sharded)


def _pretrain(
    texts: Sequence[str],
    out: Path,
    setting: Setting,
    *,
    save_every: int,
    sharded: bool,
) -> float:
    is_main = is_main_process()
    digest = hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()
    identity = {"setting": asdict(setting), "sha256": digest}
    _check_directory(out, identity)
    shuffled = list(texts)
    random.Random(setting.seed).shuffle(shuffled)
    dev_size = max(1, len(shuffled) // 20)
    tokenizer = train_tokenizer(shuffled[dev_size:], setting.tokens)
    train, dev = (token_rows(tokenizer, part, setting.length) for part in (shuffled[dev_size:], shuffled[:dev_size]))
    if len(train) < setting.batch or not len(dev):
        rows = f"{len(train)} training and {len(dev)} dev sequences of {setting.length} tokens"
        raise InputError(f"{rows} are too few for batches of {setting.batch}; add text, or use a smaller --max-length")
    if dist.is_initialized():
        dist.barrier()  # all processes have checked the folder before anything is written
    if is_main:
        for partial in out.glob(".*.partial"):  # of a process that was killed while it wrote
            partial.unlink()
        write_json(out / _BEGUN, identity)
    torch.manual_seed(setting.seed)
    model = _model(setting, tokenizer)
    parameters = sum(value.numel() for value in model.parameters())
    if is_main:
        _log.info(
            f"{len(texts):,} texts, {train.numel():,} tokens, vocabulary {tokenizer.get_vocab_size():,}, "
            f"{parameters:,} parameters; {setting.steps:,} steps, batch size {setting.batch}, sequence length {setting.length}"
        )
    run = _PretrainingLoop(model, setting, train, out / _CHECKPOINTS, sharded=sharded)
    with progress("pretraining", setting.steps, unit="steps") as bar:
        run.train(lambda step, loss: bar.update(step, f"loss {loss:.2f}"), save_every)
    loss = _loss(model, dev, setting.batch)
    if not is_main:
        return loss
    with report_write_errors(out):
        _write(out, model, tokenizer, setting)
    record = {**environment_info(), **identity, "texts": len(texts), "tokens": train.numel(), "seconds": run.seconds}
    record |= {"parameters": parameters, "dev_tokens": dev[:, 1:].numel()}
    write_json(out / _RECORD, {**record, "dev_loss": loss, "dev_perplexity": math.exp(loss), "curve": run.curve})
    _remove_checkpoints(out)
    _log.info(f"dev loss {loss:.3f} (perplexity {math.exp(loss):.1f}) after {run.seconds:.0f} s: {out}")
    return loss


def _init_processes(batch: int) -> None:
    """Initialize the process group under torchrun.

    Raises:
        InputError: more processes than rows of a batch.
    """
    set_threads()
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > batch:
        raise InputError(f"--batch-size ({batch}) must be at least the number of processes ({processes})")
    if processes > 1 and not dist.is_initialized():
        dist.init_process_group("gloo")


class _PretrainingLoop:
    """The training loop, with atomic checkpoints."""

    def __init__(self, model: PreTrainedModel, setting: Setting, rows: Tensor, folder: Path, *, sharded: bool = False) -> None:
        self.model, self.setting, self.rows, self.folder = model, setting, rows, folder
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        self.sharded = sharded and self.world > 1
        self.trained: nn.Module = model
        if self.world > 1:
            self.trained = shard(model, torch.device("cpu")) if self.sharded else DistributedDataParallel(model)
        weights = self.trained.parameters()
        self.optimizer = torch.optim.AdamW(weights, lr=setting.learning_rate, weight_decay=0.01, fused=True)
        if self.sharded:
            shard_loaded_state(self.optimizer)
        self.step, self.seconds = 0, 0.0
        self.curve: list[dict[str, float]] = []

    def train(self, on_step: Callable[[int, float], None], save_every: int) -> None:
        self._restore()
        with stop_requests() as stop:
            self._train(on_step, save_every, stop)

    def _train(self, on_step: Callable[[int, float], None], save_every: int, request: StopRequest) -> None:
        begun, before = time.perf_counter(), self.seconds
        self.trained.train()
        while self.step < self.setting.steps:
            torch.manual_seed(self.setting.seed * 1_000_003 + self.step + self.rank * 7_919)  # dropout follows from the step
            loss = self._update()
            self.step += 1
            self.seconds = before + time.perf_counter() - begun
            on_step(self.step, loss)
            due = self.step % save_every == 0 or self.step == self.setting.steps
            if due:
                self.curve.append({"step": self.step, "loss": loss})
            stop = any_process(request.requested) and self.step < self.setting.steps
            if due or stop:
                self._save()
            if stop:
                raise KeyboardInterrupt

    def _update(self) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self.setting.learning_rate * _lr_factor(self.step, self.setting)
        batch = self._batch()
        share = batch[self.rank :: self.world]
        loss = _row_loss(self.trained, share) * (len(share) * self.world / len(batch))  # DDP averages the gradients
        if not torch.isfinite(loss):
            raise InputError(f"loss became {loss.item()} at step {self.step + 1}. Try a lower --learning-rate")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained.parameters(), 1.0)
        self.optimizer.step()
        mean = loss.detach() / self.world
        if self.world > 1:
            dist.all_reduce(mean)
        return mean.item()

    def _batch(self) -> Tensor:
        """The rows of this step, in an order that follows from (seed, epoch); incomplete batches are dropped."""
        size, each = self.setting.batch, len(self.rows) // self.setting.batch
        generator = torch.Generator().manual_seed(self.setting.seed * 1_000_003 + self.step // each)
        order = torch.randperm(len(self.rows), generator=generator)
        start = self.step % each * size
        return self.rows[order[start : start + size]]

    def _save(self) -> None:
        if self.sharded:
            gather_weights(self.trained, self.model)
        found = full_optimizer_state(self.optimizer)["state"]
        if self.rank == 0:
            with report_write_errors(self.folder):
                self._write(found)
        if self.world > 1:
            dist.barrier()

    def _write(self, found: dict[int, dict[str, Tensor]]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = checkpoints.temporary_path(self.folder, self.step)
        checkpoints.delete_except(
            self.folder, keep=set(checkpoints.list_checkpoints(self.folder))
        )  # incomplete checkpoints of a killed process
        partial.mkdir()
        state = {f"model.{name}": value for name, value in _body(self.model).state_dict().items()}
        for number, values in found.items():
            state |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
        save_file({name: value.contiguous() for name, value in state.items()}, partial / "state.safetensors")
        write_json(partial / "progress.json", {"seconds": self.seconds, "curve": self.curve})
        final = checkpoints.finalize(partial, self.folder, self.step)
        checkpoints.delete_except(self.folder, keep={final})

    def _restore(self) -> None:
        found = checkpoints.list_checkpoints(self.folder)
        if not found:
            return
        checkpoints.verify(found[-1])
        state = load_file(found[-1] / "state.safetensors")
        own = {name.removeprefix("model."): value for name, value in state.items() if name.startswith("model.")}
        _body(self.model).load_state_dict(own)
        if self.sharded:
            scatter_weights(self.model, self.trained)
        loaded: dict[int, dict[str, Tensor]] = {}
        for name, value in state.items():
            if name.startswith("optimizer."):
                _, number, key = name.split(".")
                loaded.setdefault(int(number), {})[key] = value
        self.optimizer.load_state_dict({"state": loaded, "param_groups": self.optimizer.state_dict()["param_groups"]})
        saved = json.loads((found[-1] / "progress.json").read_text(encoding="utf-8"))
        self.step, self.seconds, self.curve = checkpoints.step_of(found[-1]), saved["seconds"], saved["curve"]


def _lr_factor(step: int, setting: Setting) -> float:
    """Linear warm-up, then cosine decay to a tenth."""
    if step < setting.warmup:
        return (step + 1) / setting.warmup
    part = (step - setting.warmup) / max(1, setting.steps - setting.warmup)
    return 0.1 + 0.45 * (1.0 + math.cos(math.pi * min(1.0, part)))


def _row_loss(model: nn.Module, rows: Tensor) -> Tensor:
    logits = model(input_ids=rows).logits  # [B, N, tokens]
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def _loss(model: PreTrainedModel, rows: Tensor, batch: int) -> float:
    model.eval()
    parts = rows.split(batch)
    return sum(_row_loss(model, part).item() * len(part) for part in parts) / len(rows)


def _model(setting: Setting, tokenizer: Tokenizer) -> PreTrainedModel:
    sizes: dict[str, Any] = {
        "n_positions": setting.length,
        "n_embd": setting.width,
        "n_layer": setting.layers,
        "n_head": setting.heads,
    }
    sizes |= {"vocab_size": tokenizer.get_vocab_size()}
    if setting.attention == "mtsa":
        return MtsaGPTLMHeadModel(MtsaGPTConfig(**sizes, architectures=["MtsaGPTLMHeadModel"]))
    return OpenAIGPTLMHeadModel(OpenAIGPTConfig(**sizes, architectures=["OpenAIGPTLMHeadModel"]))


def _body(model: PreTrainedModel) -> nn.Module:
    """The model without its output layer, whose weights are those of the token embeddings."""
    return model.get_submodule("transformer")


def _write(out: Path, model: PreTrainedModel, tokenizer: Tokenizer, setting: Setting) -> None:
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        eos_token=END,
        pad_token=END,
        model_max_length=setting.length,
    )
    wrapped.save_pretrained(out)
    model.config.save_pretrained(out)
    with replacing(out / "model.safetensors") as partial:
        state = {f"transformer.{name}": value.contiguous() for name, value in _body(model).state_dict().items()}
        save_file(state, partial, {"format": "pt"})


def _remove_checkpoints(out: Path) -> None:
    """Remove the checkpoints of a finished model."""
    checkpoints.remove_all(out / _CHECKPOINTS)
    (out / _BEGUN).unlink(missing_ok=True)


def _check_directory(out: Path, identity: dict[str, Any]) -> None:
    """Check that the folder is new, or contains an unfinished run of the same text and settings.

    Raises:
        InputError: it contains something else.
    """
    begun = out / _BEGUN
    if (out / _RECORD).exists():
        if begun.exists():
            _remove_checkpoints(out)  # the process was killed before it removed them
        raise InputError(f"{out} contains a finished model; choose another folder with --out, or delete it")
    if begun.exists():
        if read_state(begun) != identity:
            raise InputError(
                f"{out} contains an unfinished model with other text or settings; choose another folder, or delete it"
            )
    elif out.exists() and any(not entry.name.endswith(".partial") for entry in out.iterdir()):
        raise InputError(f"{out} is not empty and contains no model; choose another folder with --out")
