"""Resources of the Triton kernels, from ahead-of-time compilation for named devices; needs Triton, but no GPU.

Calls with meta tensors record which kernels would be launched and how; each is compiled, and the machine code is read with the
tools of the Triton wheel. This shows neither races nor speed.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from mtsa.errors import InputError
from mtsa.machine import environment_info
from mtsa.nn.kernels import triton as kernels
from mtsa.nn.spec import make_spec

LIMITS = {80: 166_912, 86: 101_376, 90: 232_448}
"""Shared memory of a block in bytes, by device."""

ARITHMETIC: dict[str, tuple[torch.dtype, str]] = {
    "bf16": (torch.bfloat16, "highest"),
    "fp16": (torch.float16, "highest"),
    "tf32": (torch.float32, "high"),
    "ieee": (torch.float32, "highest"),
}
"""Dtype of the inputs and `torch.set_float32_matmul_precision`."""

WIDTHS = (16, 64, 75, 128, 300)
"""With those between them, which use the same tiles: 80 is 75 padded, 300 has slices."""

_TYPES = {
    torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.int8: "i8", torch.int32: "i32",
    torch.int64: "i64",
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What is compiled."""

    devices: tuple[int, ...] = tuple(LIMITS)
    arithmetic: tuple[str, ...] = tuple(ARITHMETIC)
    widths: tuple[int, ...] = WIDTHS
    variants: tuple[str, ...] = ("logsigmoid", "identity, all")  # the least, and the most that a kernel computes


def parse_devices(text: str) -> tuple[int, ...]:
    """Return the numbers of comma-separated devices, such as "sm_80,sm_90".

    Raises:
        InputError: an unknown device.
    """
    known = {f"sm_{device}": device for device in LIMITS}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise InputError(f'--devices "{text}": device "{name}" is unknown; it must be one of {", ".join(known)}')
    return tuple(known[name] for name in names)


def check_setting(setting: Setting) -> None:
    """Check that everything can be compiled.

    Raises:
        InputError: Triton is missing or interprets.
    """
    if not kernels.installed():
        raise InputError("--resources needs Triton; install it with: pip install 'mtsa[gpu]'")
    if kernels.interpreting():
        raise InputError("--resources compiles the kernels and cannot run in the interpreter; unset TRITON_INTERPRET")


def launches(setting: Setting) -> Iterator[tuple[dict[str, Any], kernels.Launch]]:
    """Yield every launch with the column values of its row."""
    for arithmetic, width, variant in itertools.product(setting.arithmetic, setting.widths, setting.variants):
        dtype, precision = ARITHMETIC[arithmetic]
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            with kernels.recorded_launches() as found, torch.no_grad():
                _call(dtype, width, variant)
        finally:
            torch.set_float32_matmul_precision(before)
        for name, launch in {_name(launch): launch for launch in found}.items():  # one is launched twice
            yield {"kernel": name, "arithmetic": arithmetic, "width": width, "variant": variant}, launch


def _call(dtype: torch.dtype, width: int, variant: str) -> None:
    """A forward and a backward pass with meta tensors; "all" means a bias, padding and dropout."""
    activation, _, everything = variant.partition(", ")
    tensors = [torch.empty(2, 2, 128, width, dtype=dtype, device="meta") for _ in range(4)]
    options: dict[str, Any] = {"masks": "forward, backward", "score_activation": activation}
    seed = None
    if everything:
        padding = torch.ones(2, 128, dtype=torch.bool, device="meta")
        options |= {"masks": "forward & distance(0.1), backward", "attention_mask": padding, "dropout_p": 0.1}
        seed = torch.empty((), dtype=torch.int64, device="meta")
    spec = make_spec(*tensors, **options)
    out, total, shift = kernels.forward(spec, seed, *tensors)
    kernels.backward(spec, seed, torch.empty_like(out), out, total, shift, *tensors)


