"""From frames to series of features: what a video becomes before it is a series to decide on.

`fit_encoder` trains a small network on single frames, `encode` turns videos (n, T, H, W) into series of
features (n, T, d), and these are what `EarlyClassifier` takes.
"""

from stopwise.features.encoder import SmallCNN, load_encoder, save_encoder
from stopwise.features.encoding import encode
from stopwise.features.fitting import fit_encoder

__all__ = ["SmallCNN", "encode", "fit_encoder", "load_encoder", "save_encoder"]
