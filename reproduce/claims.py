"""The claims of PROTOCOL.md, and the verdict of the records on each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtsa.metrics.significance import LEVEL, Difference, holm

from .benchmarks.nli import BASELINE, PAPER_MEMORY, PAPER_SECONDS
from .comparison import compare
from .names import display
from .table import Column, Record, Table
from .tables import CLASSIFICATION, DOCUMENTS, ENTITIES, NLI, PRETRAINED, SRL, TRANSLATION

CONFIRMED, NOT_FOUND, CONTRADICTED = "confirmed", "no difference found", "contradicted"
ONE_RUN, INCOMPLETE, NOT_RUN, NOT_PLANNED = "one run only", "incomplete", "not run yet", "not planned"
AS_IN_PAPER, HIGHER = "similar or lower", "higher on this CPU"
VERDICTS = (CONFIRMED, NOT_FOUND, CONTRADICTED, ONE_RUN, AS_IN_PAPER, HIGHER, INCOMPLETE, NOT_RUN, NOT_PLANNED)
PENDING = (INCOMPLETE, NOT_RUN, NOT_PLANNED)
OFFICIAL = ("snli", "multinli", "conll05", "wmt14-setup1", "wmt14-setup2")
"""Data sets of the paper that are replaced by smaller ones; they are omitted unless they have records."""
TOLERANCE = 1.1
"""A cost is similar to that in the paper if its ratio to the baseline is at most this factor times the paper's ratio."""


@dataclass(frozen=True, eq=False)
class Claim:
    """A claim that one model has higher scores than others.

    Args:
        source: the table of the paper; empty for a comparison that is not a claim and has no verdict.
        text: the claim, in a short sentence.
        table: the table whose records decide.
        pairs: (model with the higher score, model it is compared with).
        datasets: the data sets it is about; all of the table when empty.
        at_least: models compared with, whose score is claimed to be at most as high.
    """

    source: str
    text: str
    table: Table
    pairs: tuple[tuple[str, str], ...]
    datasets: tuple[str, ...] = ()
    at_least: tuple[str, ...] = ()


def _pairs(model: str, *others: str) -> tuple[tuple[str, str], ...]:
    return tuple((model, other) for other in others)


_SNLI = ("snli", "snli-subset")
_BASELINES = ("bilstm", "bigru", "multi_cnn", "hierarchical_cnn", "multihead", "disa", "biblosa")
_ABLATIONS = ("mtsa_no_masks", "mtsa_no_token2token", "mtsa_no_source2token", "mtsa_none")
_OF_TEXTS = ("bilstm", "multihead", "disa", "biblosa")
CLAIMS = (
    Claim("Table 1", "On SNLI, MTSA is more accurate than each baseline", NLI, _pairs("mtsa", *_BASELINES), _SNLI),
    Claim("Table 3", "On SNLI, MTSA is more accurate than each of its ablations", NLI, _pairs("mtsa", *_ABLATIONS), _SNLI),
    Claim(
        "Table 2",
        "On top of a pretrained model, MTSA is more accurate than an additional Transformer block",
        NLI,
        (("gpt-mtsa", "gpt-block"), ("minilm-mtsa", "minilm-block")),
    ),
    Claim(
        "Table 4",
        "On semantic roles, MTSA has a higher F1 than Bi-LSTM and Multi-CNN, and at least that of multi-head",
        SRL,
        _pairs("mtsa", "bilstm", "multi_cnn", "multihead"),
        at_least=("multihead",),
    ),
    Claim(
        "Table 5",
        "On sentence classification, MTSA is at least as accurate as each baseline",
        CLASSIFICATION,
        _pairs("mtsa", *_OF_TEXTS),
        at_least=_OF_TEXTS,
    ),
    Claim(
        "Table 6", "In translation, MTSA has a higher BLEU than multi-head attention", TRANSLATION, _pairs("mtsa", "multihead")
    ),
    Claim(
        "control",
        "Each baseline is at least as accurate as the model without any context",
        NLI,
        tuple((name, "mtsa_none") for name in _BASELINES),
        _SNLI,
        at_least=("mtsa_none",),
    ),
)
COMPARISONS = (
    Claim("", "MTSA compared with simple baselines", CLASSIFICATION, _pairs("mtsa", "tfidf", "fasttext")),
    Claim("", "MTSA compared with multi-head attention with masks", SRL, _pairs("mtsa", "multihead-masks")),
    Claim(
        "",
        "After 36 epochs: MTSA compared with multi-head attention with masks",
        SRL,
        (("mtsa-long", "multihead-masks-long"),),
    ),
    Claim("", "MiniLM compared with word vectors", SRL, (("minilm-mtsa", "mtsa"), ("minilm-mtsa", "mtsa-long"))),
    Claim("", "With MiniLM: MTSA compared with multi-head attention", SRL, (("minilm-mtsa", "minilm-multihead"),)),
    Claim(
        "",
        "MiniLM compared with word vectors, and with MTSA on top",
        ENTITIES,
        _pairs("minilm-linear", "mtsa", "mtsa-shapes", "bilstm", "minilm-mtsa"),
    ),
    Claim("", "Embeddings of word shapes", ENTITIES, (("mtsa-shapes", "mtsa"), ("minilm-linear", "minilm-no-shapes"))),
    Claim("", "Full masks compared with directional masks", TRANSLATION, _pairs("mtsa", "mtsa-halves")),
    Claim(
        "",
        "On documents: the best models compared with TF-IDF and logistic regression",
        DOCUMENTS,
        tuple((name, "tfidf") for name in ("hierarchical_mtsa", "minilm-windows-lr", "minilm-windows-mtsa")),
    ),
    Claim(
        "",
        "On documents: hierarchical MTSA compared with other encoders",
        DOCUMENTS,
        _pairs("hierarchical_mtsa", "mtsa", "bilstm", "multihead", "biblosa"),
    ),
    Claim(
        "",
        "Mean pooling compared with other layers",
        PRETRAINED,
        _pairs("mean", *(name for name in PRETRAINED.models if name != "mean")),
    ),
)
"""Comparisons without a claim in the paper."""


