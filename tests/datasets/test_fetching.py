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

from stopwise.datasets import CATALOGUE, DownloadError, fetch, load
from stopwise.datasets.catalogue import Download, KnownSet
from stopwise.datasets.fetching import read_idx

pytest.importorskip("pooch")


@pytest.fixture
def server(monkeypatch):
    """A server on this machine: `files` by path; those in `cut` end half way."""

    class Handler(BaseHTTPRequestHandler):
        files: dict[str, bytes] = {}  # noqa: RUF012
        cut: set[str] = set()  # noqa: RUF012
        asked: list[str] = []  # noqa: RUF012

        def do_GET(self):
            self.asked.append(self.path)
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
    Handler.files, Handler.cut, Handler.asked = {}, set(), []
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    Handler.address = f"http://127.0.0.1:{running.server_port}"
    yield Handler
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STOPWISE_DATA", str(tmp_path))
    return tmp_path


def know(monkeypatch, layout, downloads, counts):
    known = KnownSet("toys", "a shelf", "none", "Nobody 1900", layout, tuple(downloads), counts)
    monkeypatch.setitem(CATALOGUE, "toy", known)


def idx(array):
    return struct.pack(f">HBB{array.ndim}i", 0, 8, array.ndim, *array.shape) + array.tobytes()


RNG = np.random.default_rng(0)
PARTS = [
    RNG.integers(0, 256, (6, 4, 3)).astype(np.uint8),
    np.array([0, 1, 2, 0, 1, 2], np.uint8),
    RNG.integers(0, 256, (2, 4, 3)).astype(np.uint8),
    np.array([2, 1], np.uint8),
]


def offer_images(server, monkeypatch, counts=(6, 2), spoil=None):
    downloads = []
    for number, array in enumerate(PARTS):
        content = gzip.compress(idx(array))
        checksum = "md5:" + hashlib.md5(content).hexdigest()
        if number == spoil:
            content = content[:-1] + bytes([content[-1] ^ 1])
        server.files[f"/{number}.gz"] = content
        downloads.append(Download(f"{server.address}/{number}.gz", checksum))
    know(monkeypatch, "idx", downloads, counts)


def offer_series(server, monkeypatch, files, counts=(3, 2)):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    server.files["/toy.zip"] = buffer.getvalue()
    know(monkeypatch, "ts", [Download(f"{server.address}/toy.zip")], counts)


TS = "@equalLength false\n@classLabel true 1 2\n@data\n"
SERIES = {
    "Toy/Toy_TRAIN.ts": TS + "1,2,3:2\n4,5:1\n6:2\n",
    "Toy/Toy_TEST.ts": TS + "7:2\n8,9:1\n",
    "Toy/Toy.txt": "Toys.",
}


def test_images(server, folder, monkeypatch):
    offer_images(server, monkeypatch)
    assert fetch("toy") == folder / "toy.npz"
    split = load("toy")
    for name, array in zip(("X_train", "y_train", "X_test", "y_test"), PARTS):
        np.testing.assert_array_equal(getattr(split, name), array)
    assert (split.X_train.dtype, split.y_train.dtype) == (np.uint8, np.int64)
    assert split.class_names == ("0", "1", "2")
    assert [path.name for path in folder.iterdir()] == ["toy.npz"]


def test_what_is_there_is_not_fetched_again(server, folder, monkeypatch):
    offer_images(server, monkeypatch)
    (folder / "toy.npz").write_bytes(b"mine")
    assert fetch("toy").read_bytes() == b"mine"
    assert not server.asked


def test_series(server, folder, monkeypatch, tmp_path):
    offer_series(server, monkeypatch, SERIES)
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
    offer_series(server, monkeypatch, evil)
    fetch("toy")
    assert [path.name for path in folder.iterdir()] == ["toy.npz"]
    assert not list(folder.parent.parent.glob("**/evil*"))


def check_nothing_left(folder):
    assert list(folder.iterdir()) == []


def test_wrong_checksum(server, folder, monkeypatch):
    offer_images(server, monkeypatch, spoil=2)
    with pytest.raises(DownloadError, match=r"/2.gz gave a file that does not match its checksum md5:"):
        fetch("toy")
    check_nothing_left(folder)


def test_not_there(server, folder, monkeypatch):
    offer_images(server, monkeypatch)
    del server.files["/3.gz"]
    with pytest.raises(
        DownloadError, match=r"could not get .*/3.gz: 404 .*Nothing was saved; check the conn"
    ):
        fetch("toy")
    check_nothing_left(folder)


@pytest.mark.parametrize("offer", [offer_images, offer_series])
def test_connection_cut(server, folder, monkeypatch, offer):
    offer(server, monkeypatch, *([SERIES] if offer is offer_series else []))
    server.cut.update(server.files)
    with pytest.raises(DownloadError, match=r"could not get .*(IncompleteRead|Connection broken)"):
        fetch("toy")
    check_nothing_left(folder)


def test_no_server(folder, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    know(monkeypatch, "ts", [Download("http://127.0.0.1:9/toy.zip")], None)
    with pytest.raises(DownloadError, match=r"could not get http://127.0.0.1:9/toy.zip"):
        fetch("toy")
    check_nothing_left(folder)


def test_content_that_is_something_else(server, folder, monkeypatch):
    offer_images(server, monkeypatch, counts=(60_000, 2))
    with pytest.raises(
        DownloadError, match="is not toy as it is known: expected 60000 train series and labels"
    ):
        fetch("toy")
    for content in (b"<html>Sorry</html>", server.files["/0.gz"]):
        offer_series(server, monkeypatch, SERIES)
        server.files["/toy.zip"] = content
        with pytest.raises(DownloadError, match="is not toy as it is known: File is not a zip file"):
            fetch("toy")
    short = {name: text[:-3] for name, text in SERIES.items()}
    for files, message in (
        ({"Toy_TRAIN.ts": SERIES["Toy/Toy_TRAIN.ts"]}, r"0 files ..._TEST.ts"),
        (short, r"train.ts, line 6"),
        (SERIES | {"Toy/Toy_TEST.ts": "@classLabel true 3\n@data\n1:3\n1:3\n"}, "classes that the training"),
    ):
        offer_series(server, monkeypatch, files)
        with pytest.raises(DownloadError, match=message):
            fetch("toy")
    check_nothing_left(folder)


@pytest.mark.parametrize("data", [b"", b"\0\0\x09\1", idx(PARTS[0])[:-1], idx(PARTS[1]) + b"x"])
def test_damaged_idx(data):
    with pytest.raises(ValueError, match="idx file"):
        read_idx(data)


def test_bad_arguments(folder, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"`name` must be one of .*got 'mnst'. Did you mean 'mnist'\?"):
        fetch("mnst")
    with pytest.raises(ValueError, match=r"uci_hapt cannot be downloaded by itself. .*comes from the UCI"):
        fetch("uci_hapt")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere' to save to"):
        fetch("mnist", tmp_path / "nowhere")
    monkeypatch.delenv("STOPWISE_DATA")
    with pytest.raises(FileNotFoundError, match="the environment variable STOPWISE_DATA is not set"):
        fetch("mnist")


def test_without_pooch(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"fetch needs pooch: pip install 'stopwise\[datasets\]'"):
        fetch("mnist")
    check_nothing_left(folder)


def test_load_says_how_to_come_by_a_known_set(folder, monkeypatch):
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


def test_every_known_set_is_described():
    for known in CATALOGUE.values():
        assert all([known.what, known.source, known.licence, known.cite])
        assert bool(known.downloads) == bool(known.layout) == bool(known.counts)
        for download in known.downloads:
            assert download.address.startswith("https://")
