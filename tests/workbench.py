"""Small data and recipes for tests of the workbench."""

import contextlib
import logging
import random

from mtsa.training.recipe_files import make_recipe

COLOURS = ("red", "green", "blue", "yellow")
FRUITS = ("apple", "pear", "plum", "cherry")
FILLERS = ("the", "a", "very", "old", "new", "quite", "rather", "small", "big", "there", "is", "was", "here", "now")


def sentences(count, seed=0):
    """(text, label) pairs whose label is told by one word among fillers."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        label = rng.choice(("colour", "fruit"))
        words = [rng.choice(FILLERS) for _ in range(rng.randint(2, 9))]
        words.insert(rng.randint(0, len(words)), rng.choice(COLOURS if label == "colour" else FRUITS))
        rows.append((" ".join(words), label))
    return rows


def write_csv(path, rows, header="text,label"):
    path.write_text("\n".join([header, *(f"{text},{label}" for text, label in rows)]) + "\n")
    return path


def glove(path, width=6, words=(*COLOURS, *FRUITS, *FILLERS)):
    rng = random.Random(1)
    path.write_text("".join(f"{word} {' '.join(f'{rng.uniform(-1, 1):.4f}' for _ in range(width))}\n" for word in words))
    return path


def small_recipe(train, encoder=None, **training):
    """Minutes become a second: narrow and short."""
    options = {"batch_size": 16, "epochs": 2, "learning_rate": 0.01, "patience": 0, "weight_decay": 0.0, **training}
    table = {
        "data": {"train": str(train)},
        "vectors": {"dim": 6},
        "encoder": encoder or {"name": "mtsa", "head_dim": 5},
        "model": {"hidden": 7, "dropout": 0.1},
        "training": options,
    }
    return make_recipe(table, [])


@contextlib.contextmanager
def logged():
    """The messages that mtsa logs inside the block."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("mtsa")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
