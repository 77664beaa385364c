"""What a recipe sets reaches the training loop: optimizer, schedule, clipping, precision, batches of each epoch."""

import dataclasses

import pytest
import torch
from transformers import get_scheduler

from mtsa.errors import InputError
from mtsa.tasks.registry import get_task
from mtsa.tasks.text_data import TextData
from mtsa.training.epoch_batches import batches_of
from mtsa.training.loop import TrainingLoop
from mtsa.training.optimizer import lr_factor, make_optimizer
from mtsa.training.prepare import prepare
from mtsa.training.recipe import Training, Vectors
from mtsa.training.split import read_split
from tests.sample_data import COLOURS, glove, small_recipe


def make_loop(data, folder, vectors=None, dropout=0.1, **training):
    folder.mkdir(exist_ok=True)
    recipe = small_recipe(data, **training)
    recipe = dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, dropout=dropout))
    if vectors:
        recipe = dataclasses.replace(recipe, vectors=Vectors(**vectors))
    prepared = prepare(recipe, read_split(recipe))
    parts = prepared.parts
    return TrainingLoop(
        prepared.model(),
        recipe,
        get_task(recipe.task),
        parts["train"],
        parts["dev"],
        known=prepared.inputs.known,
        folder=folder,
    )


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("adadelta", torch.optim.Adadelta, {"rho": 0.95, "eps": 1e-8}),
        ("adam", torch.optim.Adam, {"betas": (0.9, 0.999), "eps": 1e-8}),
        ("adamw", torch.optim.AdamW, {"betas": (0.9, 0.999), "eps": 1e-8}),
    ],
)
def test_optimizers_are_the_authors(name, kind, options, labelled_csv):
    recipe = small_recipe(labelled_csv, optimizer=name, learning_rate=0.25)
    made = make_optimizer(prepare(recipe, read_split(recipe)).model(), recipe)
    assert type(made) is kind
    for group in made.param_groups:
        assert group["lr"] == 0.25
        assert {key: group[key] for key in options} == options


@pytest.mark.parametrize("rate", [0.0, 0.1, 1.0])
def test_words_of_the_file_make_a_part_of_each_step_and_others_all_of_it(rate, labelled_csv, tmp_path):
    file = glove(tmp_path / "glove.txt", words=COLOURS)  # the fruits and the fillers have no vector
    moved = {}
    for part in (1.0, rate):
        found = make_loop(labelled_csv, tmp_path, {"file": str(file), "lr_multiplier": part}, max_steps=1)
        before = found.model.words.tuned.detach().clone()
        found.run(lambda step, note: None)
        moved[part] = found.model.words.tuned.detach() - before
    known = torch.zeros(len(before), dtype=torch.bool)
    known[prepare(found.recipe, read_split(found.recipe)).inputs.known] = True
    assert int(known.sum()) == len(COLOURS)
    assert moved[1.0][known].abs().amax() > 1e-4
    torch.testing.assert_close(moved[rate][known], rate * moved[1.0][known], rtol=1e-3, atol=1e-7)
    torch.testing.assert_close(moved[rate][~known], moved[1.0][~known], rtol=0, atol=0)


def test_a_linear_schedule_warms_up_and_falls():
    training = Training(schedule="linear", warmup_steps=4, learning_rate=0.1)
    rates = [0.1 * lr_factor(training, step, 12) for step in range(12)]
    assert rates[:5] == pytest.approx([0.0, 0.025, 0.05, 0.075, 0.1])
    assert rates[5:] == pytest.approx([0.1 * (12 - step) / 8 for step in range(5, 12)])


@pytest.mark.parametrize("name", ["constant", "linear", "inverse_sqrt"])
def test_schedules_are_those_of_transformers(name):
    training = Training(schedule=name, warmup_steps=0 if name == "constant" else 5)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = get_scheduler(name, optimizer, num_warmup_steps=training.warmup_steps, num_training_steps=30)
    for step in range(30):
        assert lr_factor(training, step, 30) == pytest.approx(theirs.get_last_lr()[0], rel=1e-12)
        optimizer.step()
        theirs.step()


def test_steps_and_evaluations(labelled_csv, tmp_path):
    found = make_loop(labelled_csv, tmp_path, max_steps=12, eval_steps=5)
    steps = []
    found.run(lambda step, note: steps.append(step))
    assert steps == list(range(1, 13))
    assert [entry["step"] for entry in found.state.curve] == [5, 10, 12]


