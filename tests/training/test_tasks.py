"""Tasks from outside: a name that is taken, a run of a task that is not registered here, an unknown name."""

from unittest.mock import patch

import pytest

import mtsa
from mtsa.errors import InputError
from mtsa.tasks import registry
from mtsa.tasks.registry import get_task, register, task_names
from mtsa.tasks.text import Classification
from tests.sample_data import sentences, write_csv
from tests.trained_models import QUICK


class Mine(Classification):
    name = "mine"


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match='task "classification" is already registered'):
        register(Classification)


def test_every_task_can_be_imported():
    for name in task_names():
        assert get_task(name).name == name


def test_an_unknown_task_is_answered_with_the_nearest():
    with pytest.raises(InputError, match=r'unknown task "tagger".*did you mean "tagging"'):
        get_task("tagger")


def test_a_run_of_a_task_is_opened_where_it_is_known(tmp_path):
    data = write_csv(tmp_path / "a.csv", sentences(60))
    with patch.dict(registry._tasks):
        register(Mine)
        mtsa.train(train=data, task="mine", out=tmp_path / "run", settings=QUICK)
        assert mtsa.load(tmp_path / "run").labels == ["colour", "fruit"]
    with pytest.raises(InputError, match='unknown task "mine"'):
        mtsa.load(tmp_path / "run")
