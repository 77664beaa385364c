"""Records of runs: what was run, on what data and machine, the dev curve, and one evaluation of each test part."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.training.recipe_files import make_recipe, to_toml

_NEEDED = {
    "table": str, "dataset": str, "model": str, "run": str, "settings": dict, "sources": dict, "seed": int, "versions": dict,
    "machine": dict, "time": str, "seconds": (int, float), "examples": dict, "dev_curve": list, "test": dict,
}  # fmt: skip
_REMEDY = "delete it to repeat the run"


def check_record(record: Any, path: Path) -> dict[str, Any]:
    """A record that can be used.

    Raises:
        InputError: something is missing, it is the record of another run, or it contains impossible values.
    """
    if not isinstance(record, dict):
        raise InputError(f"{path} is not a record of a run; {_REMEDY}")
    for key, kind in _NEEDED.items():
        if not isinstance(record.get(key), kind):  # type: ignore[arg-type]
            raise InputError(f'{path}: the record has no "{key}"; {_REMEDY}')
    if Path(record["dataset"]) / record["model"] / f"{record['run']}.json" != Path(*path.parts[-3:]):
        raise InputError(f"{path} is the record of {record['dataset']}/{record['model']}/{record['run']}; move it there")
    if not 0.0 <= record["seconds"] < math.inf or isinstance(record["seconds"], bool):
        raise InputError(f"{path}: seconds is {record['seconds']!r}; it must be a number of at least 0; {_REMEDY}")
    if not {"processor", "threads"} <= record["machine"].keys() or "torch" not in record["versions"]:
        raise InputError(f"{path}: the record does not name its machine or its version of torch; {_REMEDY}")
    for entry in record["dev_curve"]:
        if not isinstance(entry, dict) or any("test" in str(key) for key in entry):
            raise InputError(f"{path}: the dev curve contains {entry!r}, but must contain dev metrics only; {_REMEDY}")
    if not record["test"] and "dev_score" not in record:  # a record of screening has a dev score only
        raise InputError(f"{path}: the record has no test part; {_REMEDY}")
    for name, scores in record["test"].items():
        _check_scores(name, scores, path)
        if "unseen" in scores:
            _check_scores(f"{name}, unseen", scores["unseen"], path)
    return record


def main_metric(scores: Mapping[str, Any]) -> tuple[str, Any]:
    """Name and value of the main metric: BLEU of translations (as a fraction), F1 of roles, accuracy otherwise."""
    if "bleu" in scores:
        return "BLEU", scores["bleu"] / 100.0 if isinstance(scores["bleu"], float) else scores["bleu"]
    return ("F1", scores["f1"]) if "f1" in scores else ("accuracy", scores.get("accuracy"))


def _check_scores(part: str, scores: Any, path: Path) -> None:
    name, value = main_metric(scores) if isinstance(scores, dict) else ("accuracy", None)
    count = scores.get("count") if isinstance(scores, dict) else None
    if not isinstance(value, float) or not 0.0 <= value <= 1.0:
        raise InputError(f"{path}: {name} of {part} is {value!r}, but must be between 0 and 1; {_REMEDY}")
    if not isinstance(count, int) or count < 1:
        raise InputError(f"{path}: the count of {part} is {count!r}, but must be at least 1; {_REMEDY}")


def read_record(path: Path) -> dict[str, Any]:
    """One record, checked.

    Raises:
        InputError: as `check_record`, or a file that is not JSON.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON; {_REMEDY}") from None
    return check_record(value, path)


def read_records(folder: Path) -> list[dict[str, Any]]:
    """All records of a table, checked.

    Raises:
        InputError: as `read_record`.
    """
    return [read_record(path) for path in sorted(folder.glob("[!.]*/*/*.json"))]


def fill_defaults(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a record, with keys that were added to recipes since then at their defaults.

    Raises:
        InputError: settings that are not a recipe.
    """
    data_only = "training" not in settings  # of a simple baseline
    extra: dict[str, Any] = {key: settings[key] for key in ("folds", "candidates", "screened") if key in settings}
    given = {"data": settings["data"]} if data_only else {key: settings[key] for key in settings if key not in extra}
    table = tomllib.loads(to_toml(make_recipe(given, [], "the record")))
    return {**settings, "data": table["data"]} if data_only else {**table, **extra}


def check_alike(records: Sequence[Mapping[str, Any]]) -> None:
    """Check that the records of one cell have the same settings, but for the seed, and those of a data set the same files.

    Raises:
        InputError: two of them differ.
    """
    cells: dict[tuple[str, str], tuple[str, Any]] = {}
    files: dict[tuple[str, str], tuple[str, Any]] = {}
    for record in records:
        place = f"{record['dataset']}/{record['model']}/{record['run']}.json"
        settings = fill_defaults(record["settings"])
        settings = {key: value for key, value in settings.items() if key not in ("seed", "candidates")}
        if "training" in settings:
            settings["training"] = {key: value for key, value in settings["training"].items() if key != "seed"}
        what = (settings, record["sources"], None if record["run"].startswith("fold-") else record.get("chosen"))
        for name, source in record["sources"].items():
            before, known = files.setdefault((record["dataset"], name), (place, source))
            if source != known:
                raise InputError(f"{place} and {before} have different checksums of {name}; delete one of them")
        first, other = cells.setdefault((record["model"], record["dataset"]), (place, what))
        if what != other:
            raise InputError(f"{place} and {first} have different settings or files; delete one of them")


def circumstances_of(records: Sequence[Mapping[str, Any]]) -> str:
    """Return a line with the command, the number of runs, their total time and the machines, for the page of a table."""
    table = records[0]["table"]
    total = sum(record["seconds"] for record in records)
    threads = sorted({record["machine"]["threads"] for record in records})
    machines = ", ".join(sorted({record["machine"]["processor"] for record in records}))
    versions = ", ".join(sorted({record["versions"]["torch"] for record in records}))
    vectors = sorted({name for record in records for name in record["sources"] if "glove" in name})
    noun = "thread" if threads == [1] else "threads"
    return (
        f"{len(records)} run{'s' * (len(records) > 1)}, {total / 3600:.1f} hours in total, "
        f"{' or '.join(map(str, threads))} {noun} per run, some runs in parallel; {machines}; torch {versions}"
        + (f"; vectors {', '.join(vectors)}." if vectors else ".")
        + f" Command: `python -m reproduce table {table}`; records: `results/{table}`."
    )
