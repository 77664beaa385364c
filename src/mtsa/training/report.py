"""What a run came to, in words and tables."""

from __future__ import annotations

from typing import Any

from mtsa.scoring.bleu import BleuScore
from mtsa.scoring.classification import ClassificationScore
from mtsa.scoring.counts import Counts
from mtsa.scoring.regression import RegressionScore
from mtsa.scoring.roles import RoleScore
from mtsa.scoring.tags import TagScore

from .run import Outcome
from .score import PartScore


def figures_line(score: PartScore) -> str:
    """The main figures in one line."""
    found = score.figures
    if isinstance(found, RegressionScore):
        correlations = f"correlation {found.pearson:.3f}, of ranks {found.spearman:.3f}"
        return f"mse {found.mse:.4g}, mae {found.mae:.4g}, {correlations} ({found.count:,} examples)"
    if isinstance(found, RoleScore):
        whole = found.whole
        return (
            f"precision {whole.precision:.3f}, recall {whole.recall:.3f}, F1 {whole.f1:.3f}, complete {found.complete:.3f} "
            f"({found.frames:,} predicates){_finding(found)}"
        )
    if isinstance(found, BleuScore):
        return f"BLEU {found.bleu:.1f} ({found.count:,} sentences; {found.signature})"
    if isinstance(found, TagScore):
        spans = "" if found.spans is None else f"F1 of spans {found.spans.f1:.3f}, "
        return f"{spans}accuracy {found.accuracy:.3f} ({found.words:,} words)"
    return f"accuracy {found.accuracy:.3f}, macro-F1 {found.macro_f1:.3f} ({found.count:,} examples)"


def figures_table(score: PartScore) -> str:
    """The main figures, and a table of the classes."""
    found = score.figures
    if isinstance(found, TagScore | RoleScore):
        return "\n".join([figures_line(score), *_label_table(found.labels)])
    if not isinstance(found, ClassificationScore):
        return figures_line(score)
    width = max(5, *(len(label) for label in found.labels))
    lines = [figures_line(score), "", f"{'class':{width}}  precision  recall     F1   count"]
    lines += [
        f"{row.label:{width}}  {row.precision:9.3f}  {row.recall:6.3f}  {row.f1:5.3f}  {row.count:6,}" for row in found.classes
    ]
    return "\n".join(lines)


def _finding(found: RoleScore) -> str:
    return "" if found.predicates is None else f"; finding predicates: F1 {found.predicates.f1:.3f}"


def _label_table(labels: dict[str, Counts]) -> list[str]:
    if not labels:
        return []
    width = max(5, *map(len, labels))
    return ["", f"{'label':{width}}  precision  recall     F1   there"] + [
        f"{name:{width}}  {row.precision:9.3f}  {row.recall:6.3f}  {row.f1:5.3f}  {row.there:6,}"
        for name, row in sorted(labels.items())
    ]


def outcome_lines(outcome: Outcome) -> list[str]:
    """What to say at the end of a run."""
    lines = [
        f"best dev at step {outcome.best_step:,} of {outcome.steps:,} ({outcome.seconds:.0f} s): {figures_line(outcome.dev)}",
    ]
    if outcome.test is not None:
        lines.append(f"test: {figures_line(outcome.test)}")
    if outcome.test is not None and outcome.unseen is not None:
        known = outcome.test.figures.count - outcome.unseen.figures.count
        lines.append(f"without {known:,} test examples that training or dev has too: {figures_line(outcome.unseen)}")
    lines += [f"{name.removeprefix('test:')}: {figures_line(score)}" for name, score in outcome.further.items()]
    asked = '"a text" --pair "another"' if outcome.paired else '"a text"'
    lines.append(
        f"run: {outcome.folder}; next: mtsa predict {outcome.folder} {asked}, mtsa evaluate {outcome.folder} --data FILE"
    )
    return lines


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """Mean and standard deviation of several runs."""
    return [
        f"{key.replace('_', ' ')}: {values['mean']:.4f} +- {values['deviation']:.4f} over {len(values['values'])} runs"
        for key, values in summary.items()
        if isinstance(values, dict)
    ]
