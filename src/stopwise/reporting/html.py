"""The page: template, style, script and numbers in one file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from stopwise.reporting.summary import Tile

SCRIPTS = ("numbers.js", "charts.js", "tables.js", "examples.js", "report.js")


def page(title: str, subtitle: str, tiles: Sequence[Tile], summary: Sequence[str], data: Any) -> str:
    """Return the page as HTML.

    All texts are escaped, so names of classes may contain anything.

    Parameters
    ----------
    title, subtitle
        Title of the report, and a line below it.
    tiles
        The numbers at the top.
    summary
        Sentences below them.
    data
        The numbers of the charts and tables, as JSON values.
    """
    return _filled(
        _read("template.html"),
        {
            "title": escape(title),
            "subtitle": escape(subtitle),
            "tiles": "\n".join(_tile(tile) for tile in tiles),
            "summary": "\n".join(f"<p>{escape(text)}</p>" for text in summary),
            "style": _read("report.css"),
            "data": embedded_json(data),
            "script": "\n".join(_read(name) for name in SCRIPTS),
        },
    )


def embedded_json(value: Any) -> str:
    r"""Return JSON that can stand in a script element: no text can end the element.

    Examples
    --------
    >>> print(embedded_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII only
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def framed(html: str, height: int = 900) -> str:
    """Return the page in a frame for notebooks; it cannot reach the notebook around it.

    Examples
    --------
    >>> framed("<p>one</p>")
    '<iframe sandbox="allow-scripts" title="Report" style="width:100%;height:900px;border:0" ...'
    """
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe sandbox="allow-scripts" title="Report" style="{style}" srcdoc="{escape(html)}"></iframe>'


def _tile(tile: Tile) -> str:
    state = f" {tile.state}" if tile.state else ""
    return (
        f'<div class="tile{state}"><dt>{escape(tile.name)}</dt><dd><strong>{escape(tile.value)}</strong> '
        f"<span>{escape(tile.remark)}</span></dd></div>"
    )


def _filled(template: str, parts: Mapping[str, str]) -> str:
    # One pass, so that what is inserted is never read as a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], template)


def _read(name: str) -> str:
    return (files("stopwise.reporting") / "page" / name).read_text(encoding="utf-8")
