"""No line ends a run of `stopwise decide`, and none changes the streams of other keys."""

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stopwise as sw
from helpers import early
from stopwise.streaming.csv_lines import Columns
from stopwise.streaming.lines import read_lines
from stopwise.streaming.reading import read_samples
from stopwise.streaming.server import StreamServer

X, Y, _ = sw.datasets.gaussian(60, offset=1.0, channels=2, length=8, seed=0)
BASES = [
    b'{"key": "bad", "x": [1.5, -2.0], "seq": 17, "end": false, "ts": "12:00"}',
    b'{"key": "bad", "x": {"u": 1, "v": 2}}',
    b'{"x": [1, null], "end": true}',
    b"[0.25, 1e-3]",
    b"bad,1.5,2",
    b'"bad, worse",1.5,-2e7',
    b"",
]
TOKENS = [
    b"[" * 3000,
    b"9" * 500,
    b"9" * 5000,
    b"NaN",
    b"Infinity",
    b"1e999",
    b"\x00",
    b"\xff\xfe",
    b'"',
    b"{}",
]
TOKENS += [
    b"\xef\xbb\xbf",
    b"null",
    b"true",
    b",",
    b"\\ud800",
    b"\xe2\x80\xa8",
    b"\r",
    b"a" * 140_000,
    b"_1",
    b"]}",
]


@pytest.fixture(scope="module")
def clf():
    return early(order=1, max_epochs=1, rule=sw.SPRT(3.0)).fit(X, Y)


def good_lines(form):
    places = [(t, i) for t in range(8) for i in range(10)]
    if form == "json":
        return [json.dumps({"key": f"s{i}", "x": X[i, t].tolist()}).encode() for t, i in places]
    return [f"s{i},{X[i, t, 0]},{X[i, t, 1]}".encode() for t, i in places]


def bad_line(rng):
    """Return a line that is damaged, or random bytes."""
    line = bytearray(BASES[rng.integers(len(BASES))])
    for _ in range(rng.integers(1, 4)):
        place, what = int(rng.integers(len(line) + 1)), rng.integers(5)
        if what == 0:
            line[place:place] = rng.bytes(int(rng.integers(1, 6)))
        elif what == 1:
            del line[place : place + int(rng.integers(1, 6))]
        elif what == 2:
            line[place:place] = TOKENS[rng.integers(len(TOKENS))]
        elif what == 3 and place < len(line):
            line[place] ^= 1 << rng.integers(8)
        else:
            line[place:] = line[:place]
    return bytes(line).replace(b"\n", b" ")


def served(clf, lines, form="json", max_line=100_000):
    """Run the server on lines; return its decisions, messages and counts."""
    decisions, notes = [], []
    server = StreamServer(clf.streams, decisions.append, notes.append)
    header = [] if form == "json" else [b"key,u,v"]
    data = io.BytesIO(b"\n".join([*header, *lines]))
    server.serve(read_samples(read_lines(data, max_line), Columns(2), form="auto"))
    json.dumps(decisions)  # they can be written
    return decisions, notes, server.counts


def of_good_streams(decisions):
    kept = {one["key"]: one for one in decisions if str(one.get("key")) in {f"s{i}" for i in range(10)}}
    return {key: (one["label"], one["time"], one["forced"], one["scores"]) for key, one in kept.items()}


def run_lines(clf, count, form, seed):
    rng, good = np.random.default_rng(seed), good_lines(form)
    expected = of_good_streams(served(clf, good, form)[0])
    mixed = good[:1]
    per_line = count // (len(good) - 1)
    for line in good[1:]:
        mixed += [bad_line(rng) for _ in range(per_line)] + [line]
    mixed += [bad_line(rng) for _ in range(count - per_line * (len(good) - 1))]
    decisions, notes, counts = served(clf, mixed, form)
    assert of_good_streams(decisions) == expected
    assert len(expected) == 10
    assert len([text for text in notes if " skipped: " in text]) == counts.rejected
    return {"rejected": counts.rejected, "taken as samples": counts.samples - len(good), "ends": counts.ends}


@pytest.mark.parametrize("form", ["json", "csv"])
def test_bad_lines_are_skipped(clf, form):
    assert run_lines(clf, 400, form, seed=1)["rejected"] > 200


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "csv"])
def test_campaign_of_bad_lines(clf, form):
    result = run_lines(clf, 5000, form, seed=0)
    print(f"\n5000 bad lines among 80 of {form}: {result}; 0 ended runs, 0 silent changes")
    assert result["rejected"] > 2500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from(["key", "x", "end", "seq", "label", "ts", "schema"]), JSON)


@given(st.lists(FIELDS.map(json.dumps) | JSON.map(json.dumps) | st.text(), max_size=6))
@settings(max_examples=100, deadline=None)
def test_any_json_and_any_text_is_read_or_reported(clf, texts):
    lines = [text.encode("utf-8", "surrogatepass").replace(b"\n", b" ") for text in texts]
    first = b'{"key": "s0", "x": [0, 0]}'
    counts = served(clf, [first, *lines])[2]
    read = len(list(read_lines(io.BytesIO(b"\n".join([first, *lines])))))
    assert counts.samples + counts.late + counts.rejected + counts.ends >= read
    assert counts.samples >= 1
