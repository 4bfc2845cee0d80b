"""Selection of the numba kernels, and distribution of their work over threads.

Importing numba takes half a second, so it is imported on first use. Without numba, for example on a new
Python version that it does not support yet, plain torch code runs instead of the kernels.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

WORTH_A_THREAD = 1 << 16  # elements; for fewer, waking a thread costs more time than it saves


def kernels_for(name: str, *tensors: Tensor) -> ModuleType | None:
    """Return a module of kernels, or None if plain torch must be used.

    The kernels require numba and tensors on the CPU that are all float32 or all float64.

    Parameters
    ----------
    name
        Name of the module in this package.
    tensors
        Tensors that the kernels will process.
    """
    first = tensors[0]
    if first.dtype not in (torch.float32, torch.float64):
        return None
    if any(tensor.device.type != "cpu" or tensor.dtype != first.dtype for tensor in tensors):
        return None
    return import_module(f"stopwise.models.networks.kernels.{name}") if numba_is_there() else None


@cache
def numba_is_there() -> bool:
    """Whether numba can be imported."""
    try:
        import_module("numba")
    except ImportError:
        return False
    return True


def in_threads(kernel: Callable[..., None], rows: int, row_size: int, *arguments: Any) -> None:
    """Run a kernel on parts of its rows, with as many threads as torch uses.

    The kernel must release the global interpreter lock (GIL) and process each row independently, so that the
    split into parts does not change the result. The threads are not those of numba, because the thread pool
    of numba does not survive a fork, and because parallel numba kernels take seconds to compile.

    Parameters
    ----------
    kernel
        Function that is called as ``kernel(start, stop, *arguments)`` for parts of ``range(rows)``.
    rows
        Number of rows.
    row_size
        Number of elements that the kernel visits per row. Small tasks run in one thread.
    arguments
        Further arguments of the kernel.
    """
    threads = torch.get_num_threads()
    parts = min(rows, rows * row_size // WORTH_A_THREAD, 4 * threads)
    if threads == 1 or parts < 2:
        kernel(0, rows, *arguments)
        return
    waiting = deque(pairwise([rows * part // parts for part in range(parts + 1)]))

    def work() -> None:
        # Each thread takes the next part when it is free. A fixed assignment would be slower, because the
        # threads of torch keep cores busy for some milliseconds after use.
        while True:
            try:
                start, stop = waiting.popleft()
            except IndexError:
                return
            kernel(start, stop, *arguments)

    others = [_pool(os.getpid()).submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        if not other.cancel():
            other.result()


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the thread pool of a process. After a fork, the child needs a new pool."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="stopwise")
