"""Problems drawn at random: lengths that differ, masks of any kind per head, padding anywhere, scores of any size."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from tests import attention_cases as cases
from tests.attention_cases import Case

QUERIES = (0, 1, 2, 3, 5, 7, 11, 13)
KEYS = (0, 1, 2, 3, 5, 7, 11, 13)


@st.composite
def keeps(draw: st.DrawFn, batch: int, keys: int) -> torch.Tensor | None:
    """No padding, or flags anywhere; sentences of nothing but padding included."""
    if draw(st.booleans()):
        return None
    flags = draw(st.lists(st.booleans(), min_size=batch * keys, max_size=batch * keys))
    return torch.tensor(flags, dtype=torch.bool).reshape(batch, keys)


@st.composite
def problems(draw: st.DrawFn, pairwise: tuple = cases.PAIRWISE, steep: tuple = (1.0, 10.0)) -> Case:
    batch, heads = draw(st.sampled_from((1, 2, 3))), draw(st.sampled_from((1, 2, 3)))
    keys = draw(st.sampled_from(KEYS))
    names = tuple(draw(st.sampled_from(cases.NAMES)) for _ in range(heads))
    how = draw(st.sampled_from(("list", "string", "tensor")))
    if how == "tensor":  # a bool tensor holds no bias
        names = tuple(name if "distance" not in name else "noself" for name in names)
    if how == "string" and heads > 1:
        names = (names[0],) * heads if draw(st.booleans()) else names
    return cases.make(
        names,
        batch=batch,
        queries=draw(st.sampled_from(QUERIES)),
        keys=keys,
        score=draw(st.sampled_from((1, 2, 5))),
        width=draw(st.sampled_from((1, 3, 7))),
        seed=draw(st.integers(0, 10_000)),
        steep=draw(st.sampled_from(steep)),
        values=draw(st.sampled_from((1.0, 100.0, 1e5))),
        attention_mask=draw(keeps(batch, keys)),
        score_activation=draw(st.sampled_from(pairwise)),
        scale=draw(st.sampled_from((None, 0.7))),
        how=how,
    )