@dataclass(frozen=True)
class Finding:
    """The verdict on two models in one column."""

    claim: Claim
    column: Column
    model: str
    other: str
    verdict: str
    difference: Difference | None = None
    p: float = 1.0  # adjusted (Holm)

    @property
    def part(self) -> str:
        """The data set and the test set."""
        return self.claim.table.label(self.column)

    @property
    def paper(self) -> str:
        """The difference reported in the paper, on its data; empty if there is none."""
        first, second = (printed(self.claim.table, self.column, name) for name in (self.model, self.other))
        return "" if first is None or second is None else f"{first - second:+.1f}"


def printed(table: Table, column: Column, model: str) -> float | None:
    """Return the value that the paper reports for a model in a column."""
    for view in table.views:
        for index, other in enumerate(view.columns):
            text = view.paper.get(model, ("",) * len(view.columns))[index]
            if (other.dataset, other.part, other.metric) == (column.dataset, column.part, column.metric) and text:
                return float(text.split()[0])
    return None


def judge(difference: Difference, p: float, *, claimed: bool = True) -> str:
    """Return the verdict on the difference between two models.

    A single run of each model does not show how much runs differ, so it can neither confirm nor contradict.

    Args:
        difference: score of the model that is claimed to be higher minus score of the other.
        p: its p-value, adjusted for the number of comparisons.
        claimed: whether it is a claim; otherwise the verdict is the direction.
    """
    if p >= LEVEL:
        return NOT_FOUND
    if difference.runs < 2:
        return ONE_RUN
    higher = difference.mean > 0
    return (CONFIRMED if higher else CONTRADICTED) if claimed else ("higher" if higher else "lower")


