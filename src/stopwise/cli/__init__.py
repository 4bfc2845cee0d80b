"""The command line `stopwise`; each module defines one command."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from stopwise.cli import (  # noqa: F401 - each import adds a command
    bench,
    calibrate,
    decide,
    demo,
    evaluate,
    export,
    features,
    fit_rule,
    report,
    reproduce,
    train,
    tune,
)
from stopwise.cli.common import app, fail


def main() -> None:
    """Run the command line; errors and warnings are printed in one line, without a traceback."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app()
    except KeyboardInterrupt:
        fail("interrupted", 130)
    except (ValueError, TypeError, OSError, FloatingPointError, ImportError) as error:
        if os.environ.get("STOPWISE_DEBUG"):
            raise
        fail(str(error), 2)


def _show_warning(message: Any, *args: Any, **options: Any) -> None:
    print(f"stopwise: warning: {message}", file=sys.stderr, flush=True)
