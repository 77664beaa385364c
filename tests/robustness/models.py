"""Run folders and requests that somebody damaged: a model opens and answers, or there is one sentence."""

import json
import random
import shutil
from pathlib import Path

from starlette.testclient import TestClient

from mtsa.errors import InputError
from mtsa.files import fingerprint
from mtsa.inference.auto import open_predictor
from mtsa.serve.app import build_app
from mtsa.serve.limits import Limits
from mtsa.serve.served_model import ServedModel
from mtsa.training.run_directory import MANIFEST
from tests.robustness.inputs import damaged

FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "recipe.toml", "model.safetensors", MANIFEST)
TEXT = "the old red dog"


def question(task: str) -> dict[str, object]:
    """Something that a model of the task answers."""
    return {"text": TEXT} | ({"pair": "a pear"} if task == "pair" else {"predicate": 1} if task == "srl" else {})


def fuzz_folder(task: str, run: Path, folder: Path, count: int, seed: int) -> dict[str, int]:
    """Damage a file of a run folder, make the manifest match, open it and ask: as often as `count` says."""
    rng = random.Random(f"{task} {seed}")
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("checkpoints"))
    good = {name: (folder / name).read_bytes() for name in FILES}
    refused = 0
    for _ in range(count):
        name = rng.choice(FILES)
        (folder / name).write_bytes(damaged(good[name], rng))
        if name != MANIFEST:
            entries = {file: fingerprint(folder / file) for file in json.loads(good[MANIFEST])}
            (folder / MANIFEST).write_text(json.dumps(entries))
        try:
            open_predictor(folder).predict([(TEXT, "a pear")] if task == "pair" else [TEXT])
        except InputError as error:
            if "\n" in str(error).strip():
                raise ValueError(f"{name}: a refusal of several lines: {error}") from error
            refused += 1
        for restored in (name, MANIFEST):
            (folder / restored).write_bytes(good[restored])
    return {"tried": count, "refused": refused, "read": count - refused}


def fuzz_server(runs, count: int, seed: int) -> dict[str, int]:
    """Send damaged requests to a server with all the runs: an answer, or a status of 4xx with one sentence."""
    rng = random.Random(seed)
    refused = 0
    app = build_app({task: ServedModel(task, predictor) for task, predictor in runs.items()}, Limits())
    with TestClient(app, base_url="http://localhost") as client:
        for _ in range(count):
            task = rng.choice(list(runs))
            asked = {"inputs": [question(task)] * 2} if rng.random() < 0.5 else {"input": question(task)}
            body = damaged(json.dumps({"model": task, **asked}).encode(), rng)
            path = "/api/predict" if "inputs" in asked else "/api/explain"
            answer = client.post(path, content=body, headers={"content-type": "application/json"})
            if answer.status_code != 200:
                told = answer.json()
                assert 400 <= answer.status_code < 500, (answer.status_code, body, answer.text)
                assert list(told) == ["error"], (body, told)
                assert "\n" not in told["error"], (body, told)
                refused += 1
    return {"tried": count, "refused": refused, "read": count - refused}
