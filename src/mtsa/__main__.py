"""Entry point of the command `mtsa`, with a message about missing extras."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from typing import Any

_SPIN_COUNT = "5000"
"""How long threads of GNU OpenMP spin while they wait for the others, before they sleep. By default they spin about a hundred
times as long and take the cores that the others need: any concurrent program then slows this one down several times."""
_WORKBENCH = ("numpy", "safetensors", "tokenizers", "transformers")


def main() -> None:
    """Run the command line."""
    if "OMP_WAIT_POLICY" not in os.environ:  # read when torch is imported, which has not happened yet
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
    missing = [name for name in ("typer", "rich", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"The mtsa command requires {', '.join(missing)}: pip install 'mtsa[cli]'", file=sys.stderr)
        raise SystemExit(2)
    from mtsa.cli import app

    warnings.filterwarnings("default", message=r".* in version 0\.4", category=DeprecationWarning)
    warnings.showwarning = _show_warning
    try:
        app()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _WORKBENCH:
            raise
        print(f"This command requires {error.name}: pip install 'mtsa[train]'", file=sys.stderr)
        raise SystemExit(2) from None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the code."""
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


if __name__ == "__main__":
    main()
