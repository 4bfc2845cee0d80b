"""`stopwise features`, and training and evaluation on its output."""

import json
import sys

import av
import numpy as np
import pytest


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("videos"), np.random.default_rng(0)
    for label, level in (("dark", 40), ("light", 200)):
        (folder / label).mkdir()
        for number in range(8):
            with av.open(str(folder / label / f"{number}.mp4"), "w") as container:
                stream = container.add_stream("mpeg4", rate=10)
                stream.height, stream.width, stream.pix_fmt = 32, 32, "yuv420p"
                for _ in range(6):
                    picture = rng.integers(level - 30, level + 30, (32, 32, 3)).astype(np.uint8)
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
                container.mux(stream.encode())
    return folder


def test_features_can_be_used_by_train_and_evaluate(run, videos, tmp_path):
    printed = run(
        "features", videos, "--backbone", "small", "--size", 16, "--frames", 5, "-o", tmp_path / "f"
    )
    assert "the weights of small are random, and so are the features" in " ".join(printed.split())
    assert json.loads((tmp_path / "f" / "features.json").read_text())["settings"]["trained"] is False
    assert "train: 12 videos of 2 classes, 5 frames, 64 features each." in printed
    assert f"Next: stopwise train {tmp_path / 'f' / 'train'} -o MODEL" in printed
    run(
        "train",
        tmp_path / "f" / "train",
        "-o",
        tmp_path / "m",
        "--model",
        "accumulator",
        "--set",
        "order=0",
        "--set",
        "training.max_epochs=20",
        "--json",
    )
    result = json.loads(run("evaluate", tmp_path / "m", tmp_path / "f" / "test", "--json"))
    assert result["n"] == 4
    assert result["rules"][0]["macro_error"] == 0


def test_no_note_on_untrained_weights_with_fit(run, videos, tmp_path):
    common = ["features", videos, "--backbone", "small", "--size", 16, "--frames", 3]
    printed = run(*common, "--fit", "--epochs", 1, "-o", tmp_path / "f")
    assert "are random" not in printed
    assert (tmp_path / "f" / "encoder.safetensors").exists()
    report = json.loads(
        run(*common, "--weights", tmp_path / "f" / "encoder.safetensors", "-o", tmp_path / "g", "--json")
    )
    assert report["settings"]["trained"] is True
    assert report["parts"]["test"]["videos"] == 4


def test_skipped_videos_are_listed(run, videos, tmp_path):
    for label in ("dark", "light"):
        (tmp_path / "w" / label).mkdir(parents=True)
        for path in (videos / label).iterdir():
            (tmp_path / "w" / label / path.name).write_bytes(path.read_bytes())
    (tmp_path / "w" / "dark" / "[x].mp4").write_bytes(b"")
    printed = run("features", tmp_path / "w", "--backbone", "small", "--size", 8, "-o", tmp_path / "f")
    assert "Skipped: dark/[x].mp4: the file is empty" in printed


def test_a_missing_folder_raises(run, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`videos` must be an existing folder of videos; got .*none"):
        run("features", tmp_path / "none", "-o", tmp_path / "f")


def test_the_error_without_pyav_names_the_extra(run, videos, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ImportError, match=r"reading videos needs av: pip install 'stopwise\[video\]'"):
        run("features", videos, "--backbone", "small", "-o", tmp_path / "f")
