"""Versions and machine information of a measurement."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path
from typing import Any

import torch

import mtsa


def environment_info() -> dict[str, Any]:
    """Return versions, machine information and time, as stored in every record."""
    return {
        "versions": {"mtsa": mtsa.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"cores": os.cpu_count(), "threads": torch.get_num_threads(), "processor": _processor()},
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
