"""Short HTML for notebooks, from texts that may contain anything: every text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

LONGEST_TEXT = 300
MOST_ROWS = 12
PADDING = "padding:.15em .6em"


class Html(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def text(value: Any) -> Html:
    """Return a value as escaped text, shortened if it is long.

    Examples
    --------
    >>> text("<b>"), text(Html("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    if isinstance(value, Html):
        return value
    shown = str(value)
    return Html(escape(shown if len(shown) <= LONGEST_TEXT else shown[: LONGEST_TEXT - 1] + "…"))


def block(title: str, *parts: Html) -> Html:
    """Return parts below a title.

    Examples
    --------
    >>> block("Decisions", paragraph("none"))
    '<div><strong>Decisions</strong><p style="margin:.3em 0">none</p></div>'
    """
    return Html(f"<div><strong>{text(title)}</strong>{''.join(parts)}</div>")


def paragraph(value: Any) -> Html:
    """Return a text as a paragraph."""
    return Html(f'<p style="margin:.3em 0">{text(value)}</p>')


def facts(rows: Iterable[tuple[str, Any]]) -> Html:
    """Return a table of names and values.

    Examples
    --------
    >>> facts([("series", 3)]).count("<tr>")
    1
    """
    cells = "".join(
        f'<tr><th scope="row" style="text-align:left;{PADDING}">{text(name)}</th>'
        f'<td style="text-align:left;{PADDING}">{text(value)}</td></tr>'
        for name, value in rows
    )
    return Html(f'<table style="margin:.3em 0"><tbody>{cells}</tbody></table>')


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Html:
    """Return a table whose first column is text and the others numbers; of many rows the first ones.

    Examples
    --------
    >>> table(["class", "series"], [["walk", 3]] * 20).count("<tr>")
    14
    """
    head = _row(header, 'th scope="col"', "th")
    body = "".join(_row(row, "td", "td") for row in rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        body += f'<tr><td colspan="{len(header)}">and {len(rows) - MOST_ROWS} more</td></tr>'
    return Html(f'<table style="margin:.3em 0"><thead>{head}</thead><tbody>{body}</tbody></table>')


def _row(cells: Sequence[Any], start: str, end: str) -> str:
    sides = ["left", *["right"] * (len(cells) - 1)]
    inner = (
        f'<{start} style="text-align:{side};{PADDING}">{text(cell)}</{end}>'
        for side, cell in zip(sides, cells)
    )
    return f"<tr>{''.join(inner)}</tr>"
