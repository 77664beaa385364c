"""Damaged run folders and requests; `python -m tests.robustness` makes many more."""

import pytest

from tests.robustness.models import fuzz_folder, fuzz_server

TASKS = ("classification", "pair", "tagging", "srl", "translation")


def test_all_tasks_are_fuzzed(runs):
    assert tuple(runs) == TASKS


@pytest.mark.parametrize("task", TASKS)
def test_damaged_run_folders_open_and_answer_or_are_refused(runs, task, tmp_path):
    found = fuzz_folder(task, runs[task].run.folder, tmp_path / "run", 40, seed=0)
    assert found["refused"] > 10  # the damage is real
    assert found["read"] > 0  # and the folder is whole again after each


def test_damaged_requests_are_answered_or_refused(runs):
    found = fuzz_server(runs, 200, seed=0)
    assert found["refused"] > 50
    assert found["read"] > 0