def _name(launch: kernels.Launch) -> str:
    module = str(launch.kernel.fn.__module__).rsplit("_", 1)[-1]
    name = {
        ("forward", "prepare"): "prepare forward", ("forward", "attend"): "forward", ("repair", "attend"): "repair forward",
        ("backward", "prepare"): "prepare backward", ("backward", "queries"): "backward q",
        ("backward", "keys"): "backward k, v, s", ("repair", "differentiate"): "repair backward",
    }[module, launch.kernel.fn.__name__]  # fmt: skip
    if launch.arguments.get("CHECK") and name == "forward":
        return "check of saturation"
    if name == "backward k, v, s" and not launch.arguments["SCORES"]:
        return "backward v, s"
    return "backward k" if name == "backward k, v, s" and not launch.arguments["VALUES"] else name


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Compile everything; the record."""
    check_setting(setting)
    rows = []
    for columns, launch in launches(setting):
        for device in setting.devices:
            rows.append({"device": f"sm_{device}", **columns, **_compiled(launch, device)})
            tick("")
    record: dict[str, Any] = environment_info()
    record["versions"]["triton"] = metadata.version("triton")
    return {**record, "limits": {f"sm_{device}": LIMITS[device] for device in setting.devices}, "rows": rows}


def ticks(setting: Setting) -> int:
    """Return how many kernels `run` compiles."""
    return len(setting.devices) * sum(1 for _ in launches(setting))


def signature(launch: kernels.Launch) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int, ...], list[list[Any]]]]:
    """Return types, constants and alignments of the arguments of a launch, as `triton.compiler.ASTSource` takes them."""
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    aligned: dict[tuple[int, ...], list[list[Any]]] = {}
    for place, parameter in enumerate(launch.kernel.params):
        value = launch.arguments[parameter.name]
        if parameter.is_constexpr:
            types[parameter.name], constants[parameter.name] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            types[parameter.name] = f"*{_TYPES[value.dtype]}"
            aligned[place,] = [["tt.divisibility", 16]]
        else:
            types[parameter.name] = "fp32" if isinstance(value, float) else "i32"
    return types, constants, aligned


def _compiled(launch: kernels.Launch, device: int) -> dict[str, Any]:
    """Tiles and resources of a launch on a device."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types, constants, aligned = signature(launch)
    source = ASTSource(
        fn=launch.kernel,
        signature=types,
        constexprs={(launch.kernel.arg_names.index(name),): value for name, value in constants.items()},
        attrs=aligned,
    )
    tiles = launch.tiles
    compiled = triton.compile(source, target=GPUTarget("cuda", device, 32), options=kernels.options(tiles))
    shape = [constants.get(name, 0) for name in ("BM", "BN", "BI", "BD")]
    chosen = {"tile": shape, "warps": tiles.warps, "stages": tiles.stages, "register_limit": tiles.registers}
    return {**chosen, "shared": compiled.metadata.shared, **_machine_code(compiled.asm["cubin"])}


def _machine_code(cubin: bytes) -> dict[str, int]:
    """Registers, spills and instructions of a compiled kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        usage, code = _tool("cuobjdump", "--dump-resource-usage", str(path)), _tool("nvdisasm", "-c", str(path))
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    if found is None:
        raise InputError(f"cuobjdump printed no resource usage: {usage[:200]}")

    def count(pattern: str) -> int:
        return len(re.findall(pattern, code))

    return {
        "registers": int(found[1]),
        "stack": int(found[2]),
        "spill_stores": count(r"\bSTL\b"),
        "spill_loads": count(r"\bLDL\b"),
        "tensor_core": count(r"\b(?:HMMA|HGMMA|QGMMA)\b"),
        "async_copies": count(r"\b(?:LDGSTS|UTMALDG)\b"),
    }


def _tool(name: str, *arguments: str) -> str:
    import triton

    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    try:
        done = subprocess.run([str(path), *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; --resources needs this tool, which the Triton wheel for Linux contains"
        ) from None
    if done.returncode:
        raise InputError(f"{name} failed: {done.stderr[:200]}")
    return done.stdout


def over_limit(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows whose shared memory does not fit into their device."""
    return [row for row in record["rows"] if row["shared"] > record["limits"][row["device"]]]


def table(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return one row for each device, kernel, arithmetic and width: the largest numbers over the variants."""
    header = [
        "device",
        "kernel",
        "arithmetic",
        "width",
        "tile",
        "warps",
        "shared",
        "registers",
        "spills",
        "MMA",
        "async copies",
    ]
    groups: dict[tuple[str, str, str, int], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        groups.setdefault((row["device"], row["kernel"], row["arithmetic"], row["width"]), []).append(row)
    rows: list[list[str]] = []
    for (device, kernel, arithmetic, width), found in groups.items():
        most = {name: max(row[name] for row in found) for name in ("shared", "registers", "spill_stores", "spill_loads")}
        least = {name: min(row[name] for row in found) for name in ("tensor_core", "async_copies")}
        tile = " x ".join(str(size) for size in found[0]["tile"][:2] if size)
        spills = f"{most['spill_stores']}/{most['spill_loads']}"
        numbers = (
            f"{most['shared']:,}",
            str(most["registers"]),
            spills,
            str(least["tensor_core"]),
            str(least["async_copies"]),
        )
        rows.append([device, kernel, arithmetic, str(width), tile, str(found[0]["warps"]), *numbers])
    return header, rows


_PRODUCTS = ("forward", "check of saturation", "backward q", "backward k", "backward v, s", "backward k, v, s")


def summary(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return one row for each arithmetic and width: the worst numbers of all kernels, spills by device."""
    devices = list(record["limits"])
    header = ["arithmetic", "width", "shared", "registers", *(f"spills {device}" for device in devices), "MMA", "async copies"]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        groups.setdefault((row["arithmetic"], row["width"]), []).append(row)
    rows: list[list[str]] = []
    for (arithmetic, width), found in groups.items():
        spills = []
        for device in devices:
            here = [row for row in found if row["device"] == device]
            spills.append("/".join(str(max(row[f"spill_{kind}"] for row in here)) for kind in ("stores", "loads")))
        least = min(row["tensor_core"] for row in found if row["kernel"] in _PRODUCTS)
        copies = min(row["async_copies"] for row in found if row["kernel"] == "forward")
        largest = (f"{max(row['shared'] for row in found):,}", str(max(row["registers"] for row in found)))
        rows.append([arithmetic, str(width), *largest, *spills, str(least), str(copies)])
    return header, rows
