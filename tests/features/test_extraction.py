"""Extraction of features: correct values, resuming, and errors."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from stopwise import datasets
from stopwise.features import (
    Backbone,
    Sampling,
    build_backbone,
    extract,
    find_clips,
    load_encoder,
    read_frames,
)


class Means(nn.Module):
    """The mean colors of the four quarters of an image."""

    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)


MEANS = Backbone(Means(), "means", size=16, short_side=16)


def arrays(folder):
    return {path.name: np.load(path, allow_pickle=False) for path in sorted(folder.glob("*.npy"))}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def test_features_equal_those_of_the_frames_of_each_video(dots, tmp_path):
    layout = find_clips(dots)
    report = extract(layout, MEANS, tmp_path / "out", frames=8, batch_size=3)
    for part, count in (("train", 8), ("test", 4)):
        data = datasets.read(tmp_path / "out" / part)
        names = np.load(tmp_path / "out" / f"{part}_names.npy")
        assert len(data) == report["parts"][part]["videos"] == count
        for name, label, x in zip(names, data.y, data.X):
            pixels = read_frames(dots / name, Sampling(frames=8, size=16, short_side=16)).frames / 255.0
            quarters = pixels.reshape(-1, 2, 8, 2, 8, 3).mean(axis=(2, 4)).transpose(0, 3, 1, 2)
            np.testing.assert_allclose(x, quarters.reshape(len(pixels), 12), atol=1e-5)
            assert name.startswith(f"{label}/")
    assert report["parts"]["train"] == {"videos": 8, "classes": 2, "steps": [6, 8], "features": 12}
    assert json.loads((tmp_path / "out" / "features.json").read_text()) == report
    assert not (tmp_path / "out" / "work").exists()


def test_groups_are_written(tmp_path, write_video):
    rng = np.random.default_rng(0)
    (tmp_path / "classInd.txt").write_text("1 Archery")
    for part, group in (("train", "g08"), ("test", "g01")):
        name = f"v_Archery_{group}_c01.avi"
        write_video(tmp_path / "Archery" / name, rng.integers(0, 256, (5, 16, 16, 3), dtype=np.uint8))
        (tmp_path / f"{part}list01.txt").write_text(f"Archery/{name}")
    extract(find_clips(tmp_path, "ucf101"), MEANS, tmp_path / "out", frames=5)
    assert np.load(tmp_path / "out" / "train_groups.npy").tolist() == ["g08"]
    assert np.load(tmp_path / "out" / "test_groups.npy").tolist() == ["g01"]
    assert not (tmp_path / "out" / "train_lengths.npy").exists()


def test_unreadable_videos_are_skipped_and_reported(dots, tmp_path):
    shutil.copytree(dots, tmp_path / "videos")
    (tmp_path / "videos" / "left" / "0.avi").write_bytes(b"damaged" * 100)
    (tmp_path / "videos" / "right" / "1.avi").write_bytes(b"")
    report = extract(find_clips(tmp_path / "videos", test_fraction=0), MEANS, tmp_path / "out")
    assert [(item["video"], item["reason"]) for item in report["skipped"]] == [
        ("left/0.avi", "not a video, or damaged (Invalid data found when processing input)"),
        ("right/1.avi", "the file is empty"),
    ]
    names = np.load(tmp_path / "out" / "train_names.npy")
    assert len(names) == 10
    assert not {"left/0.avi", "right/1.avi"} & set(names)
    assert len(datasets.read(tmp_path / "out" / "train")) == 10


def test_training_videos_that_are_all_unreadable_raise(tmp_path):
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "x.mp4").write_bytes(b"damaged")
    with pytest.raises(
        ValueError, match=r"none of the training videos can be read; the first one: not a video"
    ):
        extract(find_clips(tmp_path), MEANS, tmp_path / "out")


SCRIPT = """
import sys, time, torch
sys.path.insert(0, sys.argv[3])
from test_extraction import Means, MEANS
from stopwise.features import extract, find_clips
class Slow(Means):
    def forward(self, x):
        time.sleep(0.15)
        return super().forward(x)
