"""Plain English: refuse the words and phrases of `words.txt` in code, comments and documents.

    python tools/check_words.py [FILE ...]        # without files: every text file under version control

A line that must use such a word, say because it quotes an API, ends in a comment with `words: ok`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".md", ".toml", ".yml", ".yaml", ".cff", ".txt", ".ipynb"}
# The list itself, and pinned package names.
SKIPPED = {"tools/words.txt", "constraints.txt"}
ALLOWED = "words: ok"


def read_list(text: str) -> list[tuple[re.Pattern[str], str]]:
    """Return (pattern, suggestion) for every entry of a word list."""
    entries = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            words, _, suggestion = line.partition(" -> ")
            if not suggestion:
                raise ValueError(f"words.txt: {line!r} has no ' -> suggestion'")
            # Between two words there may be a line break, and then the start of a comment.
            spaced = words.strip().replace(" ", r"(?:[ \t]|\n[ \t#>*-]*)")
            entries.append((re.compile(rf"(?<![\w-])(?:{spaced})(?![\w-])", re.IGNORECASE), suggestion))
    return entries


def findings(text: str, entries: list[tuple[re.Pattern[str], str]]) -> list[tuple[int, str, str]]:
    """Return (line number, what was found, suggestion) in the order of the lines."""
    lines = text.splitlines()
    # Names are text too: with spaces for underscores they are searched like sentences.
    prose = text.replace("_", " ")
    found = []
    for pattern, suggestion in entries:
        for match in pattern.finditer(prose):
            number = prose.count("\n", 0, match.start()) + 1
            if ALLOWED not in lines[number - 1]:
                found.append((number, " ".join(match.group().split()), suggestion))
    return sorted(found)


def tracked_files() -> list[Path]:
    """Return the text files under version control, and new ones that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [
        ROOT / n for n in names if Path(n).suffix in SUFFIXES and n not in SKIPPED and (ROOT / n).exists()
    ]


def main(names: list[str]) -> int:
    """Print every finding; return 1 if there is one."""
    entries = read_list((ROOT / "tools" / "words.txt").read_text())
    count = 0
    for path in [Path(n).resolve() for n in names] or tracked_files():
        for number, found, suggestion in findings(path.read_text(), entries):
            print(f"{path.relative_to(ROOT)}:{number}: {found!r} (better: {suggestion})")
            count += 1
    if count:
        print(f"{count} findings; the list is tools/words.txt")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
