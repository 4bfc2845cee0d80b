"""From lines of text to samples: JSON or CSV, whichever the lines are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stopwise.streaming.csv_lines import Columns, Header, is_numbers, split
from stopwise.streaming.lines import Line, Malformed, Pause
from stopwise.streaming.sample_lines import Sample, parse_json

FORMATS = ("auto", "json", "csv")

Item = Sample | Malformed | Pause


def read_samples(
    lines: Iterable[Line | Malformed | Pause], columns: Columns, *, form: str = "auto"
) -> Iterator[Item]:
    """Yield a sample or an error for each line; the next line is requested after the result was used.

    - JSON lines: ``{"key": "a", "x": [1, 2]}``, ``{"x": {"u": 1, "v": 2}}`` or ``[1, 2]``. A null is a
      missing value. ``"end": true`` ends a stream, ``"seq"`` is a sequence number, other fields are copied
      to the decision.
    - CSV: the first row is a header (see `Header.of`), or all columns are channels. An empty field is a
      missing value.

    Parameters
    ----------
    lines
        Lines of text.
    columns
        The channels of the model, and the columns of CSV that are not channels.
    form
        "json", "csv" or "auto": lines that start with { or [ are JSON. If the first sample is JSON, all
        lines must be JSON.

    Examples
    --------
    >>> lines = [Line(1, "oops"), Line(2, '{"key": "a", "x": [1, null]}')]
    >>> [type(item).__name__ for item in read_samples(lines, Columns(2))]
    ['Malformed', 'Sample']
    >>> [item.x for item in read_samples([Line(1, "u,v"), Line(2, "3,")], Columns(2))]
    [[3.0, nan]]
    """
    parser = _Parser(columns, form)
    for line in lines:
        if isinstance(line, Line):
            yield from parser.parse(line)
        else:
            yield line


class _Parser:
    """The format as far as it is known."""

    def __init__(self, columns: Columns, form: str) -> None:
        self.columns, self.form = columns, form
        self.header: Header | None = None
        self.unused_header: Line | None = None  # accepted as a header, but no row has followed yet
        self.refused: int | None = None  # line that was refused as a header
        self.rows = False  # whether a row of CSV was accepted

    def parse(self, line: Line) -> Iterator[Item]:
        """Yield the sample of a line, preceded by the error in a header that turns out not to be one."""
        if self.form == "json":
            yield parse_json(line.number, line.text)
            return
        if self.form == "auto" and line.text[0] in "{[":
            item = parse_json(line.number, line.text)
            if isinstance(item, Sample):
                yield from self._settle_on_json()
                yield item
                return
            if self.header is None:
                yield item
                return
        row = self._row(line)
        if row is not None:
            yield row

    def _settle_on_json(self) -> Iterator[Item]:
        if self.rows:
            return  # one line of JSON does not end an input in CSV
        if self.columns.chosen:
            raise ValueError("--channels, --drop and --echo can only be used with CSV; the input is JSON.")
        self.form = "json"
        if self.unused_header is not None:
            yield Malformed(self.unused_header.number, "not JSON, but the lines after it are")

    def _row(self, line: Line) -> Item | None:
        """Return the sample of a row of CSV; None if it is the header."""
        try:
            fields = split(line.text)
            if self.header is None:
                return self._first_row(line, fields)
            sample = self.header.sample(line.number, fields)
        except ValueError as error:
            return Malformed(line.number, str(error))
        self.unused_header, self.rows = None, True
        return sample

    def _first_row(self, line: Line, fields: list[str]) -> Item | None:
        if is_numbers(fields):
            # Rows after a header that was refused may have their columns in another order.
            if self.refused is not None:
                raise ValueError(f"there is no valid header; line {self.refused} was refused")
            header = Header(self.columns.count, list(range(self.columns.count)))
            sample = header.sample(line.number, fields)
            self.header, self.rows = header, True
            return sample
        try:
            self.header, self.unused_header = Header.of(fields, self.columns), line
        except ValueError:
            self.refused = line.number
            raise
        return None
