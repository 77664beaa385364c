"""`python -m tests.robustness --out results/attack`: damaged files to every reader, kills at every work, and a record."""

import argparse
import tempfile
import warnings
from pathlib import Path

from mtsa.files import write_json
from mtsa.machine import environment_info
from tests.robustness.inputs import fuzz, readers_of
from tests.robustness.kills import WORKS, survive
from tests.robustness.models import fuzz_folder, fuzz_server
from tests.trained_models import train_every_task


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument(
        "--inputs", type=int, default=5000, help="damaged files for each reader, run folders of each task, and requests"
    )
    parser.add_argument("--kills", type=int, default=40, help="of each kind of work")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", ".* in version 0.4", DeprecationWarning)  # damage can make a former name of a key
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
            inputs.append({"name": reader.name, **fuzz(reader, folder / "files", asked.inputs, asked.seed)})
            print(inputs[-1], flush=True)
        (folder / "runs").mkdir()
        runs = train_every_task(folder / "runs")
        for task, predictor in runs.items():
            found = fuzz_folder(task, predictor.run.folder, folder / f"damaged-{task}", asked.inputs, asked.seed)
            inputs.append({"name": f"run folder: {task}", **found})
            print(inputs[-1], flush=True)
        inputs.append({"name": "request to the server", **fuzz_server(runs, asked.inputs, asked.seed)})
        print(inputs[-1], flush=True)
    record = {"kind": "attack", **environment_info(), "seed": asked.seed, "inputs": inputs, "kills": kills}
    write_json(asked.out / "bench-attack.json", record)


if __name__ == "__main__":
    main()
