import gzip
import hashlib
import io
import struct
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from stopwise.datasets import CATALOG, DownloadError, fetch, load
from stopwise.datasets.catalog import DatasetInfo, Download
from stopwise.datasets.fetching import read_idx

pytest.importorskip("pooch")


@pytest.fixture
def server(monkeypatch):
    """A local HTTP server with `files` by path; it sends only the first half of those in `cut`."""

    class Handler(BaseHTTPRequestHandler):
        files: dict[str, bytes] = {}  # noqa: RUF012
        cut: set[str] = set()  # noqa: RUF012
        requested: list[str] = []  # noqa: RUF012

        def do_GET(self):
            self.requested.append(self.path)
            content = self.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if self.path in self.cut else content)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Handler.files, Handler.cut, Handler.requested = {}, set(), []
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    Handler.url = f"http://127.0.0.1:{running.server_port}"
    yield Handler
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STOPWISE_DATA", str(tmp_path))
    return tmp_path


def add_to_catalog(monkeypatch, file_format, downloads, counts):
    info = DatasetInfo("toys", "a toy shop", "none", "Nobody 1900", file_format, tuple(downloads), counts)
    monkeypatch.setitem(CATALOG, "toy", info)


def idx(array):
    return struct.pack(f">HBB{array.ndim}i", 0, 8, array.ndim, *array.shape) + array.tobytes()


RNG = np.random.default_rng(0)
PARTS = [
    RNG.integers(0, 256, (6, 4, 3)).astype(np.uint8),
    np.array([0, 1, 2, 0, 1, 2], np.uint8),
    RNG.integers(0, 256, (2, 4, 3)).astype(np.uint8),
    np.array([2, 1], np.uint8),
]


def serve_images(server, monkeypatch, counts=(6, 2), damaged=None):
    downloads = []
    for number, array in enumerate(PARTS):
        content = gzip.compress(idx(array))
        checksum = "md5:" + hashlib.md5(content).hexdigest()
        if number == damaged:
            content = content[:-1] + bytes([content[-1] ^ 1])
        server.files[f"/{number}.gz"] = content
        downloads.append(Download(f"{server.url}/{number}.gz", checksum))
    add_to_catalog(monkeypatch, "idx", downloads, counts)


def serve_series(server, monkeypatch, files, counts=(3, 2)):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    server.files["/toy.zip"] = buffer.getvalue()
    add_to_catalog(monkeypatch, "ts", [Download(f"{server.url}/toy.zip")], counts)


TS = "@equalLength false\n@classLabel true 1 2\n@data\n"
SERIES = {
    "Toy/Toy_TRAIN.ts": TS + "1,2,3:2\n4,5:1\n6:2\n",
    "Toy/Toy_TEST.ts": TS + "7:2\n8,9:1\n",
    "Toy/Toy.txt": "Toys.",
}


def test_fetch_images(server, folder, monkeypatch):
    serve_images(server, monkeypatch)
    assert fetch("toy") == folder / "toy.npz"
    split = load("toy")
    for name, array in zip(("X_train", "y_train", "X_test", "y_test"), PARTS):
        np.testing.assert_array_equal(getattr(split, name), array)
    assert (split.X_train.dtype, split.y_train.dtype) == (np.uint8, np.int64)
    assert split.class_names == ("0", "1", "2")
    assert [path.name for path in folder.iterdir()] == ["toy.npz"]


def test_existing_file_is_not_downloaded_again(server, folder, monkeypatch):
    serve_images(server, monkeypatch)
    (folder / "toy.npz").write_bytes(b"mine")
    assert fetch("toy").read_bytes() == b"mine"
    assert not server.requested


def test_fetch_series(server, folder, monkeypatch, tmp_path):
    serve_series(server, monkeypatch, SERIES)
    fetch("toy", folder)
    split = load("toy")
    assert split.X_train[..., 0].tolist() == [[1, 2, 3], [4, 5, 0], [6, 0, 0]]
    assert split.X_train.dtype == np.float32
    assert split.lengths_train.tolist() == [3, 2, 1]
    assert split.y_train.tolist() == [1, 0, 1]
    assert split.y_test.tolist() == [1, 0]
    assert split.class_names == ("1", "2")


def test_archive_names_are_not_used_as_paths(server, folder, monkeypatch):
    evil = {"../../evil_TRAIN.ts": SERIES["Toy/Toy_TRAIN.ts"], "/evil_TEST.ts": SERIES["Toy/Toy_TEST.ts"]}
    serve_series(server, monkeypatch, evil)
    fetch("toy")
    assert [path.name for path in folder.iterdir()] == ["toy.npz"]
    assert not list(folder.parent.parent.glob("**/evil*"))


