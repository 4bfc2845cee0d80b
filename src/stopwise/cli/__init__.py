"""The commands, one file each: `stopwise demo | features | tune | train | calibrate | evaluate | …`."""

from __future__ import annotations

import os

from stopwise.cli import (  # noqa: F401 - each adds its command
    bench,
    calibrate,
    decide,
    demo,
    evaluate,
    export,
    features,
    reproduce,
    train,
    tune,
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
