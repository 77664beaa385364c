"""The table of semantic role labelling: measured rows beside the paper's, made from records alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mtsa.errors import InputError

from .markdown import markdown
from .records import check_alike, circumstances_of
from .srl import ROWS, TREEBANKS, comparable

PAPER: dict[str, tuple[str, ...]] = {  # Table 4: training time; precision, recall, F1, complete of dev, WSJ test, Brown test
    "Bi-LSTM": ("72 h", "81.8 / 83.4 / 82.6 / 63.3", "83.0 / 84.0 / 83.5 / 64.6", "72.3 / 72.8 / 72.5 / 46.8"),
    "Multi-CNN": ("19 h", "75.2 / 79.6 / 77.3 / 53.6", "77.3 / 80.9 / 79.0 / 55.5", "68.3 / 70.3 / 69.3 / 41.9"),
    "Multi-head": ("20 h", "82.6 / 83.6 / 83.1 / 65.2", "84.5 / 85.2 / 84.8 / 66.4", "73.5 / 74.6 / 74.1 / 48.4"),
    "MTSA": ("20 h", "82.8 / 84.4 / 83.6 / 65.4", "84.2 / 85.3 / 84.8 / 67.0", "74.3 / 74.6 / 74.5 / 49.1"),
}

REMARKS = """\
Precision / recall / F1 / complete frames in percent, by the rules of the official CoNLL-2005 evaluation, with the predicates
given; *verbs*: predicates whose part of speech is a verb's. *finding*: F1 of the predicate finder on the dev sentences.
*training*: from begin to end of runs that went side by side, on more than one kind of processor, and rested at times: a
rough figure; `python -m reproduce bench srl` times the steps of all stacks in one run (below). One run each; each record has
the dev curve and one evaluation on the test part; the best epoch is chosen on the dev part.

Ours against the paper: other data (`ewt`: PropBank on the English Web Treebank, 12,518 training sentences, predicates that
are nouns and adjectives too, in place of the news text of CoNLL-2005, whose files are licensed), so the figures do not
compare; 4 layers in place of 10 but for `mtsa-deep`, 12 passes of AdamW over batches of 2,048 words in place of 600,000
steps of Adadelta over 4,096, attention dropout 0.1 (0.19), dropout inside the feed-forward part 0.2 (0.1), tags by Viterbi
(the best of each word), word vectors of 100 dimensions (the paper says 200, its code 100). The settings of the `srl.cpu`
recipe hold for every row but for `scale` and the dropout of the input, which `multihead` alone has. The paper does not say
what its Bi-LSTM and Multi-CNN rows are: here they stand in the place of the attention of each layer. `mtsa` has log-sigmoid
pair scores and two source2token layers (the authors' tagger: exp and one). The rows were not tuned one by one: `multihead`
begins slowly and still rises at its last pass, so that more passes or another rate may close a part of its distance.
"""


def checked(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records, if they can stand in one table.

    Raises:
        InputError: one of no row or data set of the plan, or records of one cell with other settings or files.
    """
    for record in records:
        if record["row"] not in ROWS or record["dataset"] not in TREEBANKS or "dev" not in record:
            place = f"{record['dataset']}/{record['row']}/{record['unit']}.json"
            raise InputError(f"{place} belongs to no cell of the table; delete it")
    check_alike(records, comparable)
    return list(records)


def role_rows(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Header and rows: each of ours, then the paper's."""
    lines = [["", "training", "dev", "dev: verbs", "test", "test: verbs", "Brown test", "finding"]]
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        for row in ROWS.values():
            record = next((one for one in records if (one["dataset"], one["row"]) == (dataset, row.name)), None)
            name = f"{dataset}: {row.name}"
            if record is None:
                lines.append([name, "not run", *[""] * 6])
                continue
            dev, test = record["dev"], record["test_evaluations"][0]
            cells = [_cell(part) for figures in (dev, test) for part in (figures, figures.get("verbs"))]
            further = [figures for name, figures in test.get("parts", {}).items() if "brown" in name]
            cells.append(_cell(further[0] if further else None))
            lines.append([name, f"{record['seconds'] / 60:.0f} min", *cells, f"{100 * dev['predicates']['f1']:.1f}"])
    for name, (time, dev, test, brown) in PAPER.items():
        lines.append([f"*paper, CoNLL-05: {name}*", time, dev, "", test, "", brown, ""])
    return lines


def _cell(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return ""
    return " / ".join(f"{100 * figures[key]:.1f}" for key in ("precision", "recall", "f1", "complete"))


def order(records: Sequence[dict[str, Any]]) -> list[str]:
    """The rows of each data set by their F1 on the test part, the best first: a sentence for each."""
    told = []
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        own = [(record["test_evaluations"][0]["f1"], record["row"]) for record in records if record["dataset"] == dataset]
        ranked = ", ".join(f"`{row}` {100 * f1:.1f}" for f1, row in sorted(own, reverse=True))
        told.append(
            f"F1 on the test part of `{dataset}`, the best first: {ranked}. "
            "The paper's order: MTSA and Multi-head, Bi-LSTM, Multi-CNN."
        )
    return told


def section(records: Sequence[dict[str, Any]]) -> str:
    """The section of the results page."""
    parts = ["## Semantic role labelling\n", circumstances_of("srl", records) + "\n", markdown(role_rows(records)), ""]
    parts += [*order(records), ""]
    parts += [f"- `{row.name}`: {row.about}." for row in ROWS.values()]
    return "\n".join([*parts, "", REMARKS])
