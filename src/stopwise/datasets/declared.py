"""Comparison of the size that an array file declares with the size that it has."""

from __future__ import annotations

import math
import zipfile
from typing import IO

import numpy as np

MOST_CHARACTERS = 10_000  # of a string, such as a label
MOST_RATIO = 1032  # of deflate, the compression of zip archives
# A compressed array of this size must not be much smaller in the file.
LARGE = 1 << 30
LARGE_RATIO = 100


class DeclaredSizeError(ValueError):
    """An array file declares another size than it has; the message ends with what to do."""


def check_array_header(file: IO[bytes], size: int) -> None:
    """Check the header of an array in .npy format.

    Parameters
    ----------
    file
        The file, at its start.
    size
        Number of bytes of the file.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> np.lib.format.write_array_header_1_0(
    ...     file, {"descr": "<f8", "fortran_order": False, "shape": (10**10, 5)}
    ... )
    >>> check_array_header(io.BytesIO(file.getvalue()), size=1000)
    Traceback (most recent call last):
    ...
    stopwise.datasets.declared.DeclaredSizeError: its header declares an array of shape (10000000000, 5) ...
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        return  # numpy refuses it
    declared = file.tell() + math.prod(shape) * dtype.itemsize
    if declared > size or max(shape, default=0) > size:
        raise DeclaredSizeError(
            f"its header declares an array of shape {shape} and type {dtype}, which is {declared} bytes, but "
            f"it has {size}. Copy or write it again."
        )
    if dtype.kind == "U" and dtype.itemsize > 4 * MOST_CHARACTERS:
        raise DeclaredSizeError(
            f"it holds strings of {dtype.itemsize // 4} characters; at most {MOST_CHARACTERS} are allowed. "
            "Use shorter labels."
        )


def check_member(archive: zipfile.ZipFile, name: str, size: int) -> None:
    """Check the size and the header of an array in a zip archive of `size` bytes."""
    member = archive.getinfo(name)
    ratio = 1 if member.compress_type == zipfile.ZIP_STORED else MOST_RATIO
    if member.compress_size > size or member.file_size > ratio * member.compress_size + 1024:
        raise DeclaredSizeError(
            f"the archive declares {member.file_size} bytes, but has {min(member.compress_size, size)}. Copy "
            "or write it again."
        )
    if member.file_size > max(LARGE, LARGE_RATIO * member.compress_size):
        raise DeclaredSizeError(
            f"it has {member.compress_size} bytes that grow to {member.file_size} when they are read. If it "
            "is yours, write it with np.savez instead of np.savez_compressed."
        )
    with archive.open(member) as file:
        check_array_header(file, member.file_size)
