"""Files of sentence vectors in NumPy or safetensors format, written row by row.

Both formats start with a header that contains the shape; its space is reserved and filled at the end.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from mtsa.errors import InputError
from mtsa.files import replacing

_ROOM = 192  # bytes of header; a multiple of 64, as both formats recommend
KEY = "vectors"


def _numpy_header(rows: int, width: int) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", _ROOM - 10) + text.ljust(_ROOM - 11).encode() + b"\n"


def _safetensors_header(rows: int, width: int) -> bytes:
    entry = {"dtype": "F32", "shape": [rows, width], "data_offsets": [0, 4 * rows * width]}
    return struct.pack("<Q", _ROOM - 8) + json.dumps({KEY: entry}).ljust(_ROOM - 8).encode()


_HEADERS = {".npy": _numpy_header, ".safetensors": _safetensors_header}


@contextmanager
def vector_file(path: Path, width: int) -> Iterator[Callable[[Tensor], None]]:
    """Yield a function that writes rows [n, width]; the file is created when the block succeeds.

    Raises:
        InputError: the file extension is neither .npy nor .safetensors.
    """
    ending = path.suffix.lower()
    if ending not in _HEADERS:
        raise InputError(f"--out {path}: the file extension must be .npy or .safetensors")
    rows = 0
    with replacing(path) as partial, partial.open("wb") as file:
        file.write(b"\0" * _ROOM)

        def write(vectors: Tensor) -> None:
            nonlocal rows
            file.write(vectors.float().contiguous().numpy().astype("<f4", copy=False).tobytes())
            rows += len(vectors)

        yield write
        file.seek(0)
        file.write(_HEADERS[ending](rows, width))