MEANS.net.__class__ = Slow
extract(find_clips(sys.argv[1]), MEANS, sys.argv[2])
"""


def test_killed_run_resumes_with_the_same_result(dots, tmp_path):
    out, cache = tmp_path / "out", tmp_path / "out" / "work" / "features"
    command = [sys.executable, "-c", SCRIPT, str(dots), str(out), str(Path(__file__).parent)]
    with subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}) as run:
        deadline = time.monotonic() + 60
        while len(list(cache.glob("[!.]*.npy"))) < 4 and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    done = {path: path.stat().st_mtime_ns for path in cache.glob("[!.]*.npy")}
    assert 4 <= len(done) < 12
    assert not (out / "train_X.npy").exists()
    layout = find_clips(dots)
    calls = []
    handle = MEANS.net.register_forward_hook(lambda *_: calls.append(1))
    try:
        report = extract(layout, MEANS, out)
    finally:
        handle.remove()
    assert len(calls) == 12 - len(done)
    assert report == extract(layout, MEANS, tmp_path / "whole")
    assert_same(arrays(out), arrays(tmp_path / "whole"))


@pytest.mark.parametrize("function", ["write_padded", "_move_files", "write_json"])
def test_run_interrupted_at_the_end_resumes(dots, tmp_path, monkeypatch, function):
    from stopwise.features import clip_cache, output

    owner = {"write_padded": clip_cache.ClipCache, "_move_files": output.OutputFolder, "write_json": output}[
        function
    ]
    original = getattr(owner, function)

    def fail(*arguments):
        if function != "write_json" or arguments[0].name == "features.json":
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(owner, function, fail)
    with pytest.raises(KeyboardInterrupt):
        extract(find_clips(dots), MEANS, tmp_path / "out")
    monkeypatch.undo()
    extract(find_clips(dots), MEANS, tmp_path / "out")
    extract(find_clips(dots), MEANS, tmp_path / "whole")
    assert_same(arrays(tmp_path / "out"), arrays(tmp_path / "whole"))
    assert not (tmp_path / "out" / "work").exists()


def test_finished_features_are_not_computed_again(dots, tmp_path):
    first = extract(find_clips(dots), MEANS, tmp_path / "out")

    class NeverCalled(Means):
        def forward(self, x):
            raise AssertionError

    again = Backbone(NeverCalled(), "means", size=16, short_side=16)
    assert extract(find_clips(dots), again, tmp_path / "out") == first
    with pytest.raises(
        ValueError, match=r"out was written with frames = 50; now it is 7. Choose another folder"
    ):
        extract(find_clips(dots), MEANS, tmp_path / "out", frames=7)
    with pytest.raises(ValueError, match=r"out holds features of other videos: some were added, removed or"):
        extract(find_clips(dots, seed=5), MEANS, tmp_path / "out")


def test_existing_files_are_not_overwritten(dots, tmp_path):
    np.save(tmp_path / "train_X.npy", np.zeros(3))
    with pytest.raises(FileExistsError, match=r"train_X.npy exists and was not written by this command"):
        extract(find_clips(dots), MEANS, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match=r"`out` must be a folder; .*file is a file"):
        extract(find_clips(dots), MEANS, tmp_path / "file")


def test_features_that_are_not_finite_raise(dots, tmp_path):
    class Broken(Means):
        def forward(self, x):
            return super().forward(x) / 0

    with pytest.raises(FloatingPointError, match=r"the backbone broken returns NaN or infinity"):
        extract(find_clips(dots), Backbone(Broken(), "broken", size=16), tmp_path / "out")


def test_unknown_device_raises_before_anything_is_written(dots, tmp_path):
    with pytest.raises(
        ValueError, match=r"`device` must be a torch device that is available here; got 'abacus' \("
    ):
        extract(find_clips(dots), build_backbone("small", size=16), tmp_path / "out", device="abacus")
    assert not (tmp_path / "out").exists()


def test_backbone_that_returns_feature_maps_raises(dots, tmp_path):
    with pytest.raises(
        ValueError, match=r"maps returned shape \(\d, 3, 16, 16\) for \d images. Flatten or pool"
    ):
        extract(find_clips(dots), Backbone(nn.Identity(), "maps", size=16), tmp_path / "out")


def test_decoding_in_parallel_gives_the_same_result(dots, tmp_path):
    for workers in (1, 3):
        extract(find_clips(dots), MEANS, tmp_path / str(workers), workers=workers)
    assert_same(arrays(tmp_path / "1"), arrays(tmp_path / "3"))


FIT = {"epochs": 15, "batch_size": 32, "learning_rate": 5e-3}


@pytest.fixture(scope="module")
def fitted(dots, tmp_path_factory):
    out = tmp_path_factory.mktemp("fitted")
    extract(find_clips(dots), build_backbone("small", size=16, dim=4), out / "fit", frames=6, fit=FIT)
    return out / "fit"


def test_features_of_a_trained_backbone_separate_the_classes(dots, fitted, tmp_path):
    """In the last frame the dot has left the center."""
    train, test = (datasets.read(fitted / part) for part in ("train", "test"))
    assert train.X.shape == (8, 6, 4)
    means = {label: train.X[train.y == label, -1].mean(axis=0) for label in ("left", "right")}
    nearest = [min(means, key=lambda label: np.linalg.norm(x[-1] - means[label])) for x in test.X]
    assert nearest == test.y.tolist()
    # The saved encoder gives the same features.
    backbone = build_backbone("small", fitted / "encoder.safetensors")
    extract(find_clips(dots), backbone, tmp_path / "again", frames=6)
    np.testing.assert_allclose(
        np.load(tmp_path / "again" / "test_X.npy"), np.load(fitted / "test_X.npy"), atol=1e-4
    )
    assert load_encoder(fitted / "encoder.safetensors").dim == 4


def test_interrupted_run_keeps_the_trained_backbone(dots, fitted, tmp_path, monkeypatch):
    from stopwise.features import extraction

    def run():
        extract(
            find_clips(dots), build_backbone("small", size=16, dim=4), tmp_path / "out", frames=6, fit=FIT
        )

    monkeypatch.setattr(extraction, "encode", None)  # fails after training
    with pytest.raises(TypeError):
        run()
    monkeypatch.undo()
    monkeypatch.setattr(extraction, "fit_encoder", None)  # must not be called again
    run()
    assert_same(arrays(tmp_path / "out"), arrays(fitted))


@pytest.mark.parametrize(
    ("name", "dim"),
    [("resnet18", None), ("resnet18", 7), pytest.param("resnet152", 512, marks=pytest.mark.slow)],
)
def test_trained_resnet_can_be_loaded_again(dots, tmp_path, name, dim):
    layout = find_clips(dots)
    before = build_backbone(name, size=32, dim=dim)
    start = [parameter.detach().clone() for parameter in before.net.net.net.layer4.parameters()]
    extract(
        layout, before, tmp_path / "out", frames=2, fit={"epochs": 1, "batch_size": 8, "frames_per_series": 1}
    )
    assert not any(
        torch.equal(one, other) for one, other in zip(start, before.net.net.net.layer4.parameters())
    )
    assert np.load(tmp_path / "out" / "train_X.npy").shape == (8, 2, dim or 512)
    after = build_backbone(name, tmp_path / "out" / "encoder.safetensors", size=32)
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(after.net(x), before.net(x))


REAL = Path(os.environ.get("STOPWISE_DATA", "")) / "video"


@pytest.mark.skipif(
    not (os.environ.get("STOPWISE_DATA") and REAL.is_dir()), reason="STOPWISE_DATA has no video"
)
def test_real_videos_with_official_lists(tmp_path):
    layout = find_clips(REAL / "clips_jhmdb", "hmdb51", split=2, splits=REAL / "splits" / "hmdb51")
    report = extract(layout, MEANS, tmp_path / "out", frames=10)
    assert {part: info["videos"] for part, info in report["parts"].items()} == {"train": 11, "test": 4}
    assert len(report["missing"]) == 5100 - 15
    assert report["skipped"] == report["damaged"] == []
