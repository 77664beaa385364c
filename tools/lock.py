"""The lock (constraints.txt): write it from the environment, compare the environment with it, list the oldest versions.

python tools/lock.py write     # pin every installed package
python tools/lock.py check     # report packages that are not pinned, or not at their pinned version
python tools/lock.py oldest    # print the lowest version of every dependency that pyproject.toml allows
python tools/lock.py table     # print the tables of docs/versions.md
"""

import os
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "constraints.txt"
IGNORED = {"mtsa", "pip", "setuptools", "wheel"}
DEVELOPMENT = ("dev", "docs")  # extras
HEADER = "# Exact versions for Linux and Python 3.11, written by `make lock`. Users get the ranges in pyproject.toml.\n"


def normalized(name: str) -> str:
    """Normalize a project name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    """Versions of the installed packages, without local labels such as +cpu."""
    named = [one for one in metadata.distributions() if one.metadata["Name"]]
    found = {normalized(one.metadata["Name"]): one.version.partition("+")[0] for one in named}
    return {name: found[name] for name in sorted(found) if name not in IGNORED}


def locked() -> dict[str, str]:
    """Versions in the lock."""
    rows = [line.partition("#")[0].strip() for line in LOCK.read_text(encoding="utf-8").splitlines()]
    return {normalized(name): version for name, _, version in (row.partition("==") for row in rows if row)}


def differences() -> list[str]:
    """Return the packages whose version differs from the lock."""
    pins = locked()
    return [
        f"{name} {version} ({f'locked: {pins[name]}' if name in pins else 'not in the lock'})"
        for name, version in installed().items()
        if pins.get(name) != version
    ]


def lower_bounds(*, development: bool | None = None) -> dict[str, str]:
    """Return the lower bound of each direct dependency: all, or those of developers only, or of users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    user = [*project["dependencies"], *(row for name, extra in extras.items() if name not in DEVELOPMENT for row in extra)]
    developer = [row for name in DEVELOPMENT for row in extras[name]]
    bounds = {}
    for row in {None: user + developer, True: developer, False: user}[development]:
        match = re.match(r"([A-Za-z0-9._-]+)(?:>=([0-9.]+))?", row)
        assert match is not None
        if match[2]:
            bounds[normalized(match[1])] = match[2]
    return bounds


def oldest() -> dict[str, str]:
    """Return the lower bound of each dependency, and the locked version of torch."""
    return {**lower_bounds(), "torch": locked()["torch"]}


def table() -> str:
    """Return the lower bound and the locked version of the direct dependencies, of users and of developers, as Markdown."""
    pins, text = locked(), []
    for development in (False, True):
        bounds = lower_bounds(development=development)
        if "torch" in bounds:
            bounds["torch"] += " (untested)"
        rows = [f"| {name} | {version} | {pins[name]} |" for name, version in sorted(bounds.items())]
        text.append("\n".join(["| package | oldest | locked |", "|---|---|---|", *rows]) + "\n")
    return "\nDirect dependencies of developers:\n\n".join(text)


def main() -> int:
    """Run the command."""
    if sys.argv[1:] == ["write"]:
        LOCK.write_text(HEADER + "".join(f"{name}=={version}\n" for name, version in installed().items()), encoding="utf-8")
        print(f"written: {LOCK.name}, {len(locked())} packages")
    elif sys.argv[1:] == ["oldest"]:
        print("".join(f"{name}=={version}\n" for name, version in sorted(oldest().items())), end="")
    elif sys.argv[1:] == ["table"]:
        print(table(), end="")
    elif sys.argv[1:] == ["check"]:
        found = differences()
        if found:
            listed = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
            failing = bool(os.environ.get("CI"))
            level = "error" if failing else "warning"
            print(f"{level}: the environment differs from constraints.txt: {listed}; recreate .venv with: make clean setup")
            return int(failing)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
