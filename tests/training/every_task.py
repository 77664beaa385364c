"""Train every recipe of a folder, under torchrun or not: `python -m tests.training.every_task FOLDER ddp INTO`."""

import dataclasses
import sys
from pathlib import Path

from mtsa.training.recipe_files import load_recipe
from mtsa.training.run import run_recipe
from tests.workbench import no_bar


def train_every(folder, spread, into):
    for path in sorted(folder.glob("*.toml")):
        recipe = load_recipe(str(path))
        recipe = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, spread=spread))
        run_recipe(recipe, into / path.stem, say=lambda line: None, progress=no_bar)


if __name__ == "__main__":
    train_every(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
