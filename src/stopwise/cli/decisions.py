"""Writing decisions as JSON lines or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, BinaryIO

from stopwise.cli.common import plain

OUTPUT_FORMATS = ("json", "csv")


class DecisionWriter:
    """Write each decision immediately, in UTF-8.

    Parameters
    ----------
    file
        Binary file.
    form
        "json": one object per line. "csv": one column per field and per score; fields that were copied from
        the input are one column ``input`` in JSON.
    classes
        Labels of the classes, for the columns of the scores.
    """

    def __init__(self, file: BinaryIO, form: str, classes: Sequence[Any]) -> None:
        self.file, self.form, self.classes = file, form, classes
        self._started = False

    def __call__(self, answer: dict[str, Any]) -> None:
        """Write one decision."""
        text = json.dumps(plain(answer)) + "\n" if self.form == "json" else self._rows(answer)
        self.file.write(text.encode("utf-8", "backslashreplace"))
        self.file.flush()
        self._started = True

    def _rows(self, answer: dict[str, Any]) -> str:
        """Return the row of a decision, after the header if it is the first."""
        from stopwise.streaming.answers import FIELDS  # late, because importing torch takes seconds

        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if not self._started:
            scores = [f"score_{name}" for name in self.classes]
            writer.writerow(["key", "label", "time", "forced", *scores, "model", "schema", "input"])
        extra = {name: value for name, value in answer.items() if name not in ("key", *FIELDS)}
        writer.writerow(
            [
                answer.get("key", ""),
                *(answer[name] for name in ("label", "time")),
                str(answer["forced"]).lower(),
                *answer["scores"],
                *(answer[name] for name in ("model", "schema")),
                json.dumps(plain(extra)) if extra else "",
            ]
        )
        return buffer.getvalue()
