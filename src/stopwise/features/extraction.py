"""Extraction of features from video files."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stopwise.features.backbones import Backbone
from stopwise.features.clip_cache import ClipCache
from stopwise.features.encoding import encode
from stopwise.features.fitting import device_of, fit_encoder
from stopwise.features.layouts import Clip, Layout
from stopwise.features.output import OutputFolder, read_fitted, write_fitted
from stopwise.features.splits import TRAIN
from stopwise.features.video import Footage, Sampling, VideoError, read_frames
from stopwise.features.weights import fingerprint
from stopwise.progress import Reporter
from stopwise.validation import check_integer


def extract(
    layout: Layout,
    backbone: Backbone,
    out: str | os.PathLike[str],
    *,
    frames: int = 50,
    stride: int | None = None,
    fit: dict[str, Any] | None = None,
    batch_size: int = 64,
    workers: int = 1,
    device: str = "cpu",
    progress: bool | str = "auto",
) -> dict[str, Any]:
    """Extract series of features from videos and write them to files.

    The training part can be read with `datasets.read(out / "train")` and used with `stopwise train`. A killed
    run resumes when `extract` is called again with the same arguments, and gives the same features. Videos
    that cannot be decoded are skipped and listed in the report.

    Parameters
    ----------
    layout
        The videos, as returned by `find_clips`.
    backbone
        The network that maps images to features, from `build_backbone` or user-defined. It is moved to
        `device`.
    out
        The folder to write to. The files are train_X.npy, train_y.npy (class names), train_lengths.npy if
        the lengths differ, train_names.npy, train_groups.npy if groups are known, the same for test, and the
        report features.json. The series are sorted by class and name. Intermediate files are kept in the
        subfolder ``work`` until the end; they need as much disk space as the result or, with `fit`, twice as
        much as the frames. Only one run at a time may write to a folder.
    frames
        Maximum number of frames per video.
    stride
        If None, the frames are evenly spaced over the whole video. If an integer s, every s-th frame from
        the start is taken.
    fit
        Arguments of `fit_encoder`, with which the backbone is first trained on single frames of the training
        videos. It is saved as encoder.safetensors. If None, the backbone is not trained.
    batch_size
        Number of frames per batch; a batch never mixes videos.
    workers
        Number of videos decoded in parallel.
    device
        Name of a torch device.
    progress
        Whether to report progress. True shows a bar on a terminal and prints lines elsewhere; "auto" shows a
        bar on a terminal only; False shows nothing.

    Returns
    -------
    report
        The content of features.json: settings, classes, parts, notes, and the skipped, damaged, missing and
        ignored videos.

    Raises
    ------
    ValueError
        If `out` holds features of other videos or settings, if no training video can be read, or if the
        backbone does not return features (B, d).
    FileExistsError
        If `out` is a file, or holds files that `extract` would overwrite but did not write.

    Examples
    --------
    Two videos of noise, and a file that is not a video:

    >>> import av, tempfile
    >>> from stopwise.features import build_backbone, find_clips
    >>> folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    >>> for name in ("run/a.mp4", "walk/b.mp4"):
    ...     (folder / name).parent.mkdir()
    ...     with av.open(str(folder / name), "w") as video:
    ...         stream = video.add_stream("mpeg4", rate=10)
    ...         stream.width = stream.height = 32
    ...         for image in rng.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8):
    ...             video.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
    ...         video.mux(stream.encode())
    >>> _ = (folder / "walk" / "c.mp4").write_text("not a video")
    >>> report = extract(find_clips(folder, test_fraction=0), build_backbone("small"), folder / "features")
    >>> report["parts"]
    {'train': {'videos': 2, 'classes': 2, 'steps': [6, 6], 'features': 64}}
    >>> report["skipped"][0]["video"]
    'walk/c.mp4'
    >>> from stopwise import datasets
    >>> datasets.read(folder / "features" / "train")
    LabeledSeries(2 series of 6 steps, 2 classes)
    """
    check_integer("batch_size", batch_size, 1)
    check_integer("workers", workers, 1)
    sampling = Sampling(frames, stride, backbone.size, backbone.short_side)
    settings = {
        "backbone": backbone.name,
        "weights": fingerprint(backbone.net),
        "trained": backbone.trained or fit is not None,
        "frames": frames,
        "stride": stride,
        "size": backbone.size,
        "fit": fit,
    }
    output = OutputFolder(Path(out), layout, settings)
    if (report := output.finished()) is not None:
        return report
    _move_to_device(backbone, device)
    output.begin()
    if fit is None:
        cache = ClipCache(output.work / "features")
        compute: Callable[[np.ndarray], np.ndarray] = partial(_features, backbone, batch_size)
        _fill(cache, layout.clips, sampling, compute, workers, progress, "features")
        lengths = {
            part: cache.write_padded(clips, output.work / f"{part}_X.npy")
            for part, clips in output.readable(cache)
        }
    else:
        cache = ClipCache(output.work / "frames")
        _fill(cache, layout.clips, sampling, np.asarray, workers, progress, "frames")
        lengths = _fit(cache, backbone, output, fit, batch_size, progress)
    return output.finish(cache, lengths)


def _move_to_device(backbone: Backbone, device: str) -> None:
    """Move a backbone to a device, which must exist."""
    try:
        backbone.net.to(device).eval()
    except (AssertionError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"`device` must be a torch device that is available here; got {device!r} ({reason})."
        ) from error


def _fill(
    cache: ClipCache,
    clips: Sequence[Clip],
    sampling: Sampling,
    compute: Callable[[np.ndarray], np.ndarray],
    workers: int,
    progress: bool | str,
    title: str,
) -> None:
    """Store `compute(frames)` in the cache for each video that is not in it."""
    remaining = [clip for clip in clips if clip not in cache]
    with Reporter(title, len(clips), progress) as reporter:
        reporter.skip(len(clips) - len(remaining))
        for clip, future in _decode_ahead(remaining, sampling, workers):
            try:
                footage = future.result()
            except VideoError as error:
                cache.store_failure(clip, str(error))
                reporter.advance(f"skipped {clip.name}: {error}")
                continue
            cache.store(clip, compute(footage.frames), footage.notes)
            reporter.advance(clip.name)


def _decode_ahead(
    clips: Sequence[Clip], sampling: Sampling, workers: int
) -> Iterator[tuple[Clip, Future[Footage]]]:
    """Yield the videos in order while the next ones are decoded in the background."""
    waiting: deque[tuple[Clip, Future[Footage]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for clip in clips:
                waiting.append((clip, pool.submit(read_frames, clip.path, sampling)))
                if len(waiting) > workers:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            pool.shutdown(cancel_futures=True)


@torch.inference_mode()
def _features(backbone: Backbone, batch_size: int, frames: np.ndarray) -> np.ndarray:
    """Return the features (t, d) of one video's frames (t, S, S, 3).

    A batch never mixes videos, so that the features do not depend on where a killed run was resumed.
    """
    device = device_of(backbone.net)
    parts = []
    for start in range(0, len(frames), batch_size):
        pixels = torch.from_numpy(frames[start : start + batch_size]).to(device)  # (B, S, S, 3)
        part = backbone.net(pixels.permute(0, 3, 1, 2).to(torch.float32) / 255)
        if part.ndim != 2 or len(part) != len(pixels):
            raise ValueError(
                f"`backbone` must map images (B, 3, S, S) to features (B, d); {backbone.name} returned shape "
                f"{tuple(part.shape)} for {len(pixels)} images. Flatten or pool its output."
            )
        parts.append(part.to("cpu", torch.float32).numpy())
    features = np.concatenate(parts)
    if not np.isfinite(features).all():
        raise FloatingPointError(
            f"the backbone {backbone.name} returns NaN or infinity: its weights are damaged or unsuitable. "
            "Copy or download them again."
        )
    return features


def _fit(
    cache: ClipCache,
    backbone: Backbone,
    output: OutputFolder,
    fit_arguments: dict[str, Any],
    batch_size: int,
    progress: bool | str,
) -> dict[str, np.ndarray]:
    """Train the backbone on single frames and write all features; return the lengths (n,) by part."""
    readable = dict(output.readable(cache))
    lengths, frames = {}, {}
    for part, clips in readable.items():
        path = output.work / f"{part}_frames.npy"
        lengths[part] = cache.write_padded(clips, path)
        frames[part] = np.load(path, mmap_mode="r", allow_pickle=False)  # (n, T, S, S, 3) uint8
    if not read_fitted(backbone.net, output.work):
        labels = np.array([clip.label for clip in readable[TRAIN]])
        fit_encoder(
            frames[TRAIN],
            labels,
            lengths=lengths[TRAIN],
            encoder=backbone.net,
            progress=progress,
            **fit_arguments,
        )
        write_fitted(backbone.net, output.work)
    for part in readable:
        encode(
            backbone.net,
            frames[part],
            lengths=lengths[part],
            batch_size=batch_size,
            out=output.work / f"{part}_X.npy",
            progress=progress,
        )
    return lengths
