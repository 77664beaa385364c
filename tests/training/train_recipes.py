"""Train every recipe of a folder, under torchrun or not: `python -m tests.training.train_recipes FOLDER ddp INTO`."""

import dataclasses
import os
import sys
from pathlib import Path

from torch.distributed.tensor import DTensor

from mtsa.training import loop
from mtsa.training.recipe_files import load_recipe
from mtsa.training.run import run_recipe


def train_every(folder, spread, into):
    """Train, and see that weights are sharded where they should be, and nowhere else."""
    made, real = [], loop.shard
    loop.shard = lambda *given, **named: made.append(real(*given, **named)) or made[-1]
    try:
        _train_every(folder, spread, into)
    finally:
        loop.shard = real
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    assert len(made) == (len(list(folder.glob("*.toml"))) if spread == "fsdp" and several else 0)
    assert all(isinstance(value, DTensor) for model in made for value in model.parameters())


def _train_every(folder, spread, into):
    for path in sorted(folder.glob("*.toml")):
        recipe = load_recipe(str(path))
        recipe = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, distributed=spread))
        run_recipe(recipe, into / path.stem)


if __name__ == "__main__":
    train_every(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
