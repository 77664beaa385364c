"""torch.export: one graph for every batch size and length, numerically as safe as the rest."""

import pytest
import torch
from torch import nn
from torch.export import Dim, export

import mtsa
from tests import attention_cases as cases
from tests.nn.layers import FORMS, make_input, make_layer

SIZES = [(2, 2), (1, 5), (3, 11), (5, 13), (2, 131)]


class Attention(nn.Module):
    """The function as a module, as `export` wants it."""

    def __init__(self, masks, pairwise, scale=None):
        super().__init__()
        self.masks, self.pairwise, self.scale = masks, pairwise, scale

    def forward(self, q, k, v, s, keep):
        return mtsa.tensorized_attention(
            q, k, v, s, masks=self.masks, attention_mask=keep, score_activation=self.pairwise, scale=self.scale
        )


def export_attention(module, case):
    batch, queries, keys = Dim("batch"), Dim("queries"), Dim("keys")
    by_key = {0: batch, 2: keys}
    shapes = ({0: batch, 2: queries}, by_key, by_key, by_key, {0: batch, 1: keys})
    return export(module, (*case.tensors, case.attention_mask), dynamic_shapes=shapes).module()


@torch.no_grad()
def export_layer(layer, x, keep):
    batch, length = Dim("batch"), Dim("length")
    shapes = ({0: batch, 1: length}, {0: batch, 1: length})
    return export(layer, (x, keep), dynamic_shapes=shapes).module()


@pytest.mark.parametrize(
    ("pairwise", "names"),
    [
        ("logsigmoid", ("forward", "backward", "full")),
        ("identity", ("window(2)", "forward & distance(0.5)", "noself")),
        (cases.soft_scale, ("forward", "full")),
    ],
)
def test_an_exported_function_is_within_budget_at_other_sizes(pairwise, names):
    traced = cases.make(names, batch=2, queries=7, keys=11, attention_mask=cases.holes(2, 11), score_activation=pairwise)
    exported = export_attention(Attention(traced.masks, pairwise), traced)
    for batch, length in SIZES:
        keep = cases.holes(batch, length + 1)
        case = cases.make(names, batch=batch, queries=length, keys=length + 1, attention_mask=keep, score_activation=pairwise)
        cases.assert_within_budget(case, (exported(*case.tensors, keep),))


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
def test_an_exported_function_survives_opposed_gaps_and_forbidden_maxima(pairwise):
    names = ("full", "forward")
    traced = cases.make(
        names, queries=7, keys=11, score=1, width=3, attention_mask=cases.holes(2, 11), score_activation=pairwise
    )
    exported = export_attention(Attention("full, forward", pairwise, 1.0), traced)
    for length in (3, 5, 13):
        keep = torch.ones(2, length, dtype=torch.bool)
        case = cases.make(names, queries=length, score=1, width=3, attention_mask=keep, score_activation=pairwise, scale=1.0)
        q, k, _, s = torch.ones_like(case.tensors[0]), *(torch.zeros_like(t) for t in case.tensors[1:])
        k[:, :, 0], s[:, :, 0] = -240.0, 120.0
        s[:, 1, -1] = 1e4  # forbidden to every query of the forward head
        case = cases.replace(case, tensors=(q, k, case.tensors[2], s))
        out = exported(*case.tensors, keep)
        cases.assert_within_budget(case, (out,))
        assert (out[:, 0] != 0).all()
        assert (out[:, 1, 1:] != 0).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "variant",
    [
        "default",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("elu", "identity scores", "wide heads", "biased mask")),
    ],
)
def test_an_exported_layer_gives_the_same_at_other_sizes(form, variant):
    layer = make_layer(form, variant).eval()
    exported = export_layer(layer, *make_input(batch=3, length=7))
    for batch, length in SIZES:
        x, keep = make_input(batch, length)
        torch.testing.assert_close(exported(x, keep), layer(x, keep), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_an_exported_layer_works_for_one_token(form):
    layer = make_layer(form).eval()
    exported = export_layer(layer, *make_input(batch=3, length=7))
    x, keep = make_input(batch=1, length=1)
    torch.testing.assert_close(exported(x, keep), layer(x, keep), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_an_exported_graph_chooses_by_itself(form):
    """Every choice that depends on numbers is in the graph; none was made for good while it was traced."""
    graph = export_layer(make_layer(form).eval(), *make_input()).graph
    called = [str(node.target) for node in graph.nodes]
    assert called.count("cond") == 1
    assert not any(part in name for name in called for part in ("nonzero", "aten.item", "scalar_dense"))


def test_an_exported_pooling_gives_the_same_at_other_sizes():
    torch.manual_seed(0)
    pool = mtsa.Source2Token(14).double().eval()
    exported = export_layer(pool, *make_input(batch=3, length=7))
    for batch, length in SIZES:
        x, keep = make_input(batch, length)
        torch.testing.assert_close(exported(x, keep), pool(x, keep), rtol=1e-11, atol=1e-12)


def test_export_with_attention_dropout_says_to_call_eval():
    layer = make_layer("paper", dropout=(0.0, 0.3)).train()
    with pytest.raises(Exception, match=r"call model\.eval\(\) before torch\.export"):
        export_layer(layer, *make_input())
