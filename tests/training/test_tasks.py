"""Tasks from outside: a name that is taken, a run of a task that nobody registered here, and the commands."""

import shutil
from unittest.mock import patch

import pytest

import mtsa
from mtsa.data.source import InputError
from mtsa.data.tasks import TASKS, Task
from mtsa.training import prepare
from mtsa.training.sentences import Sentences
from tests.runs import QUICK
from tests.workbench import sentences, write_csv


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match='task "pair" is there already'):
        prepare.register(Task("pair"), Sentences)
    assert TASKS["pair"].paired


def test_a_run_of_a_task_is_opened_where_it_is_known(tmp_path):
    data = write_csv(tmp_path / "a.csv", sentences(60))
    with patch.dict(TASKS), patch.dict(prepare._OWN):
        prepare.register(Task("mine"), Sentences)
        mtsa.train(train=data, task="mine", out=tmp_path / "run", settings=QUICK)
        assert mtsa.load(tmp_path / "run").labels == ["colour", "fruit"]
    with pytest.raises(InputError, match='task is "mine"'):
        mtsa.load(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
