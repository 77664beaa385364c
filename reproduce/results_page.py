"""The results page, made from the records."""

from __future__ import annotations

from pathlib import Path

from mtsa.errors import InputError
from mtsa.files import write_text

from .benchmarks import report
from .records import read_records
from .tables import TABLES

_HEAD = """# Results

Made by `python -m reproduce results` from the records in `results/`.
"""
_PENDING = """The paper's tables are being measured again: version 0.3 has a new implementation of the attention and treats
all encoders alike. Until then see the [results of version 0.2](results-0.2.md).
"""


def write(records: Path, out: Path) -> None:
    """Write the results page.

    Raises:
        InputError: there is no record, or one that cannot be used.
    """
    tables = []
    for name, table in TABLES.items():
        found = table.check(read_records(records / name))
        if found:
            tables.append(table.section(found))
    parts = [*tables, *report.sections(records)]
    if not parts:
        raise InputError(f"{records} has no records; make one with: mtsa bench layer --out {records}/layer")
    write_text(out, "\n".join([_HEAD, *([] if tables else [_PENDING]), *parts]))
