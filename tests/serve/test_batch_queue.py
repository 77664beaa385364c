"""The queue before the models: nothing lost, nothing mixed up, nobody harmed by others."""

import asyncio
import threading

import pytest

from mtsa.serve.batch_queue import BatchQueue, QueueFullError


class Model:
    """Answers with the question in capitals; can be held, and fails on "bad"."""

    def __init__(self):
        self.free = threading.Event()
        self.free.set()
        self.asked = []
        self.threads = set()

    def predict(self, inputs):
        assert self.free.wait(10)
        self.asked.append(list(inputs))
        self.threads.add(threading.get_ident())
        if "bad" in inputs:
            raise ValueError("bad question")
        return [item.upper() for item in inputs]

    def size(self, item):
        return len(item)


def run(work, waiting=100, batch=8, characters=1000):
    """Do async work with a line and a model."""

    async def whole():
        line, model = BatchQueue(max_size=waiting, max_batch_size=batch, max_batch_chars=characters), Model()
        try:
            return await work(line, model)
        finally:
            model.free.set()
            await line.close()

    return asyncio.run(whole())


async def held(line, model):
    """A request that keeps the worker busy until the model is set free."""
    model.free.clear()
    first = asyncio.create_task(line.predict(model, ["first"], 10))
    await asyncio.sleep(0.05)
    return first


def test_what_waits_is_answered_together_and_in_place():
    async def work(line, model):
        first = await held(line, model)
        rest = [asyncio.create_task(line.predict(model, [f"a{n}", f"b{n}"], 10)) for n in range(10)]
        await asyncio.sleep(0.05)
        model.free.set()
        assert await first == ["FIRST"]
        assert [await one for one in rest] == [[f"A{n}", f"B{n}"] for n in range(10)]
        assert [len(inputs) for inputs in model.asked] == [1, 8, 8, 4]
        assert len(model.threads) == 1

    run(work)


def test_models_take_turns_and_are_not_mixed():
    async def work(line, model):
        other = Model()
        first = await held(line, model)
        rest = [asyncio.create_task(line.predict(who, [name], 10)) for who, name in ((other, "x"), (model, "y"), (other, "z"))]
        await asyncio.sleep(0.05)
        model.free.set()
        assert [(await one)[0] for one in (first, *rest)] == ["FIRST", "X", "Y", "Z"]
        assert other.asked == [["x", "z"]]
        assert model.asked == [["first"], ["y"]]

    run(work)


def test_a_bad_question_harms_no_other():
    async def work(line, model):
        await held(line, model)
        rest = [asyncio.create_task(line.predict(model, [name], 10)) for name in ("a", "bad", "c")]
        await asyncio.sleep(0.05)
        model.free.set()
        found = await asyncio.gather(*rest, return_exceptions=True)
        assert found[0] == ["A"]
        assert found[2] == ["C"]
        assert isinstance(found[1], ValueError)

    run(work)


def test_other_work_is_done_by_itself_in_the_same_thread():
    async def work(line, model):
        first = await held(line, model)
        after = asyncio.create_task(line.predict(model, ["a"], 10))
        alone = asyncio.create_task(line.run(threading.get_ident, 10))
        last = asyncio.create_task(line.predict(model, ["b"], 10))
        await asyncio.sleep(0.05)
        model.free.set()
        assert [await first, await after, await last] == [["FIRST"], ["A"], ["B"]]
        assert {await alone} == model.threads

        def fails():
            raise KeyError("x")

        with pytest.raises(KeyError):
            await line.run(fails, 10)

    run(work)


def test_time_runs_out_and_nobody_works_for_what_was_given_up():
    async def work(line, model):
        first = await held(line, model)
        with pytest.raises(TimeoutError):
            await line.predict(model, ["late"], 0.05)
        model.free.set()
        assert await first == ["FIRST"]
        assert await line.predict(model, ["next"], 10) == ["NEXT"]
        assert model.asked == [["first"], ["next"]]

    run(work)


def test_a_full_queue_refuses_and_has_room_again():
    async def work(line, model):
        first = await held(line, model)
        waiting = asyncio.create_task(line.predict(model, ["a", "b", "c"], 10))
        await asyncio.sleep(0.05)
        with pytest.raises(QueueFullError):
            await line.predict(model, ["d"], 10)
        model.free.set()
        assert await first == ["FIRST"]
        assert await waiting == ["A", "B", "C"]
        assert await line.predict(model, ["d"], 10) == ["D"]

    run(work, waiting=3)


def test_a_large_request_is_answered_in_pieces():
    async def work(line, model):
        names = [f"n{place}" for place in range(20)]
        assert await line.predict(model, names, 10) == [name.upper() for name in names]
        assert [len(inputs) for inputs in model.asked] == [8, 8, 4]

    run(work)


def test_long_questions_are_answered_few_at_a_time():
    async def work(line, model):
        long = ["a" * 400] * 5 + ["b" * 3000]
        assert await line.predict(model, long, 10) == [text.upper() for text in long]
        assert [len(inputs) for inputs in model.asked] == [2, 2, 1, 1]

    run(work)


def test_another_model_does_not_wait_for_a_large_request():
    async def work(line, model):
        other, order = Model(), []
        first = await held(line, model)
        large = asyncio.create_task(line.predict(model, ["x"] * 40, 10))
        await asyncio.sleep(0.05)
        small = asyncio.create_task(line.predict(other, ["y"], 10))
        await asyncio.sleep(0.05)
        for name, task in (("large", large), ("small", small)):
            task.add_done_callback(lambda _, name=name: order.append(name))
        model.free.set()
        await asyncio.gather(first, large, small)
        assert order == ["small", "large"]

    run(work)


def test_a_request_that_was_given_up_is_worked_on_no_longer():
    async def work(line, model):
        first = await held(line, model)
        large = asyncio.create_task(line.predict(model, ["x"] * 80, 10))
        await asyncio.sleep(0.05)
        large.cancel()
        await asyncio.sleep(0.05)
        model.free.set()
        await first
        assert await line.predict(model, ["y"], 10) == ["Y"]
        assert model.asked == [["first"], ["y"]]

    run(work)


@pytest.mark.parametrize("error", [StopIteration, KeyError])
def test_a_model_that_breaks_ends_no_more_than_the_request(error):
    class Broken(Model):
        def predict(self, inputs):
            raise error("x")

    async def work(line, model):
        with pytest.raises((RuntimeError, KeyError)):
            await line.predict(Broken(), ["a"], 10)
        assert line.alive
        assert await line.predict(model, ["b"], 10) == ["B"]

    run(work)


def test_answers_that_are_too_few_are_noticed():
    class Short(Model):
        def predict(self, inputs):
            return super().predict(inputs)[: 1 if len(inputs) > 1 else None]

    async def work(line, model):
        assert await line.predict(Short(), ["a", "b"], 10) == ["A", "B"]  # each asked alone

    run(work)


def test_closing_answers_what_waits_and_refuses_the_rest():
    async def work(line, model):
        first = await held(line, model)
        waiting = asyncio.create_task(line.predict(model, ["a"], 10))
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(line.close())
        await asyncio.sleep(0.05)
        with pytest.raises(QueueFullError):
            await line.predict(model, ["b"], 10)
        model.free.set()
        await closing
        assert [await first, await waiting] == [["FIRST"], ["A"]]

    run(work)
