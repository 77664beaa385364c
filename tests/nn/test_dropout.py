"""The quick dropout: its rate, its mean, its gradient, and that it is off when it should be."""

import pytest
import torch

from mtsa.nn.dropout import dropout as drop


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.1, 0.35, 0.5, 0.9, 0.99])
def test_rate_and_mean(rate):
    torch.manual_seed(1)
    out = drop(torch.ones(1009, 991), rate, True)
    kept = out != 0
    assert (~kept).double().mean().item() == pytest.approx(rate, abs=0.003)
    assert kept.double().mean().item() == pytest.approx(1 - rate, abs=4 * (rate * (1 - rate) / 1e6) ** 0.5)
    assert out[kept].unique().tolist() == [pytest.approx(1 / (1 - rate))]
    assert out.double().mean().item() == pytest.approx(1.0, abs=0.04)


def test_neighbours_are_independent():
    torch.manual_seed(2)
    kept = (drop(torch.ones(400_000), 0.5, True) != 0).double().view(-1, 8)
    correlation = torch.corrcoef(kept.T)
    assert (correlation - torch.eye(8, dtype=torch.float64)).abs().max() < 0.02
    assert (kept.mean(0) - 0.5).abs().max() < 0.01


def test_the_gradient_passes_where_the_value_does():
    x = torch.ones(37, 5, requires_grad=True)
    out = drop(x, 0.4, True)
    out.sum().backward()
    torch.testing.assert_close(x.grad, out.detach())


def test_the_operator_of_compiled_graphs_passes_opcheck_and_drops_at_the_rate():
    x = torch.randn(37, 5, requires_grad=True)
    torch.library.opcheck(torch.ops.mtsa.dropout.default, (x, 0.4, torch.tensor(3)))
    compiled = torch.compile(lambda x: drop(x, 0.4, True), fullgraph=True, backend="aot_eager")
    torch.manual_seed(0)
    given = torch.ones(300, 300, requires_grad=True)
    first, second = compiled(given), compiled(given)
    assert not torch.equal(first, second)
    assert (first == 0).double().mean().item() == pytest.approx(0.4, abs=0.01)
    first.sum().backward()
    assert torch.equal(given.grad, first.detach())


def test_off_means_untouched():
    x = torch.randn(3, 2)
    assert drop(x, 0.5, False) is x
    assert drop(x, 0.0, True) is x
    assert drop(torch.zeros(0, 3), 0.5, True).shape == (0, 3)
    assert (drop(torch.ones(1000), 1.0, True) == 0).all()


def test_it_follows_the_seed():
    x = torch.ones(101)
    torch.manual_seed(5)
    first = drop(x, 0.5, True)
    second = drop(x, 0.5, True)
    torch.manual_seed(5)
    assert torch.equal(drop(x, 0.5, True), first)
    assert not torch.equal(first, second)
