"""Feature extraction: from videos to series of features for `EarlyClassifier`.

For frames in memory, `fit_encoder` trains a small network on single frames, and `encode` turns frames
(n, T, H, W) into series of features (n, T, d). For video files, `find_clips` lists the videos of a dataset
with their official split, `build_backbone` returns a network from images to features, and `extract` writes
the series to files.
"""

from stopwise.features.backbones import Backbone, build_backbone
from stopwise.features.encoder import SmallCNN, load_encoder, save_encoder
from stopwise.features.encoding import encode
from stopwise.features.extraction import extract
from stopwise.features.fitting import fit_encoder
from stopwise.features.layouts import Clip, Layout, find_clips
from stopwise.features.video import Sampling, VideoError, read_frames

__all__ = [
    "Backbone",
    "Clip",
    "Layout",
    "Sampling",
    "SmallCNN",
    "VideoError",
    "build_backbone",
    "encode",
    "extract",
    "find_clips",
    "fit_encoder",
    "load_encoder",
    "read_frames",
    "save_encoder",
]
