"""`stopwise decide`: decisions as CSV, files of series, and channels by name."""

import json

import numpy as np
import pytest

import stopwise as sw
from decide_helpers import decide, lines
from helpers import early


def test_decisions_as_csv(folder, clf, X):
    text = lines(X).replace('"key": "s0"', '"ts": 7, "key": "s0"')
    rows, _ = decide(folder, text, "--output-format", "csv")
    printed, _ = decide(folder, text)
    for row, one in zip(rows, printed, strict=True):
        assert (row["key"], row["label"], int(row["time"])) == (one["key"], one["label"], one["time"])
        assert row["forced"] == str(one["forced"]).lower()
        assert [float(row["score_no"]), float(row["score_yes"])] == one["scores"]
        assert (row["model"], row["schema"]) == (one["model"], "1")
        assert row["input"] == ('{"ts": 7}' if row["key"] == "s0" else "")


@pytest.mark.parametrize("name", ["all.csv", "all.npz", "all_X.npy", "all"])
def test_files_of_series_are_decided_like_streams(folder, clf, X, tmp_path, name):
    y = np.arange(6) % 2
    sw.datasets.write(tmp_path / name, X, y)
    printed, err = decide(folder, None, "--input", tmp_path / name)
    for i, (one, decision) in enumerate(zip(printed, clf.decide(X), strict=True)):
        assert str(one["key"]) == str(i)
        assert (one["label"], one["time"], one["forced"]) == (decision.label, decision.time, decision.forced)
        assert one["input_label"] == y[i]
    assert err.startswith("stopwise: 48 samples (")


def test_a_ts_file_and_series_that_cannot_be_used(folder, clf, X, tmp_path):
    rows = [":".join(",".join(map(str, channel)) for channel in x.T) for x in X]
    rows[2] = "?" + rows[2][rows[2].index(",") :]
    (tmp_path / "all.ts").write_text("@classLabel false\n@data\n" + "\n".join(rows))
    printed, err = decide(folder, None, "--input", tmp_path / "all.ts")
    assert [one["key"] for one in printed] == [0, 1, 3, 4, 5]
    assert "series 2 skipped: `X` must be finite" in err
    assert err.endswith("1 lines rejected\n")


def test_long_form_csv_as_lines(folder, clf, X, tmp_path):
    sw.datasets.write(tmp_path / "all.csv", X)
    printed, _ = decide(folder, (tmp_path / "all.csv").read_text())
    assert {int(one["key"]): one["time"] for one in printed} == dict(enumerate(clf.decide(X).times.tolist()))


def test_channels_are_matched_by_name(X, tmp_path):
    names, (train, y, _) = ["acc_x", "acc_y"], sw.datasets.gaussian(60, channels=2, length=8, seed=0)
    clf = early(order=0, max_epochs=1, rule=sw.SPRT(50.0)).fit(sw.SeriesSet(train, channel_names=names), y)
    clf.save(tmp_path / "model")
    named = sw.SeriesSet(X[:1], channel_names=clf.channel_names_)
    expected = clf.scores(named)[0, -1]
    swapped = "".join(json.dumps({"x": {"acc_y": v, "acc_x": u}}) + "\n" for u, v in X[0].tolist())
    table = "acc_y,ts,acc_x\n" + "".join(f"{v},now,{u}\n" for u, v in X[0].tolist())
    for text, options in ((swapped, []), (table, ["--echo", "ts"]), (table, ["--drop", "ts"])):
        (printed,), _ = decide(tmp_path, text, *options)
        np.testing.assert_allclose(printed["scores"], expected, atol=1e-4)
    for text, reason in (
        ('{"x": {"acc_x": 1, "acc_z": 2}}', "unknown: acc_z; missing: acc_y"),
        ("acc_x,acc_z\n1,2\n", "unknown: acc_z; missing: acc_y"),
        (table, "unknown: ts; missing: none"),
    ):
        assert reason in decide(tmp_path, text, code=1)[1]


def test_options_of_streams_are_refused_for_files_of_series(folder, X, tmp_path, refusal):
    sw.datasets.write(tmp_path / "all.npz", X)
    options = ["--input", tmp_path / "all.npz", "--rearm"]
    assert "can only be used with lines of samples" in refusal("decide", folder / "model", *options)
