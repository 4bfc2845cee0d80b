"""Replace tables of the documentation that are made from files of results."""

import re
from pathlib import Path


def replace_table(page: Path, name: str, table: str) -> None:
    """Replace the lines between ``<!-- name -->`` and ``<!-- end of name -->`` of a page."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    text, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}",
        lambda _: begin + table + end,
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if count != 1:
        raise SystemExit(f"{page} must have the marker {begin.strip()} once.")
    page.write_text(text, encoding="utf-8")


def row(*cells: str) -> str:
    """Return one row of a table."""
    return f"| {' | '.join(cells)} |\n"


def head(*cells: str) -> str:
    """Return the heading of a table."""
    return row(*cells) + f"|{'---|' * len(cells)}\n"
