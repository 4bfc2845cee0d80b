"""The tables on the pages of results are those that the tools make from the stored results."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(request, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield import_module(request.param)
    for name in (request.param, "pages"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("tool", ["bench_table", "result_tables"], indirect=True)
def test_pages_have_the_tables_of_the_results(tool, monkeypatch):
    found = {}

    def compare(page, name, table):
        found[name] = f"<!-- {name} -->\n{table}<!-- end of {name} -->" in page.read_text(encoding="utf-8")

    monkeypatch.setattr(tool, "replace_table", compare)
    tool.main()
    assert found
    stale = [name for name, same in found.items() if not same]
    assert not stale, f"run `make figures`, or python tools/{tool.__name__}.py"


@pytest.mark.parametrize("tool", ["pages"], indirect=True)
def test_only_the_lines_between_the_markers_change(tool, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- end of a -->\nafter\n")
    tool.replace_table(page, "a", tool.head("x", "y") + tool.row("1", "2"))
    table = "| x | y |\n|---|---|\n| 1 | 2 |\n"
    assert page.read_text() == f"before\n<!-- a -->\n{table}<!-- end of a -->\nafter\n"
    with pytest.raises(SystemExit, match="must have the marker <!-- b --> once"):
        tool.replace_table(page, "b", "")
