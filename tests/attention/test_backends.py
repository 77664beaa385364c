"""The capability table: each backend does what it says, refuses the rest by name, and `auto` takes the right one."""

import itertools
import re

import pytest
import torch

import mtsa
from mtsa.attention.backends import BACKENDS, EXPORT, choose
from mtsa.attention.problem import state
from tests import cases

KINDS = {"logsigmoid": "logsigmoid", "identity": "identity", "callable": cases.soft_scale}
EVERY = list(itertools.product(BACKENDS, KINDS, (0.0, 0.3), (False, True)))


def problem(masks=None, *, pairwise="logsigmoid", dropout_p=0.0, dtype=torch.float32, keep=None, length=5):
    tensors = cases.make(("full",) * 2, queries=length).to(dtype).tensors
    return state(*tensors, masks=masks, keep=keep, pairwise=pairwise, scale=None, dropout_p=dropout_p)


def pick(asked, name="auto", *, device="cuda", length=5, needs_grad=True):
    return choose(asked, name, device=device, lengths=(length, length), needs_grad=needs_grad).backend.name


@pytest.mark.parametrize(("name", "kind", "dropout_p", "needs_grad"), EVERY)
def test_a_backend_runs_or_refuses_as_its_row_says(name, kind, dropout_p, needs_grad):
    row = BACKENDS[name]
    trains = "any" in row.gradient or "cpu" in row.gradient
    able = kind in row.pairwise and (row.dropout or dropout_p == 0) and (trains or not needs_grad)
    case = cases.make(("forward", "full"), queries=5, keys=7, pairwise=KINDS[kind])
    tensors = [tensor.clone().requires_grad_(needs_grad) for tensor in case.tensors]

    def call():
        return mtsa.tensorized_attention(*tensors, backend=name, dropout_p=dropout_p, **case.options)

    if able:
        out = call()
        assert out.shape == (2, 2, 5, 7)
        assert out.requires_grad == needs_grad
        return
    with pytest.raises(ValueError, match=f'backend "{name}" .*; use backend="auto", or one of') as error:
        call()
    others = re.search(r"or one of (.*)$", str(error.value))[1].split(", ")
    assert name not in others
    for other in others:  # what the message offers must work
        mtsa.tensorized_attention(*tensors, backend=other, dropout_p=dropout_p, **case.options)


def test_the_table_has_the_backends_of_the_tests():
    assert tuple(BACKENDS) == cases.BACKENDS


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("sdpa", {"pairwise": "logsigmoid"}, 'does not know pairwise="logsigmoid"'),
        ("sdpa", {"pairwise": cases.soft_scale}, "takes no callable as pairwise"),
        ("sdpa", {"pairwise": "identity", "dropout_p": 0.1}, "has no attention dropout in the numerator only"),
        ("flex", {}, "gives no gradients on cpu"),
    ],
)
def test_a_refusal_gives_the_reason(name, options, words):
    with pytest.raises(ValueError, match=words):
        choose(problem(**options), name, device="cpu", lengths=(5, 5), needs_grad=True)


def test_flex_refuses_other_devices():
    with pytest.raises(ValueError, match='backend "flex" does not run on mps; use backend="auto"'):
        choose(problem(), "flex", device="mps", lengths=(5, 5), needs_grad=False)


@pytest.mark.parametrize(("wrong", "near"), [("tilled", "tiled"), ("factord", "factored"), ("sdp", "sdpa")])
def test_an_unknown_backend_is_answered_with_the_nearest(wrong, near):
    with pytest.raises(ValueError, match=rf'backend "{wrong}" is unknown; did you mean "{near}"\?'):
        choose(problem(), wrong, device="cpu", lengths=(5, 5), needs_grad=False)


def test_a_backend_unlike_any_is_answered_with_all_names():
    with pytest.raises(ValueError, match="the names are auto, reference, factored, tiled, sdpa, flex"):
        choose(problem(), "zzz", device="cpu", lengths=(5, 5), needs_grad=False)


def test_auto_on_a_gpu_takes_the_fused_kernels():
    assert pick(problem(pairwise="identity")) == "sdpa"
    assert pick(problem()) == "flex"
    assert pick(problem("forward", pairwise="identity")) == "flex"
    keep = torch.ones(2, 5, dtype=torch.bool)
    assert pick(problem(pairwise="identity", keep=keep)) == "flex"
    assert pick(problem(dtype=torch.bfloat16)) == "flex"


def test_auto_on_a_gpu_leaves_dropout_and_float64_to_tiles():
    assert pick(problem(dropout_p=0.1)) == "tiled"
    assert pick(problem(pairwise="identity", dropout_p=0.1)) == "tiled"
    assert pick(problem(dtype=torch.float64)) == "tiled"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_auto_takes_the_plain_form_for_a_users_function_on_a_short_sequence(device):
    asked = problem(pairwise=cases.soft_scale)
    assert pick(asked, device=device, length=256) == "factored"
    assert pick(asked, device=device, length=257) == "tiled"


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
def test_auto_on_a_cpu_takes_tiles(pairwise):
    for length in (1, 64, 4096):
        assert pick(problem(pairwise=pairwise), device="cpu", length=length) == "tiled"


def test_auto_under_export_takes_the_form_that_chooses_in_the_graph(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    assert choose(problem(), "auto", device="cpu", lengths=(5, 5), needs_grad=False).backend is EXPORT
    with pytest.raises(ValueError, match=r"dropout_p is not 0 while exporting; call model\.eval\(\)"):
        choose(problem(dropout_p=0.1), "auto", device="cpu", lengths=(5, 5), needs_grad=False)


def test_explain_backend_is_one_line_that_names_the_backend_and_the_reason():
    case = cases.make(("forward", "full"), queries=5)
    text = mtsa.explain_backend(*case.tensors, **case.options)
    assert text.startswith("tiled: reuses its buffers")
    assert "\n" not in text
    assert "memory in training N + M" in text
    assert "numerator only" in mtsa.explain_backend(*case.tensors, dropout_p=0.1, **case.options)
    assert mtsa.explain_backend(*case.tensors, backend="factored", **case.options).startswith("factored: asked for by name")
    with pytest.raises(ValueError, match='did you mean "tiled"'):
        mtsa.explain_backend(*case.tensors, backend="tile", **case.options)


def test_the_table_as_text_has_a_row_for_each_backend():
    head, *rows = mtsa.backend_table().splitlines()
    assert head.split()[0] == "backend"
    assert [row.split()[0] for row in rows] == list(BACKENDS)
    assert all(line == line.rstrip() for line in (head, *rows))
    assert next(row for row in rows if row.startswith("sdpa")).count("identity") == 1
