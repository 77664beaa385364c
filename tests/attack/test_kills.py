"""A few kills at each kind of work; `python -m tests.attack` makes many more."""

import pytest

from tests.attack.kills import WORKS, gpt, survive, training


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_kills_lose_nothing(work, tmp_path):
    found = survive(work(tmp_path), tmp_path / "tries", kills=8, seed=0)
    assert found["kills"] == 8
    assert found["ends"] >= 1
    assert found["late"] >= (1 if work in (training, gpt) else 0)  # where there was something to lose
    assert found["different"] == found["lost"] == 0
