"""`stopwise report`."""

import numpy as np
import pytest

import stopwise as sw


@pytest.fixture(scope="module")
def data(folder):
    X, y, _ = sw.datasets.gaussian(300, offset=1.0, channels=2, length=8, seed=3)
    sw.datasets.write(folder / "new.npz", X, np.array(["no", "yes"])[y])
    return folder / "new.npz"


def test_the_page_is_written(run, folder, data, tmp_path, clf):
    out = tmp_path / "page.html"
    loss = ("--loss", "no:yes=2", "--loss", "yes:no=3")
    printed = run("report", folder / "model", data, "-o", out, "--cost", 0.1, "--title", "Mine", *loss)
    assert printed.startswith(f"Report: {out} (0.")
    series = sw.datasets.read(data)
    losses = {("no", "yes"): 2.0, ("yes", "no"): 3.0}
    expected = sw.report(clf, series.X, series.y, cost=0.1, loss=losses, title="Mine")
    assert out.read_text(encoding="utf-8") == expected.html


def test_a_bad_out_is_reported_first(folder, data, tmp_path, refusal):
    assert "Create it first" in refusal("report", folder / "model", data, "-o", tmp_path / "none" / "a.html")
    assert "it is a folder" in refusal("report", folder / "model", data, "-o", tmp_path)


def test_unknown_labels(folder, tmp_path, refusal):
    X, y, _ = sw.datasets.gaussian(20, channels=2, length=8, seed=3)
    sw.datasets.write(tmp_path / "other.npz", X, np.array(["no", "maybe"])[y])
    assert "labels the model does not know: maybe" in refusal(
        "report", folder / "model", tmp_path / "other.npz", "-o", tmp_path / "a.html"
    )
