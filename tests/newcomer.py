"""`python -m tests.newcomer --out results/newcomer`: the commands of docs/quickstart.md in a new clone, timed."""

import argparse
import json
import os
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

from mtsa.files import write_json
from mtsa.machine import environment_info
from tests.doc_commands import ROOT, commands

PAGE = ROOT / "docs" / "quickstart.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    asked = parser.parse_args()
    steps = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        timed(f"git clone {shlex.quote(str(ROOT))} mtsa", place, steps, told="git clone")
        clone = place / "mtsa"
        rows = len((clone / "examples" / "data" / "questions-train.csv").read_text().splitlines()) - 1
        for command in commands(PAGE):
            if not command.startswith((". ", "mtsa serve")):  # PATH has .venv; the server does not end
                timed(command, clone, steps)
        metrics = json.loads((clone / "runs" / "questions" / "metrics.json").read_text())
    record = {
        "kind": "newcomer",
        **environment_info(),
        "rows": rows,
        "steps": steps,
        "dev_accuracy": metrics["dev"]["accuracy"],
    }
    write_json(asked.out / "bench-newcomer.json", record)


def timed(command, place, steps, told=None):
    began = time.monotonic()
    environment = {**os.environ, "PATH": f"{place / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(command, cwd=place, shell=True, check=True, env=environment)
    steps.append({"command": told or command, "seconds": time.monotonic() - began})
    print(f"{steps[-1]['seconds']:.0f} s: {steps[-1]['command']}", flush=True)


if __name__ == "__main__":
    main()
