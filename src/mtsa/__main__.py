"""The command `mtsa`; without its extras it says which one to install."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from typing import Any

_WORKBENCH = ("numpy", "safetensors", "tokenizers", "transformers")


def main() -> None:
    """Run the command line."""
    missing = [name for name in ("typer", "rich", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"The mtsa command needs {', '.join(missing)}: pip install 'mtsa[cli]'", file=sys.stderr)
        raise SystemExit(2)
    from mtsa.cli import app

    warnings.filterwarnings("default", message=r".* until version 0\.4", category=DeprecationWarning)
    warnings.showwarning = _show_warning
    try:
        app()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _WORKBENCH:
            raise
        print(f"This command needs {error.name}: pip install 'mtsa[train]'", file=sys.stderr)
        raise SystemExit(2) from None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the code."""
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


if __name__ == "__main__":
    main()
