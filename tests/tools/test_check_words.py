import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "tools" / "check_words.py"
spec = importlib.util.spec_from_file_location("check_words", PATH)
check_words = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_words)

LIST = check_words.read_list("# comment\nanew -> again\nwhole numbers? -> integer\n")  # words: ok


def found(text):
    return [(line, words) for line, words, _ in check_words.findings(text, LIST)]


def test_words_are_found_with_their_line_and_a_suggestion():
    text = "fine\nstart Anew, with whole numbers\n"  # words: ok
    first, second = check_words.findings(text, LIST)
    assert first == (2, "Anew", "again")  # words: ok
    assert second == (2, "whole numbers", "integer")  # words: ok


def test_phrases_are_found_across_lines_of_a_comment():
    assert found("x = 1  # one whole\n# number per row\n") == [(1, "whole # number")]  # words: ok


def test_names_are_read_as_words():
    assert found("def test_fit_starts_anew():\n") == [(1, "anew")]  # words: ok


def test_parts_of_longer_words_are_not_found():
    assert found("renewal, ganew, wholesale numbers\n") == []  # words: ok


def test_a_line_can_be_exempted():
    assert found("anew  # words: ok\n") == []


def test_an_entry_without_a_suggestion_is_an_error():
    with pytest.raises(ValueError, match="'anew' has no ' -> suggestion'"):  # words: ok
        check_words.read_list("anew\n")  # words: ok


def test_the_list_refuses_the_words_it_names_and_accepts_better_ones():
    entries = check_words.read_list((PATH.parent / "words.txt").read_text())
    bad = "mend the colour, one file a run; told anew; it shall; beside; learnt, normalised"  # words: ok
    good = "fix the color, one file per run; the truth is reported again; learned and normalized; or else"
    assert len(check_words.findings(bad, entries)) == 9
    assert check_words.findings(good, entries) == []
