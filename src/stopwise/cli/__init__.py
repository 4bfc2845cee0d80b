"""The commands, one file each: `stopwise demo | train | calibrate | evaluate | decide | …`."""

from __future__ import annotations

import os

from stopwise.cli import (  # noqa: F401 - each adds its command
    bench,
    calibrate,
    decide,
    demo,
    evaluate,
    export,
    reproduce,
    train,
)
from stopwise.cli.common import app, fail


def main() -> None:
    """Run the command line; what a user did wrong is one line, not a traceback."""
    try:
        app()
    except KeyboardInterrupt:
        fail("interrupted", 130)
    except (ValueError, TypeError, OSError, FloatingPointError, ImportError) as error:
        if os.environ.get("STOPWISE_DEBUG"):
            raise
        fail(str(error), 2)
