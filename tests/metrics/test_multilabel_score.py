"""Metrics and thresholds of multi-label models, against their definitions."""

import pytest
import torch

from mtsa.metrics import thresholds
from mtsa.metrics.calibration import measure_calibration
from mtsa.metrics.multilabel import score_label_sets
from mtsa.metrics.thresholds import choose_thresholds

NAMES = ["a", "b", "c", "d"]
CALIBRATION = measure_calibration(torch.zeros(1, 2), torch.zeros(1).long())


def f1(correct, predicted, true):
    return 2 * correct / (predicted + true) if predicted + true else 0.0


def test_metrics_are_those_of_the_definition():
    generator = torch.Generator().manual_seed(0)
    truth, answers = (torch.rand(53, 4, generator=generator) < 0.3 for _ in range(2))
    truth[:, 3], answers[:, 3] = False, False  # a label that neither occurs nor is predicted
    score = score_label_sets(truth, answers, NAMES, [0.5] * 4, CALIBRATION)
    pairs = {(row, label) for row in range(53) for label in range(4)}
    right = {(row, label) for row, label in pairs if truth[row, label] and answers[row, label]}
    total = f1(len(right), int(answers.sum()), int(truth.sum()))
    single = [f1(sum(place == label for _, place in right), int(answers[:, label].sum()), int(truth[:, label].sum()))
              for label in range(3)]  # fmt: skip
    exact = sum(truth[row].tolist() == answers[row].tolist() for row in range(53)) / 53
    assert score.micro_f1 == pytest.approx(total)
    assert score.macro_f1 == pytest.approx(sum(single) / 3)
    assert score.exact_match == pytest.approx(exact)
    assert score.scalars()["score"] == score.micro_f1
    assert score.as_json()["labels"][3] == {
        "label": "d", "threshold": 0.5, "precision": 0.0, "recall": 0.0, "f1": 0.0, "correct": 0, "predicted": 0, "support": 0,
    }  # fmt: skip
    assert "exact match" in score.line()
    assert len(score.table().splitlines()) == 3 + len(NAMES)


def test_nothing_to_find_and_nothing_found():
    empty = torch.zeros(5, 2).bool()
    score = score_label_sets(empty, empty, NAMES[:2], [0.5, 0.5], CALIBRATION)
    assert (score.micro_f1, score.macro_f1, score.exact_match) == (0.0, 0.0, 1.0)


def smoothed(probabilities, labels, label, threshold):
    """The smoothed F1 of one label, counted one by one: its own counts plus those of all labels, scaled to 10 true ones."""

    def counts(columns):
        decided = probabilities[:, columns] >= threshold
        true = labels[:, columns].bool()
        return [float(one.sum()) for one in (decided & true, decided, true)]

    own, pooled = counts([label]), counts(list(range(labels.shape[1])))
    share = 10 / pooled[2]
    correct, predicted, true = (one + share * other for one, other in zip(own, pooled, strict=True))
    return 2 * correct / (predicted + true)


def test_thresholds_maximize_the_smoothed_f1():
    generator = torch.Generator().manual_seed(1)
    probabilities = torch.rand(61, 3, generator=generator)
    labels = (torch.rand(61, 3, generator=generator) < probabilities * torch.tensor([0.9, 0.5, 0.05])).float()
    labels[:, 2] = 0  # a label without a single example
    chosen = choose_thresholds(probabilities, labels)
    for label, threshold in enumerate(chosen):
        best = max(smoothed(probabilities, labels, label, place / 100) for place in range(1, 100))
        assert smoothed(probabilities, labels, label, threshold) == pytest.approx(best)


def test_a_gap_is_cut_in_the_middle():
    probabilities = torch.tensor([[0.1]] * 20 + [[0.8]] * 20)
    (threshold,) = choose_thresholds(probabilities, (probabilities > 0.5).float())
    assert threshold == pytest.approx(0.45, abs=0.011)


def test_few_examples_give_one_half():
    assert choose_thresholds(torch.full((9, 2), 0.3), torch.ones(9, 2)) == [0.5, 0.5]
    assert choose_thresholds(torch.full((30, 2), 0.3), torch.zeros(30, 2)) == [0.5, 0.5]


def test_smoothing_helps_rare_labels(monkeypatch):
    """Mean macro-F1 on new data over 30 draws of 40 dev texts with 12 labels; most labels have a few examples only."""
    generator = torch.Generator().manual_seed(2)

    def draw(count, base):
        logits = base + 2 * torch.randn(count, len(base), generator=generator)
        return logits.sigmoid(), (torch.rand(logits.shape, generator=generator) < logits.sigmoid()).float()

    def new_score(chosen, probabilities, labels):
        decided = probabilities >= torch.tensor(chosen)
        return float((2 * (decided * labels).sum(0) / (decided.sum(0) + labels.sum(0)).clamp(min=1)).mean())

    totals = {"half": 0.0, "own": 0.0, "smoothed": 0.0}
    for _ in range(30):
        base = torch.logit(torch.empty(12).uniform_(0.01, 0.25, generator=generator))
        dev, test = draw(40, base), draw(2000, base)
        totals["half"] += new_score([0.5] * 12, *test)
        totals["smoothed"] += new_score(choose_thresholds(*dev), *test)
        with monkeypatch.context() as patched:
            patched.setattr(thresholds, "_POOLED_POSITIVES", 1e-9)
            totals["own"] += new_score(choose_thresholds(*dev), *test)
    assert totals["smoothed"] / 30 > totals["own"] / 30 + 0.005
    assert totals["smoothed"] / 30 > totals["half"] / 30 + 0.02
