"""Training with several processes: the process group, and weights sharded over the processes (FSDP2).

A plain copy of a sharded model is kept for evaluation and for files; `gather` and `scatter` copy weights between the two. All
functions that move weights must be called by all processes together.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


@dataclass(frozen=True)
class World:
    """The process group of a run: size and rank."""

    rank: int
    size: int
    device: torch.device


def world() -> World:
    """Return the processes started by torchrun, or a single one; initializes the process group on the first call."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if size > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if cuda else "gloo")
    return World(int(os.environ.get("RANK", "0")), size, device)


def any_process(flag: bool) -> bool:
    """Return whether a flag is set in any process; must be called by all processes."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return flag
    found = torch.tensor(float(flag), device=world().device)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return bool(found)


def end_process_group() -> None:
    """Destroy the process group, if there is one."""
    if dist.is_initialized():
        dist.barrier()  # gloo may abort a process whose peer has left
        dist.destroy_process_group()


def shard(model: nn.Module, device: torch.device, *, blocks: bool = True) -> nn.Module:
    """Return a copy of a model with its weights sharded over all processes (FSDP2).

    Args:
        model: the model; it is not changed.
        device: device of the shards.
        blocks: whether blocks are sharded one by one. Each is then gathered whenever it is called, so all processes must call
            it equally often: not for models where that depends on the lengths of a process's own sentences.
    """
    sharded = copy.deepcopy(model)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    stacks = [module for module in sharded.modules() if isinstance(module, nn.ModuleList)] if blocks else []
    for block in (block for stack in reversed(stacks) for block in stack):
        if any(True for _ in block.parameters()):
            fully_shard(block, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    return sharded


@torch.no_grad()
def gather_weights(model: nn.Module, plain: nn.Module) -> None:
    """Copy the weights of a sharded model into the plain one."""
    parameters = dict(plain.named_parameters())
    for name, value in model.named_parameters():
        parameters[name].copy_(full_tensor(value.detach()))


@torch.no_grad()
def scatter_weights(plain: nn.Module, model: nn.Module) -> None:
    """Copy the weights of the plain model into the sharded one, each process its shard."""
    parameters = dict(plain.named_parameters())
    for name, value in model.named_parameters():
        value.copy_(local_shard(parameters[name].detach(), value))


def full_tensor(value: Any) -> Any:
    """Return a distributed tensor as a full tensor; anything else unchanged."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def local_shard(value: Tensor, like: Tensor) -> Tensor:
    """Return a full tensor, sharded like another tensor."""
    if not isinstance(like, DTensor) or value.shape != like.shape:
        return value
    there = value.to(like.device_mesh.device_type)
    return distribute_tensor(there, like.device_mesh, like.placements, src_data_rank=None)


def full_optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the state of an optimizer, with full tensors."""
    state = optimizer.state_dict()
    kept = {number: {name: full_tensor(value) for name, value in values.items()} for number, values in state["state"].items()}
    return {**state, "state": kept}


def shard_loaded_state(optimizer: torch.optim.Optimizer) -> None:
    """Register a hook that shards the state loaded into an optimizer over sharded weights."""

    def cut(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        values = [value for group in optimizer.param_groups for value in group["params"]]
        kept = {
            number: {
                name: local_shard(entry, values[number]) if isinstance(entry, Tensor) else entry for name, entry in own.items()
            }
            for number, own in state["state"].items()
        }
        return {**state, "state": kept}

    optimizer.register_load_state_dict_pre_hook(cut)


def local_rows(matrix: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the local shard of a matrix, and the local indices of those of some rows that it contains."""
    if not isinstance(matrix, DTensor):
        return matrix, rows
    local = matrix.to_local()
    (placement,) = matrix.placements
    assert placement == Shard(0)
    each = -(-matrix.shape[0] // matrix.device_mesh.size())  # rows per process; the last processes may have fewer
    start = each * matrix.device_mesh.get_local_rank()
    return local, rows[(rows >= start) & (rows < start + local.shape[0])] - start
