"""The results pages, made from the records: no number in them is typed by hand."""

from __future__ import annotations

from pathlib import Path

from mtsa.errors import InputError
from mtsa.files import write_text

from . import classification_table, nli_table, srl_table, translation_table
from .benchmarks import report
from .parameter_counts import nli_counts
from .records import read_records

ARCHIVE = "v0_2"  # folder, below the records, of those made with version 0.2

_HEAD = """# Results

Written by `python -m reproduce results` from the records in `results/`; no number here is typed by hand.
"""
_PENDING = """The paper's tables are being measured anew: since version 0.2 the attention has another implementation, and the
protocol will treat all encoders alike. Until then see the [results of version 0.2](results-0.2.md).
"""
_ARCHIVED = """# Results of version 0.2

Written by `python -m reproduce results` from the records in `results/v0_2/`, which version 0.2 made with another
implementation of the attention and another protocol: settings were chosen with MTSA, and some cells have fewer folds or seeds
than others. They are kept as they are, and not compared with later records.
"""


def write(records: Path, out: Path) -> None:
    """Write the results page, and beside it that of version 0.2 where its records are there.

    Raises:
        InputError: there is no record, or one that cannot be used.
    """
    tables = _tables(records)
    parts = [*(tables or [_PENDING] * (records / ARCHIVE).is_dir()), *report.sections(records)]
    if not parts:
        raise InputError(f"{records} has no records; make one with: mtsa bench layer --out {records}/layer")
    write_text(out, "\n".join([_HEAD, *parts]))
    if (records / ARCHIVE).is_dir():
        old = [*_tables(records / ARCHIVE), *report.sections(records / ARCHIVE)]
        write_text(out.with_name(f"{out.stem}-0.2{out.suffix}"), "\n".join([_ARCHIVED, *old]))


def _tables(records: Path) -> list[str]:
    """The sections of the tables that have records."""
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
    return parts
