"""From videos to series of features: what a video becomes before it is a series to decide on.

`fit_encoder` trains a small network on single frames and `encode` turns frames (n, T, H, W) into series of
features (n, T, d), which are what `EarlyClassifier` takes. For videos in files, `find_clips` finds those of a
data set and the official part of each, `build_backbone` gives a network from pictures to features, and
`extract` writes the series.
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
