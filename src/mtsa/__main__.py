"""The command `mtsa`; without its extras it says which one to install."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    """Run the command line."""
    missing = [name for name in ("typer", "rich", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"The mtsa command needs {', '.join(missing)}: pip install 'mtsa[cli]'", file=sys.stderr)
        raise SystemExit(2)
    from mtsa.cli import app

    app()


if __name__ == "__main__":
    main()
