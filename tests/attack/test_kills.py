"""A few kills at each kind of work; `python -m tests.attack` makes many more."""

import pytest

from tests.attack.kills import WORKS, survive


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_kills_lose_nothing(work, tmp_path):
    found = survive(work(tmp_path), tmp_path / "tries", kills=4, seed=0)
    assert found["kills"] == 4
    assert found["ends"] >= 1
    assert found["different"] == found["lost"] == 0
