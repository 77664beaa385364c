"""Results of runs as text."""

from __future__ import annotations

from typing import Any

from .run import Outcome


def outcome_lines(outcome: Outcome) -> list[str]:
    """Return the results of a run."""
    lines = [
        f"best step {outcome.best_step:,} of {outcome.steps:,} ({outcome.seconds:.0f} s), dev: {outcome.dev.metrics.line()}",
    ]
    if outcome.test is not None:
        lines.append(f"test: {outcome.test.metrics.line()}")
    if outcome.test is not None and outcome.unseen is not None:
        known = outcome.test.metrics.count - outcome.unseen.metrics.count
        lines.append(
            f"test without {known:,} examples that also occur in the training or dev data: {outcome.unseen.metrics.line()}"
        )
    lines += [f"{name.removeprefix('test:')}: {score.metrics.line()}" for name, score in outcome.further.items()]
    lines.append(f"saved to {outcome.folder}. Next: {outcome.task.example_commands(outcome.folder)}")
    return lines


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """Return mean and standard deviation of several runs."""
    return [
        f"{key.replace('_', ' ')}: {values['mean']:.4f} ± {values['deviation']:.4f} "
        f"(mean ± standard deviation of {len(values['values'])} runs)"
        for key, values in summary.items()
        if isinstance(values, dict)
    ]
