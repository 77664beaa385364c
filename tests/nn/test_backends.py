"""The capability table: each backend does what it says, refuses the rest by name, and `auto` takes the right one."""

import itertools
import re

import pytest
import torch

import mtsa
from mtsa.nn import backends
from mtsa.nn.backends import BACKENDS, GRAPH, choose
from mtsa.nn.kernels import cpu
from mtsa.nn.spec import make_spec
from tests import attention_cases as cases

KINDS = {"logsigmoid": "logsigmoid", "identity": "identity", "callable": cases.soft_scale}
EVERY = list(itertools.product(BACKENDS, KINDS, (0.0, 0.3), (False, True)))


def spec(*, dtype=torch.float32, length=5, **options):
    tensors = cases.make(("full",) * 2, queries=length).to(dtype).tensors
    return make_spec(*tensors, **options)


def pick(asked, name="auto", *, device="cpu", length=5):
    return choose(asked, name, device=device, keys=length).backend.name


@pytest.fixture
def no_kernel(monkeypatch):
    monkeypatch.setattr(cpu, "_library", "not built: no C++ compiler was found at installation")
    monkeypatch.setattr(cpu, "_available", False)


@pytest.mark.parametrize(("name", "kind", "dropout_p", "needs_grad"), EVERY)
def test_a_backend_runs_or_refuses_as_its_row_says(name, kind, dropout_p, needs_grad):
    case = cases.make(("forward", "full"), queries=5, keys=7, score_activation=KINDS[kind])
    tensors = [tensor.clone().requires_grad_(needs_grad) for tensor in case.tensors]

    def call():
        return mtsa.tensorized_attention(*tensors, backend=name, dropout_p=dropout_p, **case.options)

    if kind in BACKENDS[name].score_activations:
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
    assert [name for name in BACKENDS if name != "triton"] == list(cases.BACKENDS)  # tests/nn/test_triton.py


@pytest.mark.parametrize(
    ("name", "options", "device", "words"),
    [
        ("native", {"score_activation": cases.soft_scale}, "cpu", "does not support a callable"),
        ("native", {"dtype": torch.float64}, "cpu", "does not support torch.float64"),
        ("native", {}, "cuda", "does not run on cuda"),
        ("blocked", {"score_activation": cases.soft_scale}, "cpu", "does not support a callable"),
    ],
)
def test_a_refusal_gives_the_reason(name, options, device, words):
    with pytest.raises(ValueError, match=words):
        choose(spec(**options), name, device=device, keys=5)


@pytest.mark.parametrize(("wrong", "near"), [("blokced", "blocked"), ("factord", "factored"), ("natve", "native")])
def test_an_unknown_backend_is_answered_with_the_nearest(wrong, near):
    with pytest.raises(ValueError, match=rf'unknown backend "{wrong}"; did you mean "{near}"\?'):
        choose(spec(), wrong, device="cpu", keys=5)


def test_a_backend_unlike_any_is_answered_with_all_names():
    with pytest.raises(ValueError, match="it must be one of auto, reference, factored, native, triton, blocked"):
        choose(spec(), "zzz", device="cpu", keys=5)


def test_the_old_name_of_the_blocked_backend_works_with_a_warning():
    case = cases.make(("forward", "full"), queries=5)
    with pytest.warns(
        DeprecationWarning, match='backend="tiled" is deprecated and will be removed in version 0.4; use "blocked"'
    ):
        out = case.run("tiled")
    assert torch.equal(out, case.run("blocked"))


@pytest.mark.parametrize("score_activation", cases.PAIRWISE)
@pytest.mark.parametrize("dropout_p", [0.0, 0.1])
def test_auto_on_a_cpu_takes_the_native_kernel(score_activation, dropout_p):
    for length in (1, 64, 4096):
        asked = spec(score_activation=score_activation, dropout_p=dropout_p)
        assert pick(asked, length=length) == "native"


@pytest.mark.usefixtures("no_kernel")
def test_auto_without_a_kernel_depends_on_the_length():
    assert pick(spec(), length=64) == "factored"
    assert pick(spec(), length=4096) == "blocked"
    with pytest.raises(ValueError, match=r'backend "native" is not available \(not built: no C\+\+ compiler'):
        pick(spec(), "native")
    case = cases.make(("forward", "backward"), queries=7)
    cases.assert_within_budget(case, case.run_with_grads("auto"), lucky=False)
    assert "not built" in mtsa.backend_table()


def test_auto_for_float64_and_other_devices_depends_on_the_length():
    for options, device in (({"dtype": torch.float64}, "cpu"), ({}, "cuda")):
        assert pick(spec(**options), device=device, length=64) == "factored"
        assert pick(spec(**options), device=device, length=4096) == "blocked"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_auto_takes_factored_for_a_user_defined_activation(device):
    assert pick(spec(score_activation=cases.soft_scale), device=device, length=4096) == "factored"


def test_auto_under_export_takes_the_form_that_chooses_in_the_graph(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    assert choose(spec(), "auto", device="cpu", keys=5).backend is GRAPH
    with pytest.raises(ValueError, match=r"dropout_p is not 0 during export; call model\.eval\(\)"):
        choose(spec(dropout_p=0.1), "auto", device="cpu", keys=5)
    with pytest.raises(ValueError, match='backend "factored" cannot be exported'):
        choose(spec(), "factored", device="cpu", keys=5)


def test_explain_backend_is_one_line_that_names_the_backend_and_the_reason():
    case = cases.make(("forward", "full"), queries=5)
    text = mtsa.explain_backend(*case.tensors, **case.options)
    assert text.startswith("native: ")
    assert "\n" not in text
    assert "memory" in text
    chosen = mtsa.explain_backend(*case.tensors, backend="factored", **case.options)
    assert chosen.startswith("factored: ")
    assert "requested" in chosen
    with pytest.raises(ValueError, match='did you mean "blocked"'):
        mtsa.explain_backend(*case.tensors, backend="block", **case.options)


def test_explain_backend_names_what_runs(monkeypatch):
    case = cases.make(("forward", "full"), queries=5)
    ran = []
    for name, backend in BACKENDS.items():

        def attend(*arguments, name=name, inner=backend.attend):
            ran.append(name)
            return inner(*arguments)

        monkeypatch.setitem(backends.BACKENDS, name, cases.replace(backend, attend=attend))
    monkeypatch.setattr(backends, "_NATIVE", cases.replace(backends._NATIVE, backend=BACKENDS["native"]))
    for name in ("auto", *BACKENDS):
        case.run(name)
        assert mtsa.explain_backend(*case.tensors, backend=name, **case.options).startswith(f"{ran[-1]}: ")


def test_the_table_as_text_has_a_row_for_each_backend():
    head, *rows = mtsa.backend_table().splitlines()
    assert head.split()[0] == "backend"
    assert [row.split()[0] for row in rows] == list(BACKENDS)
    assert all(line == line.rstrip() for line in (head, *rows))
    assert "instructions" in next(row for row in rows if row.startswith("native"))
