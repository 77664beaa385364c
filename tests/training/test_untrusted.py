"""A run folder from outside, its manifest made to match: refused in one sentence, before anything large is built."""

import json
import pickle
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtsa.errors import InputError
from mtsa.files import fingerprint
from mtsa.training.run_directory import MANIFEST, open_run


@pytest.fixture
def folder(runs, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(runs["classification"].run.folder, copy, ignore=shutil.ignore_patterns("checkpoints"))
    return copy


def sign(folder):
    """Make the manifest fit whatever is there now."""
    entries = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({name: fingerprint(folder / name) for name in entries}))


def change_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    sign(folder)


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    sign(folder)


def memory(name):
    """An entry of /proc/self/status in kilobytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def refused(folder, message):
    measured = sys.platform == "linux"
    if measured:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak of earlier tests
        before = memory("VmRSS")
    with pytest.raises(InputError, match=message) as caught:
        open_run(folder)
    assert "\n" not in str(caught.value)
    if measured:
        assert memory("VmHWM") - before < 100_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_peak_of_memory_is_that_since_the_last_reset():
    large = torch.ones(50_000_000)
    del large
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    assert memory("VmHWM") - before < 20_000
    torch.ones(50_000_000)
    assert memory("VmHWM") - before > 150_000


def test_as_it_is(folder):
    sign(folder)
    assert open_run(folder).labels == ["colour", "fruit"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden": 10**7}, "has shape"),
        ({"hidden": 10**12}, "hidden = 1e\\+12; it must be at most"),
        ({"hidden": -5}, "is not a valid model configuration|has shape|cannot be read"),
        ({"width": 10**8}, "has shape"),
        ({"encoder_options": {"head_dim": 10**6}}, "has shape"),
        ({"encoder": "stacked_mtsa", "encoder_options": {"layers": 10**9}}, "layers = 1e\\+09"),
        ({"encoder": "no such"}, "is not a valid model configuration|cannot be read"),
        ({"dropout": float("nan")}, "config.json"),
        ({"softmax_temperature": 0.0}, "the temperature is 0.0; it must be positive"),
        ({"softmax_temperature": -2.0}, "it must be positive"),
        ({"softmax_temperature": float("inf")}, "softmax_temperature = inf"),
        ({"softmax_temperature": "warm"}, "config.json is not a valid model configuration"),
        ({"auto_map": {"AutoModel": "evil.Model"}, "hidden": 9}, "has shape"),
        ({"pretrained": {"model_type": "bert", "num_hidden_layers": 10**6}}, "layers = 1e\\+06"),
        ({"words": [10**11, 0]}, "words = 1e\\+11"),
    ],
)
def test_configurations_that_do_not_fit(folder, values, message):
    change_config(folder, **values)
    refused(folder, message)


def test_weights_that_do_not_fit(folder):
    change_weights(folder, lambda weights: weights.update(extra=torch.zeros(3)))
    refused(folder, "model.safetensors contains extra")


def test_weights_that_are_missing(folder):
    largest = {}

    def remove(weights):
        name = max(weights, key=lambda key: weights[key].numel())
        largest[name] = weights.pop(name)

    change_weights(folder, remove)
    refused(folder, "does not contain")


def test_weights_of_another_type(folder):
    change_weights(folder, lambda weights: weights.update({name: value.long() for name, value in weights.items()}))
    refused(folder, "has dtype I64; weights must be floating-point numbers")


class Bomb:
    """Something that would leave a mark if it were unpickled."""

    def __reduce__(self):
        return (open, ("exploded", "w"))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "recipe.toml"])
def test_a_pickle_is_not_read(folder, name, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / name).write_bytes(pickle.dumps(Bomb()))
    sign(folder)
    with pytest.raises(InputError):
        open_run(folder)
    assert not (folder / "exploded").exists()


def test_a_pickle_beside_it_is_not_looked_at(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
    open_run(folder)
    assert not (folder / "exploded").exists()


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/b"])
def test_a_manifest_that_names_files_elsewhere(folder, name):
    entries = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(entries | {name: {}}))
    refused(folder, "not a valid manifest")


def test_a_complaint_of_transformers_is_put_on_one_line(runs, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(runs["translation"].run.folder, copy)
    change_config(copy, init_std=0)
    refused(copy, r"config\.json cannot be read \(Validation error for field 'init_std': TypeError")
