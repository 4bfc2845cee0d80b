"""Number of threads by the size of the work.

Threads of small operations spend more time waiting for each other than working, above all next to other
processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import ThreadpoolController

from stopwise.models.networks.modules import Integrator

# Number of multiplications per training step, about, from which several threads are faster than one.
WORTH_THREADS = 20_000_000


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """Use one torch thread in a block if the work is small, and otherwise as many as before.

    The numba kernels use as many threads as torch. When the block ends, also by an error, the number of
    threads is that from before.

    Parameters
    ----------
    work
        Number of multiplications between two points at which threads wait for each other, such as one
        training step.

    Examples
    --------
    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with threads_for(work=1000):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    if work >= WORTH_THREADS or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Use one thread of the linear algebra libraries of numpy and scipy in a block.

    Training calls them for small systems only. Their threads wait by spinning, which slows torch down.
    """
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        yield


def step_work(net: Integrator, batch_size: int, steps: int) -> int:
    """Return the approximate number of multiplications of a network for a batch of series."""
    return batch_size * steps * sum(parameter.numel() for parameter in net.parameters())
