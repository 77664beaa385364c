"""docs/results.md from the records: nobody types a number there."""

from __future__ import annotations

from pathlib import Path

from mtsa.bench import results as bench
from mtsa.data.source import InputError
from mtsa.experiments import classification_table, nli_table, srl_table, translation_table
from mtsa.experiments.params import nli_counts
from mtsa.experiments.records import read_records
from mtsa.files import write_text

_HEAD = "# Results\n\nMade by `mtsa results` from the records in `results/`; no number here is typed by hand.\n"


def write(records: Path, out: Path) -> None:
    """Make the page: tables first, then benchmarks.

    Raises:
        InputError: there is no record, or one that cannot be counted.
    """
    parts = []
    classification = classification_table.checked(read_records(records / "classification"))
    if classification:
        parts.append(classification_table.section(classification))
    nli = nli_table.checked(read_records(records / "nli"))
    if nli:
        parts.append(nli_table.section(nli, nli_counts()))
    srl = srl_table.checked(read_records(records / "srl"))
    if srl:
        parts.append(srl_table.section(srl))
    translation = translation_table.checked(read_records(records / "translation"))
    if translation:
        parts.append(translation_table.section(translation))
    parts += bench.sections(records)
    if not parts:
        raise InputError(f"{records} holds no record; make one with: mtsa bench layer --out {records}/layer")
    write_text(out, "\n".join([_HEAD, *parts]))
