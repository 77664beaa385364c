"""Several threads: those that a call uses itself, and those of a user who calls from several at once."""

import contextlib
import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests import attention_cases as cases
from tests.nn.layers import FORMS, make_input, make_layer, results

NAMES = ("forward", "backward", "forward & distance(0.5)")


@contextlib.contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("pairwise", cases.PAIRWISE)
@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
@pytest.mark.parametrize("backend", ["native", "blocked"])
def test_the_number_of_threads_does_not_change_the_numbers(pairwise, dropout_p, backend):
    case = cases.make(NAMES, batch=3, queries=97, width=3, attention_mask=cases.holes(3, 97), score_activation=pairwise)
    found = []
    for count in (1, 2, 3):
        with threads(count):
            torch.manual_seed(3)
            found.append(case.run_with_grads(backend, dropout_p=dropout_p))
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, another, rtol=1e-5, atol=1e-6)


def test_a_call_leaves_the_number_of_threads_alone():
    for count in (1, 2, 3):
        with threads(count):
            cases.make(NAMES, batch=3, queries=97, width=3).run_with_grads("native")
            assert torch.get_num_threads() == count


def test_calls_from_several_threads_at_once_do_not_mix():
    problems = [cases.make(NAMES, batch=2, queries=61, width=3, seed=seed) for seed in range(6)]
    expected = [case.run_with_grads("native") for case in problems]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda case: case.run_with_grads("native"), problems * 3))
    for number, results_of_one in enumerate(found):
        for one, other in zip(results_of_one, expected[number % 6], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_layers_called_from_several_threads_at_once_do_not_mix(form):
    layer = make_layer(form)
    inputs = [make_input(batch=4, length=13, seed=seed) for seed in range(6)]

    def step(pair):
        x, keep = pair
        return results(layer, x, lambda x: layer(x, keep))

    expected = [step(pair) for pair in inputs]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(step, inputs * 3))
    for number, of_one in enumerate(found):
        for name, tensor in of_one.items():
            torch.testing.assert_close(tensor, expected[number % 6][name], rtol=1e-10, atol=1e-11)


def _after_fork(pipe, case):
    try:
        pipe.send(case.run("native").tolist())
    finally:
        pipe.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    case = cases.make(NAMES, batch=8, queries=97, width=16)
    with threads(2):
        expected = case.run("native")
        context = multiprocessing.get_context("fork")
        mine, theirs = context.Pipe()
        child = context.Process(target=_after_fork, args=(theirs, case), daemon=True)
        child.start()
        try:
            assert mine.poll(60), "the child does not answer"
            assert mine.recv() == expected.tolist()
        finally:
            child.kill()
