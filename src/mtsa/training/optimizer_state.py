"""Optimizer state and random number generators as safetensors files, so that resuming does not need pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file


def save_optimizer(state: dict[str, Any], path: Path) -> None:
    """Write the `state_dict` of an optimizer."""
    tensors = {
        f"{number}.{name}": value.detach().cpu().contiguous()
        for number, entry in state["state"].items()
        for name, value in entry.items()
    }
    save_file(tensors, path, {"param_groups": json.dumps(state["param_groups"])})


def load_optimizer(path: Path) -> dict[str, Any]:
    """Load a `state_dict` written by `save_optimizer`."""
    with safe_open(path, "pt") as file:
        groups = json.loads(file.metadata()["param_groups"])
    state: dict[int, dict[str, Any]] = {}
    for key, value in load_file(path).items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    for group in groups:
        group |= {name: tuple(value) for name, value in group.items() if name == "betas"}
    return {"state": state, "param_groups": groups}


def save_rng(path: Path, device: torch.device) -> None:
    """Write the state of torch's random number generators."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    save_file(states, path)


def load_rng(path: Path, device: torch.device) -> None:
    """Restore the state written by `save_rng`."""
    states = load_file(path)
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
