"""Temperature, calibration error and log loss against known scalings, hand-computed cases and other formulations."""

import math

import pytest
import torch
from sklearn.metrics import log_loss

from mtsa.metrics.calibration import MIN_EXAMPLES, fit_temperature, measure_calibration


def well_calibrated(count, classes=5, seed=0):
    """Logits, and labels drawn from their softmax."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2.0 * torch.randn(count, classes, generator=generator)
    return logits, torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]


def loss_at(temperature, logits, labels):
    return torch.nn.functional.cross_entropy(logits.double() / temperature, labels).item()


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
def test_the_temperature_is_the_known_scale_of_calibrated_logits(scale):
    logits, labels = well_calibrated(20_000)
    assert fit_temperature(scale * logits, labels) == pytest.approx(scale, rel=0.02)


@pytest.mark.parametrize("scale", [0.2, 3.0])
def test_no_other_temperature_has_a_lower_log_loss(scale):
    logits, labels = well_calibrated(5_000, seed=1)
    found = fit_temperature(scale * logits, labels)
    others = [loss_at(found * factor, scale * logits, labels) for factor in (0.9, 0.97, 1.03, 1.1)]
    assert loss_at(found, scale * logits, labels) < min(others)


def test_adding_a_constant_to_the_logits_of_an_example_changes_nothing():
    logits, labels = well_calibrated(500)
    shifts = torch.linspace(-300, 300, 500)[:, None]
    assert fit_temperature(logits.double() + shifts, labels) == pytest.approx(fit_temperature(logits, labels), rel=1e-6)


@pytest.mark.parametrize(("count", "margin"), [(20, 0.5), (100, 4.0), (1000, 30.0)])
def test_correct_predictions_give_the_confidence_of_the_rule_of_succession(count, margin):
    """Of n examples, all correct: (n + 1) / (n + 2), and not infinite confidence."""
    labels = torch.arange(count) % 2
    logits = margin * torch.nn.functional.one_hot(labels, 2).float()
    confidence = (logits / fit_temperature(logits, labels)).softmax(-1).max(-1).values
    assert confidence.mean().item() == pytest.approx((count + 1) / (count + 2), abs=1e-4)


def test_wrong_predictions_give_the_largest_temperature():
    labels = torch.zeros(50, dtype=torch.long)
    assert fit_temperature(torch.tensor([[0.0, 9.0]]).repeat(50, 1), labels) == pytest.approx(20.0)


def test_tiny_logits_give_the_smallest_temperature():
    labels = torch.zeros(50, dtype=torch.long)
    assert fit_temperature(torch.tensor([[1e-4, 0.0]]).repeat(50, 1), labels) == pytest.approx(0.05)


def test_too_few_examples_and_logits_without_information_give_one():
    logits, labels = well_calibrated(MIN_EXAMPLES)
    assert fit_temperature(5 * logits, labels) != 1.0
    assert fit_temperature(5 * logits[:-1], labels[:-1]) == 1.0
    assert fit_temperature(torch.full((50, 3), 7.0), torch.zeros(50, dtype=torch.long)) == 1.0
    broken = logits.clone()
    broken[3, 1] = math.nan
    assert fit_temperature(broken, labels) == 1.0
    assert fit_temperature(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)) == 1.0


def test_the_calibration_error_of_a_case_worked_out_by_hand():
    probabilities = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.61, 0.39], [0.62, 0.38]], dtype=torch.float64)
    found = measure_calibration(probabilities.log(), torch.tensor([0, 0, 0, 0]))
    # 0.9 twice, once right; 0.61 and 0.62 in one bin, both right: 1/2 |1/2 - 0.9| + 1/2 |1 - 0.615|
    assert found.ece == pytest.approx(0.5 * 0.4 + 0.5 * 0.385)
    assert found.log_loss == pytest.approx(-(math.log(0.9) + math.log(0.1) + math.log(0.61) + math.log(0.62)) / 4)
    filled = {number: one for number, one in enumerate(found.bins) if one.count}
    assert list(filled) == [9, 13]  # (9/15, 10/15] and (13/15, 14/15]
    assert (filled[9].count, filled[9].accuracy) == (2, 1.0)
    assert filled[9].confidence == pytest.approx(0.615)
    assert (filled[13].count, filled[13].accuracy) == (2, 0.5)


def test_errors_of_opposite_sign_add_up_between_bins_and_cancel_inside_one():
    probabilities = torch.tensor([[0.95, 0.05], [0.95, 0.05], [0.55, 0.45], [0.55, 0.45]], dtype=torch.float64)
    apart = measure_calibration(probabilities.log(), torch.tensor([0, 1, 0, 0])).ece
    assert apart == pytest.approx(0.5 * 0.45 + 0.5 * 0.45)
    together = measure_calibration(probabilities[:2].log(), torch.tensor([0, 1])).ece
    assert together == pytest.approx(0.45)


@pytest.mark.parametrize("classes", [2, 7])
def test_the_metrics_are_those_of_another_formulation(classes):
    logits, labels = well_calibrated(700, classes, seed=2)
    logits = 1.7 * logits
    found = measure_calibration(logits, labels)
    probabilities = logits.double().softmax(-1)
    total = 0.0
    for number in range(15):
        inside = [row for row in range(700) if number / 15 < probabilities[row].max().item() <= (number + 1) / 15]
        if inside:
            accuracy = sum(probabilities[row].argmax().item() == labels[row].item() for row in inside) / len(inside)
            confidence = sum(probabilities[row].max().item() for row in inside) / len(inside)
            total += len(inside) / 700 * abs(accuracy - confidence)
    assert found.ece == pytest.approx(total)
    assert found.log_loss == pytest.approx(log_loss(labels, probabilities, labels=range(classes)))
    assert sum(one.count for one in found.bins) == 700


def test_certain_predictions_are_in_the_last_bin():
    found = measure_calibration(torch.tensor([[200.0, 0.0], [0.0, 200.0]]), torch.tensor([0, 1]))
    assert (found.ece, found.bins[-1].count) == (0.0, 2)
