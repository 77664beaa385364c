"""Pretrain a tiny GPT without dropout, under torchrun or not: `python -m tests.training.pretrain_tiny OUT copies|shares`."""

import sys
from pathlib import Path

import torch

import mtsa.training.language_model as pretraining
from mtsa.training.language_model import Setting, pretrain
from tests.sample_data import sentences

SETTING = Setting(layers=2, width=16, tokens=300, length=16, batch=7, steps=12, learning_rate=1e-2, warmup=2)
_real = pretraining._model


def _without_dropout(*given):
    model = _real(*given)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def run(out, sharded, save_every=5):
    pretraining._model = _without_dropout
    try:
        texts = [text for text, _ in sentences(300)]
        return pretrain(texts, out, SETTING, save_every=save_every, sharded=sharded)
    finally:
        pretraining._model = _real


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2] == "shares")
