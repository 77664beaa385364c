"""The data of the examples: questions in six classes (`examples/data`), as padded tensors of word ids."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Questions(Dataset):
    """Word ids with 0 for padding, the attention mask (1 = token, 0 = padding), and the class of each question."""

    input_ids: Tensor  # [questions, words]
    attention_mask: Tensor  # [questions, words]
    labels: Tensor  # [questions]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.input_ids[index], "attention_mask": self.attention_mask[index], "labels": self.labels[index]}


def load_questions() -> tuple[Questions, Questions, int, int]:
    """Return the training set, the test set, the size of the vocabulary and the number of classes."""
    train, test = (_rows(DATA / f"questions-{part}.csv") for part in ("train", "test"))
    counts = Counter(word for words, _ in train for word in words)
    vocabulary = {word: number for number, (word, count) in enumerate(counts.most_common(), start=2) if count > 1}
    classes = sorted({label for _, label in train})
    return _encode(train, vocabulary, classes), _encode(test, vocabulary, classes), len(vocabulary) + 2, len(classes)


def _rows(path: Path) -> list[tuple[list[str], str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(re.findall(r"\w+|[^\w\s]", row["text"].lower()), row["label"]) for row in csv.DictReader(file)]


def _encode(rows: list[tuple[list[str], str]], vocabulary: dict[str, int], classes: list[str]) -> Questions:
    ids = [torch.tensor([vocabulary.get(word, 1) for word in words]) for words, _ in rows]  # 1: unknown word
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    return Questions(padded, (padded > 0).long(), torch.tensor([classes.index(label) for _, label in rows]))
