"""The pair model: one encoder for both sides, a head that compares, the same answers however a pair is given."""

import pytest
import torch

from mtsa.models.config import MtsaPairConfig
from mtsa.models.hub_models import MtsaForSequencePairClassification
from mtsa.models.length_groups import best_split, encode_in_groups, padded_size
from mtsa.models.pair import split


def made(**options):
    torch.manual_seed(1)
    sizes = {"words": (23, 0), "width": 7, "encoder_options": {"head_dim": 5}, "hidden": 11, "num_labels": 3}
    return MtsaForSequencePairClassification(MtsaPairConfig(**{**sizes, **options})).eval()


def rows(*lengths, seed=3):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.zeros(len(lengths), max(*lengths, 1), dtype=torch.long)
    for number, length in enumerate(lengths):
        ids[number, :length] = torch.randint(2, 23, (length,), generator=generator)
    return ids


@pytest.mark.parametrize("highway", [False, True])
def test_the_head_is_that_of_the_paper(highway):
    model = made(highway=highway)
    first, second = rows(6, 2, 4), rows(3, 5, 1, seed=5)
    p, h = (model.sentences(ids, ids.ne(0)).vectors for ids in (first, second))
    x = torch.relu(model.head.hidden.linear(torch.cat([p, h, p - h, p * h], -1)))
    if highway:
        g = torch.sigmoid(model.head.highway.gate.linear(x))
        x = g * torch.relu(model.head.highway.map.linear(x)) + (1 - g) * x
    expected = model.head.classes.linear(x)
    torch.testing.assert_close(model(first, pair_ids=second).logits, expected)


def test_parameters_of_the_papers_head():
    for highway, count in ((True, 720_300 + 180_600 + 903), (False, 720_300 + 903)):
        head = made(width=300, encoder_options={}, hidden=300, highway=highway).head
        assert sum(value.numel() for value in head.parameters()) == count


def test_a_pair_in_one_row_is_the_pair_in_two():
    model = made()
    first, second = rows(6, 2, 4), rows(3, 5, 1, seed=5)
    both = torch.zeros(3, 9, dtype=torch.long)
    types, mask = torch.zeros(3, 9, dtype=torch.long), torch.zeros(3, 9, dtype=torch.long)
    for number in range(3):
        a, b = first[number][first[number] > 0], second[number][second[number] > 0]
        both[number, : len(a) + len(b)] = torch.cat([a, b])
        types[number, len(a) : len(a) + len(b)] = 1
        mask[number, : len(a) + len(b)] = 1
    parts = split(both, mask.bool(), types)
    assert torch.equal(parts[0] * parts[1], first)
    assert torch.equal(parts[2] * parts[3], second)
    together = model(both, attention_mask=mask, token_type_ids=types).logits
    torch.testing.assert_close(together, model(first, pair_ids=second).logits)
    with pytest.raises(ValueError, match="needs pair_ids, or token_type_ids"):
        model(both)
    with pytest.raises(ValueError, match="needs a second text"):
        model(both, attention_mask=mask, token_type_ids=types * torch.tensor([[1], [0], [1]]))


def test_an_empty_side_is_answered_and_swapping_sides_matters():
    model = made()
    first, second = rows(6, 2), rows(0, 4, seed=5)
    out = model(first, pair_ids=second).logits
    assert out.isfinite().all()
    assert not torch.allclose(out, model(second, pair_ids=first).logits)


def test_batches_and_padding_make_no_difference():
    model = made()
    first, second = rows(31, 2, 4, 17), rows(3, 5, 1, 9, seed=5)
    together = model(first, pair_ids=second).logits
    for number in range(4):
        alone = model(first[number : number + 1], pair_ids=second[number : number + 1]).logits
        torch.testing.assert_close(together[number : number + 1], alone, rtol=0, atol=2e-6)


def test_groups_cost_the_fewest_places_and_change_nothing():
    lengths = [2, 2, 3, 3, 3, 9, 9, 10]
    assert best_split(lengths) == 5
    assert padded_size(lengths) == 5 * 3 + 3 * 10
    assert best_split([7, 7, 7]) == 0
    assert padded_size([7, 7, 7]) == 21
    assert best_split([5]) == 0
    ids = rows(9, 2, 3, 10, 3)
    calls = []

    def encode(part, keep):
        calls.append(tuple(part.shape))
        return (part * keep).sum(1, keepdim=True)

    out = encode_in_groups(encode, ids, ids.ne(0))
    assert sorted(calls) == [(2, 10), (3, 3)]
    assert torch.equal(out[:, 0], ids.sum(1))


def test_numbers_come_back_on_their_own_scale():
    model = made(num_labels=1, target=(3.0, 2.0))
    first, second = rows(6, 2), rows(3, 4, seed=5)
    out = model(first, pair_ids=second, labels=torch.tensor([1.0, 5.0], dtype=torch.float64))
    raw = (out.logits[:, 0] - 3.0) / 2.0
    torch.testing.assert_close(out.loss, ((raw - torch.tensor([-1.0, 1.0])) ** 2).mean())
