"""Real data sets known by name: what they are, where they come from, on what terms.

None of them is part of stopwise. Those with addresses can be fetched (`fetch`); the others must be gathered
from their source and saved in the layout that `load` reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Download:
    """A file at a public address; `checksum` is "md5:..." or "sha256:...", None where none is published."""

    address: str
    checksum: str | None = None


@dataclass(frozen=True)
class KnownSet:
    """A data set known by name.

    Parameters
    ----------
    what
        What the series are.
    source
        Where they come from.
    licence
        On what terms, as far as they are stated.
    cite
        What to cite.
    layout
        How the downloads are laid out: "idx" (MNIST's four files: training images and labels, test images and
        labels) or "ts" (one zip with a training and a test file); "" if there is nothing to download.
    downloads
        The files.
    counts
        Series in the training and in the test part; a download that gives others is refused.
    """

    what: str
    source: str
    licence: str
    cite: str
    layout: str = ""
    downloads: tuple[Download, ...] = ()
    counts: tuple[int, int] | None = None


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_UCR = "https://timeseriesclassification.com/aeon-toolkit/"
_UTD_MHAD: dict[str, Any] = {
    "source": "the authors' page, or GitHub woo-chia-wei/kinect-sequence-classification",
    "licence": "none stated; public for research",
    "cite": "Chen, Jafari, Kehtarnavaz, UTD-MHAD, ICIP 2015",
}
_UCR_TERMS: dict[str, Any] = {
    "licence": "none stated; the archive asks to be cited",
    "cite": "Dau et al., The UCR time series archive, 2018",
    "layout": "ts",
}

CATALOGUE: dict[str, KnownSet] = {
    "mnist": KnownSet(
        what="60 000 and 10 000 images of handwritten digits, 28 x 28; `NosaicSeries` makes series of them",
        source="the PyTorch project's mirror",
        licence="usually quoted as CC BY-SA 3.0",
        cite="LeCun, Bottou, Bengio, Haffner, Proc. IEEE 86(11), 1998",
        layout="idx",
        downloads=(
            Download(f"{_MNIST}train-images-idx3-ubyte.gz", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            Download(f"{_MNIST}train-labels-idx1-ubyte.gz", "md5:d53e105ee54ea40749a09fcbcd1e9432"),
            Download(f"{_MNIST}t10k-images-idx3-ubyte.gz", "md5:9fb629c4189551a2d022fa330f9573f3"),
            Download(f"{_MNIST}t10k-labels-idx1-ubyte.gz", "md5:ec29112dd5afa0611ce80d1b7f02629c"),
        ),
        counts=(60_000, 10_000),
    ),
    "ucr_electricdevices": KnownSet(
        what="power use of household devices, 96 steps, 7 classes, each series z-normalised as a whole",
        source="timeseriesclassification.com, the UCR archive",
        downloads=(Download(f"{_UCR}ElectricDevices.zip"),),
        counts=(8926, 7711),
        **_UCR_TERMS,
    ),
    "ucr_ecg5000": KnownSet(
        what="heartbeats, 140 steps, 5 very unequal classes, each series z-normalised as a whole",
        source="timeseriesclassification.com, the UCR archive",
        downloads=(Download(f"{_UCR}ECG5000.zip"),),
        counts=(500, 4500),
        **_UCR_TERMS,
    ),
    "ucf101_14_vgg16": KnownSet(
        what="videos of 14 actions, 25 frames of VGG16 features each, official split 1",
        source="GitHub tyagi-iiitv/UCF101_release (vgg16_relu6), brought to 256 principal components",
        licence="none stated; research use",
        cite="Soomro, Zamir, Shah, UCF101, CRCV-TR-12-01, 2012",
    ),
    "jhmdb21": KnownSet(
        what="videos of 21 actions, 15 to 40 frames of appearance and motion features, official split 1",
        source="clips from GitHub WhiteChan/Rec_JHMDB, split lists from GitHub fandulu/DD-Net",
        licence="CC BY 4.0 (HMDB)",
        cite="Kuehne et al., HMDB, ICCV 2011; Jhuang et al., ICCV 2013",
    ),
    "utd_mhad_skeleton": KnownSet(
        what="skeletons (20 joints) of 27 actions, 41 to 125 frames, split by subject", **_UTD_MHAD
    ),
    "utd_mhad_depth": KnownSet(
        what="depth videos, 54 x 54, of 27 actions, 21 to 63 frames, split by subject", **_UTD_MHAD
    ),
    "uci_hapt": KnownSet(
        what="acceleration and rotation of smartphones, 128 steps, 6 activities, split by subject",
        source="the UCI repository's HAPT set, raw recordings cut into windows",
        licence="CC BY 4.0 according to UCI; the original readme forbids commercial use",
        cite="Reyes-Ortiz et al., Neurocomputing 171, 2016; Anguita et al., ESANN 2013",
    ),
    "physionet2012": KnownSet(
        what="48 hours of intensive care, 36 channels, whether the patient dies in hospital",
        source="PhysioNet's Computing in Cardiology Challenge 2012, set-a (train) and set-b (test)",
        licence="Open Data Commons Attribution 1.0",
        cite="Silva et al., CinC 2012; Goldberger et al., Circulation 2000",
    ),
}


def how_to_get(name: str) -> str:
    """Return what is known of the set `name` and how to come by it; "" if it is not known.

    Examples
    --------
    >>> print(how_to_get("mnist").split(". ")[-1])
    Get it with stopwise.datasets.fetch('mnist').
    >>> how_to_get("walks")
    ''
    """
    known = CATALOGUE.get(name)
    if known is None:
        return ""
    about = f"{name} is: {known.what} (cite {known.cite}; licence: {known.licence})."
    if known.downloads:
        return f"{about} Get it with stopwise.datasets.fetch({name!r})."
    return f"{about} It comes from {known.source}; save it as {name}.npz in the layout of datasets.load."