def test_gradients_are_clipped_to_the_norm(labelled_csv, tmp_path):
    """With plain gradients of Adadelta's first step the update does not depend on their size, so look at them directly."""
    norms = []
    for norm in (0.0, 1e-3):
        found = make_loop(labelled_csv, tmp_path, max_grad_norm=norm, max_steps=1)
        found.optimizer.register_step_pre_hook(
            lambda *_, found=found: norms.append(
                torch.stack([value.grad.norm() for value in found.model.parameters() if value.grad is not None]).norm().item()
            )
        )
        found.run(lambda step, note: None)
    assert norms[0] > 2e-3
    assert norms[1] == pytest.approx(1e-3, rel=1e-3)


def test_accumulated_batches_are_one_large_batch(labelled_csv, tmp_path):
    """Two batches of 16 make the step of one batch of 32 of the same examples, whatever the lengths of the last ones."""
    small = make_loop(
        labelled_csv, tmp_path / "a", batch_size=16, gradient_accumulation_steps=2, max_steps=1, optimizer="adam"
    )
    small.model.eval()
    batches = [[*range(16)], [*range(16, 25)]]
    grads = []
    for groups in (batches, [batches[0] + batches[1]]):
        small.model.zero_grad()
        small.parallel.train = lambda: None  # no dropout
        small.optimizer.step = lambda: grads.append([v.grad.clone() for v in small.model.parameters() if v.grad is not None])
        small._step(groups)
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert small.epoch_steps == 5  # 144 examples: nine batches of 16


def test_bfloat16_trains_to_nearly_the_same_losses(labelled_csv, tmp_path):
    """Without dropout, whose random numbers depend on the precision."""
    losses = {}
    for precision in ("float32", "bfloat16"):
        found = make_loop(
            labelled_csv, tmp_path / precision, dropout=0.0, precision=precision, max_steps=20, learning_rate=0.02
        )
        found.run(lambda step, note: None)
        losses[precision] = found.state.curve[-1]["loss"]
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], abs=0.03)


@pytest.mark.slow
def test_a_compiled_model_trains_to_the_same_losses(labelled_csv, tmp_path):
    curves = []
    for compiled in (False, True):
        found = make_loop(labelled_csv, tmp_path / str(compiled), dropout=0.0, compile=compiled, max_steps=6, eval_steps=2)
        found.run(lambda step, note: None)
        curves.append([entry["loss"] for entry in found.state.curve])
    assert curves[0] == pytest.approx(curves[1], abs=1e-4)


def test_a_loss_that_is_not_finite_is_refused(labelled_csv, tmp_path):
    found = make_loop(labelled_csv, tmp_path, max_steps=3, learning_rate=0.01)
    with torch.no_grad():
        found.model.words.tuned.fill_(torch.nan)
    with pytest.raises(InputError, match=r"loss became nan at step 1\. Try a lower training\.learning_rate \(now 0\.01\)"):
        found.run(lambda step, note: None)


def test_optimizer_state_and_random_numbers_are_stored_without_pickle(labelled_csv, tmp_path):
    found = make_loop(labelled_csv, tmp_path, max_steps=3)
    found.run(lambda step, note: None)
    expected = torch.rand(3)  # what is drawn after the last step
    (folder,) = tmp_path.glob("checkpoint-*")
    assert {path.suffix for path in folder.iterdir()} == {".safetensors", ".json"}
    again = make_loop(labelled_csv, tmp_path, max_steps=3)
    again.restore(folder, best=True)
    assert torch.equal(torch.rand(3), expected)
    states = found.optimizer.state_dict()["state"]
    assert states
    for number, entry in states.items():
        for name, value in entry.items():
            assert torch.equal(value, again.optimizer.state_dict()["state"][number][name])


def test_every_epoch_has_its_own_batches_and_every_process_its_share():
    part = TextData([[1] * (number % 7 + 1) for number in range(101)], torch.zeros(101), [])
    for training in (Training(batch_size=10), Training(batch_tokens=60)):
        epochs = [list(batches_of(part, training, epoch=epoch)) for epoch in (0, 1, 0)]
        assert epochs[0] == epochs[2]
        assert epochs[0] != epochs[1]
        assert sorted(number for batch in epochs[0] for number in batch) == list(range(101))
        for batch in epochs[0]:
            shares = [batch[rank::3] for rank in range(3)]
            assert all(shares)
