"""`python -m tests.attack --out results/attack`: damaged files to every reader, kills at every work, and a record."""

import argparse
import tempfile
import warnings
from pathlib import Path

from mtsa.files import write_json
from mtsa.machine import circumstances
from tests.attack.inputs import attack, readers_of
from tests.attack.kills import WORKS, survive


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--inputs", type=int, default=5000, help="damaged files for each reader")
    parser.add_argument("--kills", type=int, default=40, help="of each kind of work")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kills = []
        for make in WORKS:  # first: they are copies of this process, which should be small
            (folder / make.__name__).mkdir()
            work = make(folder / make.__name__)
            kills.append({"name": work.name, **survive(work, folder / make.__name__ / "tries", asked.kills, asked.seed)})
            print(kills[-1], flush=True)
        inputs = []
        for reader in readers_of(folder / "files"):
            inputs.append({"name": reader.name, **attack(reader, folder / "files", asked.inputs, asked.seed)})
            print(inputs[-1], flush=True)
    record = {"kind": "attack", **circumstances(), "seed": asked.seed, "inputs": inputs, "kills": kills}
    write_json(asked.out / "bench-attack.json", record)


if __name__ == "__main__":
    main()
