"""Every code block of the README and of the documentation runs, page by page and in order.

- `python` and `{code-cell}` blocks share one namespace per page; blocks with `>>>` are doctests.
- `console` blocks: lines that start with `$ ` run in a shell, and the lines below must match the output
  (`...` matches anything). Without such lines only the exit code is checked.
- A block after `<!-- not run: reason -->` is skipped; the reason is required.
- Blocks of other languages are not code to run (`text`, `json`, `yaml`).
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in PAGES if not {"_build", "generated", "jupyter_execute"} & set(page.parts)]
PYTHON = ("python", "{code-cell}")
NOT_CODE = (
    "text",
    "json",
    "csv",
    "yaml",
    "bibtex",
    "{eval-rst}",
    "{toctree}",
    "{image}",
    "{figure}",
    "{math}",
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Block:
    """A fenced block: its language, text, first line in the page, and why it is not run, if it is not."""

    language: str
    text: str
    line: int
    not_run: str | None = None


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, also those inside directives."""
    found, reason = [], None
    for token in MarkdownIt().parse(text):
        if token.type == "html_block":
            match = re.search(r"<!-- not run: (.+?) -->", token.content)
            reason = match.group(1) if match else None
        elif token.type == "fence" and token.map is not None:
            language = (token.info.split() or [""])[0]
            found.append(Block(language, token.content, token.map[0] + 1, reason))
            reason = None
    return found


def without_options(text: str) -> str:
    """Return the code of a cell with its options (`:tags: [...]`) blanked, so that line numbers stay."""
    return re.sub(r"^:.*$", "", text, flags=re.MULTILINE)


def run_python(block: Block, page: Path, namespace: dict) -> None:
    if block.text.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, namespace, page.name, str(page), block.line)
        output: list[str] = []
        failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=output.append, clear_globs=False)
        namespace.update(test.globs)
        assert not failed, "".join(output)
    else:
        # Empty lines in front make the line numbers of a traceback those of the page.
        code = "\n" * block.line + without_options(block.text)
        exec(compile(code, str(page), "exec"), namespace)


def run_console(block: Block, page: Path, folder: Path) -> None:
    commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not commands[0].strip(), f"{page.name}:{block.line}: a console block starts with '$ '"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "100"}
    for entry in commands[1:]:
        command, expected = re.fullmatch(r"((?:.*\\\n)*.*)\n?((?s:.*))", entry).groups()
        command = re.sub(r"\s+#.*$", "", command, flags=re.MULTILINE)
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        where = f"{page.name}:{block.line}: $ {command}"
        assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"
        if expected.strip():
            matches = doctest.OutputChecker().check_output(expected, done.stdout, FLAGS)
            assert matches, f"{where}\nexpected:\n{expected}\ngot:\n{done.stdout}"


def marked(page: Path) -> object:
    """Return the page with its marker: the notebooks of the gallery take up to half a minute each."""
    marker = pytest.mark.slow if page.parent.name == "gallery" else pytest.mark.docs
    return pytest.param(page, marks=marker, id=str(page.relative_to(ROOT)))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_code_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    # A real module, so that classes defined on the page can be pickled.
    module = types.ModuleType("__page__")
    monkeypatch.setitem(sys.modules, "__page__", module)
    namespace = vars(module)
    for block in blocks(page.read_text()):
        if block.not_run is not None:
            continue
        if block.language in PYTHON:
            run_python(block, page, namespace)
        elif block.language == "console":
            run_console(block, page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_run_or_says_why_not(page):
    for block in blocks(page.read_text()):
        directive = block.language.startswith("{") and block.language != "{code-cell}"
        known = block.language in (*PYTHON, "console", *NOT_CODE) or directive
        assert known or block.not_run, f"{page.name}:{block.line}: name the language of this block"


def test_blocks_are_found_with_their_reasons():
    text = "A\n\n```python\na = 1\n```\n\n<!-- not run: needs a GPU -->\n\n```python\nb = 2\n```\n"
    assert blocks(text) == [Block("python", "a = 1\n", 3), Block("python", "b = 2\n", 9, "needs a GPU")]


def test_a_wrong_block_fails(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run_python(Block("python", "1 / 0\n", 1), Path("page.md"), {})
    with pytest.raises(AssertionError, match="Expected"):
        run_python(Block("python", ">>> 1 + 1\n3\n", 1), Path("page.md"), {})
    with pytest.raises(AssertionError, match=r"got:\s+hello"):
        run_console(Block("console", "$ echo hello\ngoodbye\n", 1), Path("page.md"), tmp_path)
    with pytest.raises(AssertionError, match="oops"):
        run_console(Block("console", "$ echo oops; exit 3\n", 1), Path("page.md"), tmp_path)
