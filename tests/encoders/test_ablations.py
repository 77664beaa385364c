"""The ablated encoders: each is the whole layer with one part made even, and nothing else."""

import pytest
import torch

from mtsa.encoders import build_encoder
from tests.encoders.small_encoders import WIDTH, batch, made


def full_form(encoder, whole):
    """Give a whole layer the weights of an ablated one."""
    attention = whole.attention
    attention.value.load_state_dict(encoder.value.state_dict())
    attention.gate.load_state_dict(encoder.gate.state_dict())
    return attention


def test_without_token2token_the_pair_scores_are_all_alike():
    encoder, whole = made("mtsa_no_token2token", {"head_dim": 5}), made("mtsa", {"head_dim": 5})
    attention = full_form(encoder, whole)
    attention.source_hidden.load_state_dict(encoder.source_hidden.state_dict())
    attention.source_score.load_state_dict(encoder.source_score.state_dict())
    x, keep = batch(7, 4)
    assert not torch.allclose(encoder(x, keep), whole(x, keep), atol=1e-3)
    with torch.no_grad():
        attention.query.weight.zero_()
    torch.testing.assert_close(encoder(x, keep), whole(x, keep))


def test_without_source2token_every_token_of_a_pair_score_counts_alike():
    encoder, whole = made("mtsa_no_source2token", {"head_dim": 5}), made("mtsa", {"head_dim": 5})
    attention = full_form(encoder, whole)
    attention.query.load_state_dict(encoder.query.state_dict())
    attention.key.load_state_dict(encoder.key.state_dict())
    x, keep = batch(7, 4)
    assert not torch.allclose(encoder(x, keep), whole(x, keep), atol=1e-3)
    with torch.no_grad():
        attention.source_score.weight.zero_()
    torch.testing.assert_close(encoder(x, keep), whole(x, keep))


def test_without_masks_order_makes_no_difference():
    for name, same in (("mtsa_no_masks", True), ("mtsa", False)):
        encoder = made(name, {"head_dim": 5})
        x, keep = batch(7)
        turned = encoder(x.flip(1), keep).flip(1)
        assert torch.allclose(encoder(x, keep), turned, atol=1e-6) is same


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mtsa_no_token2token", {"head_dim": 0}, "head_dim"),
        ("mtsa_no_source2token", {"heads": 0}, "heads"),
        ("mtsa_no_source2token", {"heads": 3}, "must be even"),
        ("mtsa_none", {"width": -3}, "width"),
        ("mtsa_none", {"dropout": 1.5}, "dropout"),
    ],
)
def test_ablated_encoders_check_their_values(name, options, message):
    with pytest.raises(ValueError, match=message):
        build_encoder(name, WIDTH, **options)
