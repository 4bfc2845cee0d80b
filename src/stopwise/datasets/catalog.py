"""Real datasets by name: their content, source and license.

None of them is part of stopwise. `fetch` downloads those that have URLs; the others must be obtained from
their source and saved in the format that `load` reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Download:
    """A file at a public URL.

    Parameters
    ----------
    url
        Address of the file.
    checksum
        "md5:..." or "sha256:..."; None if no checksum is published.
    """

    url: str
    checksum: str | None = None


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a real dataset: an entry of `CATALOG`.

    Parameters
    ----------
    description
        Content of the dataset.
    source
        Origin of the data.
    license
        License of the data, as far as it is stated.
    citation
        Publication to cite.
    file_format
        Format of the downloads: "idx" (the four files of MNIST: training images and labels, test images and
        labels) or "ts" (a zip file with a training and a test file); "" if there is nothing to download.
    downloads
        Files to download; empty if `fetch` cannot download the dataset.
    counts
        Numbers of training and test series; downloads with other numbers are rejected. None if there is
        nothing to download.

    Examples
    --------
    >>> from stopwise.datasets import CATALOG
    >>> CATALOG["mnist"].counts
    (60000, 10000)
    """

    description: str
    source: str
    license: str
    citation: str
    file_format: str = ""
    downloads: tuple[Download, ...] = ()
    counts: tuple[int, int] | None = None


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_UCR = "https://timeseriesclassification.com/aeon-toolkit/"
_UTD_MHAD: dict[str, Any] = {
    "source": "the page of the authors, or GitHub woo-chia-wei/kinect-sequence-classification",
    "license": "none stated; public for research",
    "citation": "Chen, Jafari, Kehtarnavaz, UTD-MHAD, ICIP 2015",
}
_UCR_TERMS: dict[str, Any] = {
    "license": "none stated; the archive asks to be cited",
    "citation": "Dau et al., The UCR time series archive, 2018",
    "file_format": "ts",
}

#: Descriptions of the known real datasets, by name.
CATALOG: dict[str, DatasetInfo] = {
    "mnist": DatasetInfo(
        description="60,000 and 10,000 images of handwritten digits, 28 x 28, for `NosaicSeries`",
        source="the PyTorch project's mirror",
        license="usually quoted as CC BY-SA 3.0",
        citation="LeCun, Bottou, Bengio, Haffner, Proc. IEEE 86(11), 1998",
        file_format="idx",
        downloads=(
            Download(f"{_MNIST}train-images-idx3-ubyte.gz", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            Download(f"{_MNIST}train-labels-idx1-ubyte.gz", "md5:d53e105ee54ea40749a09fcbcd1e9432"),
            Download(f"{_MNIST}t10k-images-idx3-ubyte.gz", "md5:9fb629c4189551a2d022fa330f9573f3"),
            Download(f"{_MNIST}t10k-labels-idx1-ubyte.gz", "md5:ec29112dd5afa0611ce80d1b7f02629c"),
        ),
        counts=(60_000, 10_000),
    ),
    "ucr_electricdevices": DatasetInfo(
        description="power use of household devices, 96 steps, 7 classes, each whole series z-normalized",
        source="timeseriesclassification.com, the UCR archive",
        downloads=(Download(f"{_UCR}ElectricDevices.zip"),),
        counts=(8926, 7711),
        **_UCR_TERMS,
    ),
    "ucr_ecg5000": DatasetInfo(
        description="heartbeats, 140 steps, 5 very unequal classes, each whole series z-normalized",
        source="timeseriesclassification.com, the UCR archive",
        downloads=(Download(f"{_UCR}ECG5000.zip"),),
        counts=(500, 4500),
        **_UCR_TERMS,
    ),
    "ucf101_14_vgg16": DatasetInfo(
        description="videos of 14 actions, 25 frames of VGG16 features each, official split 1",
        source="GitHub tyagi-iiitv/UCF101_release (vgg16_relu6), reduced to 256 principal components",
        license="none stated; research use",
        citation="Soomro, Zamir, Shah, UCF101, CRCV-TR-12-01, 2012",
    ),
    "jhmdb21": DatasetInfo(
        description="videos of 21 actions, 15 to 40 frames, appearance and motion features, official split 1",
        source="clips from GitHub WhiteChan/Rec_JHMDB, split lists from GitHub fandulu/DD-Net",
        license="CC BY 4.0 (HMDB)",
        citation="Kuehne et al., HMDB, ICCV 2011; Jhuang et al., ICCV 2013",
    ),
    "utd_mhad_skeleton": DatasetInfo(
        description="skeletons (20 joints) of 27 actions, 41 to 125 frames, split by subject", **_UTD_MHAD
    ),
    "utd_mhad_depth": DatasetInfo(
        description="depth videos, 54 x 54, of 27 actions, 21 to 63 frames, split by subject", **_UTD_MHAD
    ),
    "uci_hapt": DatasetInfo(
        description="acceleration and rotation of smartphones, 128 steps, 6 activities, split by subject",
        source="the HAPT dataset of the UCI repository, raw recordings cut into windows",
        license="CC BY 4.0 according to UCI; the original readme forbids commercial use",
        citation="Reyes-Ortiz et al., Neurocomputing 171, 2016; Anguita et al., ESANN 2013",
    ),
    "physionet2012": DatasetInfo(
        description="48 hours of intensive care, 36 channels, 2 classes: death in hospital or not",
        source="PhysioNet's Computing in Cardiology Challenge 2012, set-a (train) and set-b (test)",
        license="Open Data Commons Attribution 1.0",
        citation="Silva et al., CinC 2012; Goldberger et al., Circulation 2000",
    ),
}


def how_to_get(name: str) -> str:
    """Describe the dataset `name` and how to obtain it; return "" if it is not in the catalog.

    Examples
    --------
    >>> print(how_to_get("mnist").split(". ")[-1])
    Download it with stopwise.datasets.fetch('mnist').
    >>> how_to_get("steps")
    ''
    """
    info = CATALOG.get(name)
    if info is None:
        return ""
    about = f"{name}: {info.description} (cite {info.citation}; license: {info.license})."
    if info.downloads:
        return f"{about} Download it with stopwise.datasets.fetch({name!r})."
    return f"{about} It comes from {info.source}; save it as {name}.npz in the format of datasets.load."
