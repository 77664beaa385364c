"""A few kills at each kind of work; `python -m tests.robustness` makes many more."""

import shutil
import time

import pytest

from tests.robustness.kills import WORKS, Work, gpt, survive, training

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_kills_lose_nothing(work, tmp_path):
    found = survive(work(tmp_path), tmp_path / "tries", kills=8, seed=0)
    assert found["kills"] == 8
    assert found["ends"] >= 1
    assert found["late"] >= (1 if work in (training, gpt) else 0)  # where there was something to lose
    assert found["different"] == found["lost"] == found["bytes"] == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("how", ["changed", "gone", "torn"])
def test_a_loss_is_counted(tmp_path, how):
    def run(own):
        checkpoint = own / "checkpoint-1"
        if checkpoint.exists() and how == "gone":
            shutil.rmtree(checkpoint)
        elif (checkpoint / "weights").exists() and how == "torn":
            (checkpoint / "weights").rename(checkpoint / "other")
        else:
            checkpoint.mkdir(exist_ok=True)
            (checkpoint / "weights").write_bytes(str(time.time()).encode().ljust(100))
        time.sleep(0 if own.name == "whole" else 1)

    found = survive(Work("careless", run, lambda own: False, lambda own: b"", 0.8), tmp_path, kills=6, seed=0)
    assert found["lost"] >= 1
    assert found["bytes"] == 100 * found["lost"]
