"""Fixtures of the tests of the attention layer."""

import pytest
import torch


@pytest.fixture
def fresh_compiler():
    """Nothing of torch.compile from other tests, and nothing left for them."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()
