"""Settings for the whole suite: property tests draw the same examples each time, and none has a deadline."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Some virtual machines announce AMX and then refuse it, and torch's bfloat16 products end the process there. Read by oneDNN
# at its first product, so setting it here is early enough.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Triton's kernels run on CPU tensors, for backend="triton". Read by Triton when it is imported, which torch.compile does too.
os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile(
    "mtsa",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("mtsa")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """One small finished run of each task: predictors by task."""
    from tests.trained_models import train_every_task

    return train_every_task(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def bert_runs(tmp_path_factory):
    """Small models over a pretrained encoder: predictors by name."""
    from tests.tiny_bert import train_over_bert

    return train_over_bert(tmp_path_factory.mktemp("bert_runs"))


@pytest.fixture(scope="session")
def bert_taggers(tmp_path_factory):
    """Small taggers over a pretrained encoder: predictors by name."""
    from tests.tiny_bert import train_taggers

    return train_taggers(tmp_path_factory.mktemp("bert_taggers"))
