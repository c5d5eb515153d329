"""Arrays on disk, `.npy` and `.npz`, read only as far as they are what they say.

The header of an array tells its shape; it is compared with the bytes that follow, and both with the memory
that is allowed, before anything of that size is made. Nothing that would run code is loaded.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from deadweight.basics.memory import require
from deadweight.errors import PolicyError, TooLarge, first_few
from deadweight.io.findings import show
from deadweight.typing import AnyArray

LABELS = ("states", "actions")
# The array as it is read, as numbers, and while it is checked.
COPIES = 4


def read_arrays(path: Path) -> tuple[AnyArray, dict[str, AnyArray]]:
    """The table of a file, and the labels `states` and `actions` if it has them."""
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                return _array(file, path.stat().st_size, str(path)), {}
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            name = _table_of(path, list(members))
            found = {}
            for key in (name, *(label for label in LABELS if label in members)):
                with archive.open(members[key]) as member:  # gives no more bytes than it declares
                    found[key] = _array(member, members[key].file_size, f"{key} in {str(path)!r}")
            return found.pop(name), found
    except (PolicyError, TooLarge, MemoryError):
        raise
    except Exception as error:  # numpy and zipfile raise a dozen kinds for a damaged file
        raise PolicyError(
            f"{str(path)!r} is not a readable numpy file: {type(error).__name__}.",
            fix="Save the (S, A) table of numbers with numpy.save or numpy.savez.",
        ) from None


def _table_of(path: Path, names: list[str]) -> str:
    if "probs" in names:
        return "probs"
    if len(names) == 1:
        return names[0]
    raise PolicyError(
        f"{str(path)!r} must hold one array, or one called 'probs'; found "
        f"{first_few([show(key) for key in names]) or 'none'}.",
        fix="Save it with numpy.savez(path, probs=table).",
    )


def _array(file: IO[bytes], size: int, what: str) -> AnyArray:
    """The array in a stream of `size` bytes."""
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    read_header: Any = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, in_columns, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("Python objects")
    cells, rest = math.prod(shape), size - file.tell()
    if cells * dtype.itemsize > rest or any(length < 0 for length in shape):
        raise PolicyError(
            f"{what} was cut short: its header says shape {shape}, for which {rest:,} bytes are too few.",
            fix="Copy or write the file again.",
        )
    require(cells * max(dtype.itemsize, 8) * COPIES, f"{what}, an array of shape {shape},", "Is it a policy?")
    data = np.frombuffer(file.read(cells * dtype.itemsize), dtype=dtype, count=cells)
    return data.reshape(shape, order="F" if in_columns else "C")