def findings(claim: Claim, records: Sequence[Record]) -> list[Finding]:
    """Return the verdicts on a claim, for each test set; p-values are adjusted over the models."""
    verdicts = []
    for column in claim.table.test_columns():
        dataset = claim.table.datasets[column.dataset]
        if claim.datasets and dataset.name not in claim.datasets:
            continue
        if dataset.name in OFFICIAL and not any(record["dataset"] == dataset.name for record in records):
            continue
        pairs = {pair: compare(claim.table, column, *pair, records) for pair in claim.pairs}
        differences = {pair: difference for pair, difference in pairs.items() if difference is not None}
        adjusted = dict(zip(differences, holm([one.p for one in differences.values()]), strict=True))
        started = {record["model"] for record in records if record["dataset"] == dataset.name}
        for (model, other), difference in pairs.items():
            if difference is not None:
                p = adjusted[model, other]
                verdict = judge(difference, p, claimed=bool(claim.source))
                verdicts.append(Finding(claim, column, model, other, verdict, difference, p))
                continue
            planned = all(claim.table.models[name].planned(dataset) for name in (model, other))
            verdict = NOT_PLANNED if not planned else INCOMPLETE if {model, other} <= started else NOT_RUN
            verdicts.append(Finding(claim, column, model, other, verdict))
    return verdicts


def finding_rows(findings: Sequence[Finding]) -> list[list[str]]:
    """Return header and rows of findings; data sets without any result have one row."""
    lines = [["", "comparison", "difference", "95 % interval", "p (Holm)", "runs", "difference in the paper", "verdict"]]
    for title in dict.fromkeys(one.part for one in findings):
        of_part = [one for one in findings if one.part == title]
        if all(one.verdict in (NOT_RUN, NOT_PLANNED) for one in of_part):
            verdict = NOT_RUN if any(one.verdict == NOT_RUN for one in of_part) else NOT_PLANNED
            lines.append([title, "all", "", "", "", "", "", verdict])
            continue
        for one in of_part:
            sign = "≥" if one.other in one.claim.at_least else ">" if one.claim.source else "-"
            values = ["", "", "", ""]
            if one.difference is not None:
                difference = one.difference
                values = [f"{difference.mean:+.2f}", f"{difference.low:+.2f} to {difference.high:+.2f}"]
                values += [f"{one.p:.3f}", str(difference.runs)]
            lines.append([title, f"{display(one.model)} {sign} {display(one.other)}", *values, one.paper, one.verdict])
    return lines


def count_verdicts(verdicts: Sequence[str]) -> str:
    """Return how often each verdict occurs."""
    counts = {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}
    if len(counts) == 1 and next(iter(counts)) in PENDING:
        return next(iter(counts))
    return ", ".join(f"{verdict}: {count} of {len(verdicts)}" for verdict, count in counts.items()) or NOT_RUN


def result(findings: Sequence[Finding]) -> str:
    """Return the verdicts on a claim with the models compared, or their counts if there are several test sets."""
    verdicts = [one.verdict for one in findings]
    if len({one.part for one in findings}) != 1 or set(verdicts) <= set(PENDING):
        return count_verdicts(verdicts)
    same = len({one.other for one in findings}) == 1  # the control compares each baseline with one model
    models = {
        verdict: [display(one.model if same else one.other) for one in findings if one.verdict == verdict]
        for verdict in VERDICTS
    }
    return "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in models.items() if names)


COSTS = ("multi_cnn", "hierarchical_cnn", BASELINE)
COST_CLAIM = "MTSA takes about the time and memory of CNNs and of multi-head attention"


def cost_rows(record: Mapping[str, Any] | None) -> Iterator[list[str]]:
    """Yield quantity, models, ratio measured, ratio in the paper, and verdict, from a record of `bench nli`."""
    if record is None:
        return
    passes = {row["name"]: row for row in record["passes"]}
    memory = {row["name"]: row["step_bytes"] for row in record["memory"]}
    quantities: dict[str, tuple[Mapping[str, float], Mapping[str, float]]] = {}
    for index, (title, key) in enumerate((("time of an epoch", "epoch_seconds"), ("time of the dev pairs", "dev_seconds"))):
        paper_seconds = {name: seconds[index] for name, seconds in PAPER_SECONDS.items()}
        quantities[title] = {name: row[key] for name, row in passes.items()}, paper_seconds
    quantities["memory of a training step"] = memory, PAPER_MEMORY
    for title, (measured, reported) in quantities.items():
        for other in COSTS:
            if measured.get("mtsa") and measured.get(other):
                ratio, paper = measured["mtsa"] / measured[other], reported["mtsa"] / reported[other]
                verdict = AS_IN_PAPER if ratio <= TOLERANCE * paper else HIGHER
                yield [title, f"MTSA / {display(other)}", f"{ratio:.2f}", f"{paper:.2f}", verdict]
