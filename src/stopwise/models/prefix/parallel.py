"""Independent pieces of work in threads.

Compiled kernels and linear algebra release the interpreter lock, so threads are enough. Each piece uses one
thread of the linear algebra library: threads that share one small operation wait for each other, and next to
other processes they wait long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import pairwise
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], done: Callable[[], None] = lambda: None
) -> list[Result]:
    """Return the results of `work` on each item, in order; as many threads as torch uses.

    `done` is called in the calling thread after each result.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    count = min(torch.get_num_threads(), len(items))
    found = []
    with ThreadPoolExecutor(count) if count > 1 else nullcontext() as pool:
        for result in map(work, items) if pool is None else pool.map(work, items):
            found.append(result)
            done()
    return found


def row_slices(rows: int, least: int) -> list[slice]:
    """Return consecutive slices of about the same size, at most one per thread, with `least` rows or more.

    Examples
    --------
    >>> row_slices(3, least=10)
    [slice(0, 3, None)]
    """
    count = max(1, min(torch.get_num_threads(), rows // least))
    edges = [rows * i // count for i in range(count + 1)]
    return [slice(first, last) for first, last in pairwise(edges)]
