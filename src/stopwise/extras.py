"""Errors for optional packages that are not installed: which extra holds them, and how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Turn an ImportError in this context into one that says how to install an extra of stopwise.

    Parameters
    ----------
    name
        Name of the extra in pyproject.toml.
    purpose
        What the packages are needed for, the beginning of the message.

    Examples
    --------
    >>> with extra("tune", "tuning"):
    ...     import no_such_package
    Traceback (most recent call last):
    ...
    ImportError: tuning needs no_such_package: pip install 'stopwise[tune]', or in a clone of the ...
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "more packages").partition(".")[0]
        raise ImportError(
            f"{purpose} needs {package}: pip install 'stopwise[{name}]', or in a clone of the repository "
            f"pip install -c constraints.txt '.[{name}]'.",
            name=error.name,
        ) from error
