"""Reader of JSON lines files: one object per line; empty lines are skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtsa.errors import line_error

from .text_files import lines


def json_objects(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and object of each line.

    Raises:
        InputError: a line that is not a JSON object.
    """
    for number, text in lines(path, encoding):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply, or a number is too long"
            raise line_error(path, number, f"not valid JSON ({why}); each line must contain one object") from None
        if not isinstance(value, dict):
            raise line_error(path, number, f"expected a JSON object, such as {{...}}, got {type(value).__name__}")
        yield number, value