def check_nothing_left(folder):
    assert list(folder.iterdir()) == []


def test_wrong_checksum_raises(server, folder, monkeypatch):
    serve_images(server, monkeypatch, damaged=2)
    with pytest.raises(DownloadError, match=r"the file at .*/2.gz does not match its checksum md5:"):
        fetch("toy")
    check_nothing_left(folder)


def test_missing_file_on_the_server_raises(server, folder, monkeypatch):
    serve_images(server, monkeypatch)
    del server.files["/3.gz"]
    with pytest.raises(
        DownloadError, match=r"could not download .*/3.gz: 404 .*Nothing was saved; check the conn"
    ):
        fetch("toy")
    check_nothing_left(folder)


@pytest.mark.parametrize("serve", [serve_images, serve_series])
def test_interrupted_download_raises(server, folder, monkeypatch, serve):
    serve(server, monkeypatch, *([SERIES] if serve is serve_series else []))
    server.cut.update(server.files)
    with pytest.raises(DownloadError, match=r"could not download .*(IncompleteRead|Connection broken)"):
        fetch("toy")
    check_nothing_left(folder)


def test_unreachable_server_raises(folder, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    add_to_catalog(monkeypatch, "ts", [Download("http://127.0.0.1:9/toy.zip")], None)
    with pytest.raises(DownloadError, match=r"could not download http://127.0.0.1:9/toy.zip"):
        fetch("toy")
    check_nothing_left(folder)


def test_unexpected_content_raises(server, folder, monkeypatch):
    serve_images(server, monkeypatch, counts=(60_000, 2))
    with pytest.raises(
        DownloadError, match="is not the expected dataset toy: expected 60000 train series and labels"
    ):
        fetch("toy")
    for content in (b"<html>Sorry</html>", server.files["/0.gz"]):
        serve_series(server, monkeypatch, SERIES)
        server.files["/toy.zip"] = content
        with pytest.raises(DownloadError, match="is not the expected dataset toy: File is not a zip file"):
            fetch("toy")
    short = {name: text[:-3] for name, text in SERIES.items()}
    for files, message in (
        ({"Toy_TRAIN.ts": SERIES["Toy/Toy_TRAIN.ts"]}, r"0 files ..._TEST.ts"),
        (short, r"train.ts, line 6"),
        (
            SERIES | {"Toy/Toy_TEST.ts": "@classLabel true 3\n@data\n1:3\n1:3\n"},
            "classes that are not in the training part",
        ),
    ):
        serve_series(server, monkeypatch, files)
        with pytest.raises(DownloadError, match=message):
            fetch("toy")
    check_nothing_left(folder)


@pytest.mark.parametrize("data", [b"", b"\0\0\x09\1", idx(PARTS[0])[:-1], idx(PARTS[1]) + b"x"])
def test_damaged_idx_file_raises(data):
    with pytest.raises(ValueError, match="idx file"):
        read_idx(data)


def test_invalid_arguments_raise(folder, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"`name` must be one of .*got 'mnst'. Did you mean 'mnist'\?"):
        fetch("mnst")
    with pytest.raises(ValueError, match=r"uci_hapt cannot be downloaded automatically. .*comes from .* UCI"):
        fetch("uci_hapt")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*missing' to save to"):
        fetch("mnist", tmp_path / "missing")
    monkeypatch.delenv("STOPWISE_DATA")
    with pytest.raises(FileNotFoundError, match="the environment variable STOPWISE_DATA is not set"):
        fetch("mnist")


def test_missing_pooch_raises(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"fetch needs pooch: pip install 'stopwise\[datasets\]'"):
        fetch("mnist")
    check_nothing_left(folder)


def test_load_error_says_how_to_obtain_a_dataset_of_the_catalog(folder, monkeypatch):
    with pytest.raises(
        FileNotFoundError, match=r"handwritten digits.*with stopwise.datasets.fetch\('mnist'\)"
    ):
        load("mnist")
    with pytest.raises(FileNotFoundError, match=r"It comes from PhysioNet.* save it as physionet2012.npz"):
        load("physionet2012")
    with pytest.raises(FileNotFoundError, match=r"Did you mean 'uci_hapt'\?"):
        load("uci_hap")
    monkeypatch.delenv("STOPWISE_DATA")
    with pytest.raises(FileNotFoundError, match=r"is not set.*fetch\('ucr_ecg5000'\)"):
        load("ucr_ecg5000")


def test_every_dataset_of_the_catalog_has_a_description():
    for info in CATALOG.values():
        assert all([info.description, info.source, info.license, info.citation])
        assert bool(info.downloads) == bool(info.file_format) == bool(info.counts)
        for download in info.downloads:
            assert download.url.startswith("https://")
