"""Small data sets, and recipes and settings that train on them within a second: texts, pairs, tags and translations."""

import json
import random

import torch

from mtsa.training.recipe_files import make_recipe

COLOURS = ("red", "green", "blue", "yellow")
FRUITS = ("apple", "pear", "plum", "cherry")
FILLERS = ("the", "a", "very", "old", "new", "quite", "rather", "small", "big", "there", "is", "was", "here", "now")


def sentences(count, seed=0):
    """(text, label) pairs whose label follows from one word among fillers."""
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
    """Write random word vectors in GloVe's layout."""
    rng = random.Random(1)
    path.write_text("".join(f"{word} {' '.join(f'{rng.uniform(-1, 1):.4f}' for _ in range(width))}\n" for word in words))
    return path


def small_recipe(train, encoder=None, **training):
    """A recipe of a narrow model and few steps."""
    options = {"batch_size": 16, "epochs": 2, "learning_rate": 0.01, "patience": 0, "weight_decay": 0.0, **training}
    table = {
        "data": {"train": str(train)},
        "vectors": {"dim": 6},
        "encoder": encoder or {"name": "mtsa", "head_dim": 5},
        "model": {"hidden": 7, "dropout": 0.1},
        "training": options,
    }
    return make_recipe(table, [])


# Pairs

PAIR_LABELS = {True: "same", False: "other"}


def pairs(count, seed=0):
    """A pair is of the same kind if both sides name a colour, or both a fruit."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        kinds = [rng.choice((COLOURS, FRUITS)) for _ in range(2)]
        sides = [" ".join(["the"] * rng.randint(0, 3) + [rng.choice(kind)] + ["there"] * rng.randint(0, 4)) for kind in kinds]
        found.append((*sides, PAIR_LABELS[kinds[0] is kinds[1]], f"p{number}"))
    return found


def write_pairs(path, rows):
    """Write pairs in the layout of SNLI."""
    keys = ("sentence1", "sentence2", "gold_label", "pairID")
    path.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    return path


def pair_recipe(train, task="pair", **training):
    options = {"batch_size": 16, "epochs": 8, "learning_rate": 0.01, "patience": 0, "weight_decay": 0.0, **training}
    table = {
        "task": task,
        "data": {"train": str(train)},
        "vectors": {"dim": 6},
        "encoder": {"name": "mtsa", "head_dim": 5},
        "model": {"hidden": 12, "dropout": 0.0, "highway": True},
        "training": options,
    }
    return make_recipe(table, [])


# Several labels per text

TOPICS = {"colour": COLOURS, "fruit": FRUITS, "size": ("tiny", "huge")}


def topics(count, seed=0):
    """(text, labels) pairs: each label follows from one word; a fifth of the texts has no label, and "size" is rare."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        labels = [label for label, share in zip(TOPICS, (0.5, 0.5, 0.1), strict=True) if number % 5 and rng.random() < share]
        words = [rng.choice(("the", "a", "is", "was", "here", "now")) for _ in range(rng.randint(2, 6))]
        for label in labels:
            words.insert(rng.randint(0, len(words)), rng.choice(TOPICS[label]))
        rows.append((" ".join(words), tuple(labels)))
    return rows


def write_topics(path, rows):
    """Write them with labels separated by "|"."""
    return write_csv(path, [(text, "|".join(labels)) for text, labels in rows])


TOPIC_MODEL = {
    "encoder.head_dim": 5, "vectors.dim": 12, "model.hidden": 16, "model.dropout": 0.0, "training.epochs": 15,
    "training.learning_rate": 1e-2, "training.patience": 0, "training.refit": False,
}  # fmt: skip


# Tagged sentences

PEOPLE, PLACES, OTHERS = ("Ada", "Bob", "Cleo"), ("Paris", "Rome", "Oslo"), ("saw", "the", "in", "now", "and", "old")
TAGGER = {
    "encoder.layers": 1, "encoder.width": 24, "encoder.heads": 2, "encoder.hidden": 32, "vectors.dim": 16,
    "tokens.min_freq": 1, "training.epochs": 12, "training.learning_rate": 1e-2, "training.warmup_steps": 5,
    "model.dropout": 0.0,
}  # fmt: skip


def tagged(path, count=160, seed=0):
    """Write sentences with people and places, in columns."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        for _ in range(rng.randint(2, 6)):
            kind = rng.choice(("PER", "LOC", "O", "O"))
            if kind == "O":
                lines.append(f"{rng.choice(OTHERS)} O")
            else:
                pool, second = (PEOPLE, "Smith") if kind == "PER" else (PLACES, "City")
                lines += [f"{rng.choice(pool)} B-{kind}", f"{second} I-{kind}"][: rng.randint(1, 2)]
        lines.append("")
    path.write_text("\n".join(lines))
    return path


# Parallel text

TRANSLATIONS = {
    "red": "rot",
    "green": "grün",
    "dog": "Hund",
    "cat": "Katze",
    "and": "und",
    "old": "alt",
    "house": "Haus",
    "tree": "Baum",
}
TRANSLATOR = {
    "tokens.vocab_size": 320, "translator.layers": 1, "translator.d_model": 32, "translator.heads": 2,
    "translator.ffn_dim": 64,
    "training.batch_tokens": 256, "training.epochs": 30, "training.warmup_steps": 20, "training.learning_rate": 1e-2,
    "model.dropout": 0.0, "translator.attention_dropout": 0.0, "training.eval_steps": 60, "training.patience": 0,
}  # fmt: skip


def parallel(folder, name, count, seed):
    """Write an English file and its word-by-word German translation; their paths."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 5, (count,), generator=generator).tolist()
    chosen = [torch.randint(8, (length,), generator=generator).tolist() for length in lengths]
    english = [[list(TRANSLATIONS)[place] for place in row] for row in chosen]
    (folder / f"{name}.en").write_text("".join(" ".join(row) + "\n" for row in english))
    (folder / f"{name}.de").write_text("".join(" ".join(TRANSLATIONS[word] for word in row) + "\n" for row in english))
    return [str(folder / f"{name}.{side}") for side in ("en", "de")]
