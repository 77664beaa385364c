"""training.precision = "auto": bfloat16 where it is faster, otherwise float32."""

import dataclasses

import pytest
import torch

from mtsa.training.precision import forward_dtype
from mtsa.training.recipe import Pretrained, Recipe, Training

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def recipe(precision, pretrained=""):
    return Recipe(training=Training(precision=precision), pretrained=Pretrained(model=pretrained))


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_named_precision_is_used_on_every_device(precision, device):
    assert forward_dtype(recipe(precision), device) == getattr(torch, precision)


@pytest.mark.parametrize("capability", ["avx512_bf16", "amx_bf16"])
def test_auto_on_a_processor_with_bfloat16(monkeypatch, capability):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {capability: True, "avx2": True})
    assert forward_dtype(recipe("auto", "minilm"), CPU) == torch.bfloat16
    assert forward_dtype(recipe("auto"), CPU) == torch.float32  # word-level models have small products


def test_auto_on_a_processor_without_bfloat16(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    assert forward_dtype(recipe("auto", "minilm"), CPU) == torch.float32


@pytest.mark.parametrize("supported", [True, False])
def test_auto_on_a_gpu(monkeypatch, supported):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or supported)
    expected = torch.bfloat16 if supported else torch.float32
    assert forward_dtype(recipe("auto"), GPU) == forward_dtype(recipe("auto", "minilm"), GPU) == expected


def test_the_default_is_float32():
    assert dataclasses.asdict(Recipe())["training"]["precision"] == "float32"
