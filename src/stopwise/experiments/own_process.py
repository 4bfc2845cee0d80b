"""Run a function in a process of its own, which returns all memory and cannot end the caller."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def limit_threads(workers: int) -> None:
    """Give each of `workers` processes its share of the cores, unless the environment says otherwise."""
    share = str(max(1, (os.cpu_count() or 1) // max(1, workers)))
    for name in THREADS:
        os.environ.setdefault(name, share)


def in_own_process(work: Callable[..., Any], /, **arguments: Any) -> Any:
    """Return ``work(**arguments)``, computed in a new process.

    Parameters
    ----------
    work
        A module-level function that returns plain values.
    arguments
        Its arguments.

    Returns
    -------
    result
        What `work` returned; {"failed": reason} if it raised an exception or its process was killed.

    Examples
    --------
    >>> in_own_process(divmod_of, a=7, b=2)
    [3, 1]
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])  # imported once, by the first call
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(sender, work, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        process.join()
        code = process.exitcode
        hint = ", probably because memory ran out" if code == -9 else ""
        result = {"failed": f"the process ended with code {code}{hint}"}
    finally:
        receiver.close()
    process.join()
    return result


def divmod_of(a: int, b: int) -> list[int]:
    """Return quotient and remainder: a small function for examples and tests."""
    return list(divmod(a, b))


def _call(sender: Connection, work: Callable[..., Any], arguments: dict[str, Any]) -> None:
    try:
        result = work(**arguments)
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}"[:500]}
    sender.send(result)
    sender.close()
