"""Array files that declare more than they hold are refused before memory is allocated."""

import io
import re
import tracemalloc
import zipfile

import numpy as np
import pytest

from stopwise.datasets import declared, read

X = np.zeros((4, 3, 2))


def npy(shape, descr="<f8", data=b"", version=1):
    file = io.BytesIO()
    write = getattr(np.lib.format, f"write_array_header_{version}_0")
    write(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue() + data


def archive(path, how=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path, "w", how) as made:
        for name, data in members.items():
            made.writestr(f"{name}.npy", data)


def assert_refused(path, message):
    """Check the error, and that no more than a few megabytes are used."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"{re.escape(path.name)} cannot be read.*{message}"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


BOMBS = {
    "400 GB": ((10**9, 50), "<f8"),
    "2 GB, which could be allocated": ((10**5, 2500), "<f8"),
    "many empty series": ((10**10, 0), "<f8"),
    "overflow of 64 bits": ((2**40, 2**40), "<f8"),
    "one byte too much": ((97,), "|u1"),
    "strings": ((3,), "<U100000000"),
}


@pytest.mark.parametrize(("shape", "descr"), BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("version", [1, 2])
def test_a_header_that_declares_too_much_is_refused(tmp_path, shape, descr, version):
    data = npy(shape, descr, bytes(96), version)
    (tmp_path / "a_X.npy").write_bytes(data)
    assert_refused(tmp_path / "a_X.npy", "its header declares an array of shape")
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        archive(tmp_path / "b.npz", how, X=data)
        assert_refused(tmp_path / "b.npz", "under the key 'X': its header declares an array of shape")


def test_long_labels_are_refused(tmp_path):
    archive(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, X=npy(X.shape, data=bytes(X.nbytes)), y=labels(10_001))
    assert_refused(tmp_path / "a.npz", "strings of 10001 characters; at most 10000 are allowed")
    archive(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, X=npy(X.shape, data=bytes(X.nbytes)), y=labels(10_000))
    assert read(tmp_path / "a.npz").y.dtype == "<U10000"


def labels(size):
    return npy((4,), f"<U{size}", np.array(["a", "b"] * 2, dtype=f"<U{size}").tobytes())


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_that_declares_too_much_is_refused(tmp_path, how):
    path = tmp_path / "a.npz"
    archive(path, how, X=npy((10**6, 100), data=bytes(96)))
    data = bytearray(path.read_bytes())
    sizes = data.rindex(b"PK\1\2") + 24  # uncompressed size in the directory
    data[sizes : sizes + 4] = (8 * 10**8 + 128).to_bytes(4, "little")
    path.write_bytes(data)
    assert_refused(path, "the archive declares 800000128 bytes, but has")


def test_a_large_array_that_is_small_in_the_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(declared, "LARGE", 10_000)
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((100, 50, 2)), y=np.zeros(100, int))
    assert_refused(tmp_path / "a.npz", "grow to 80128 when they are read.*np.savez instead of")
    X = np.random.default_rng(0).normal(size=(100, 50, 2))
    np.savez_compressed(tmp_path / "a.npz", X=X)
    np.testing.assert_array_equal(read(tmp_path / "a.npz").X, X)


def test_a_real_array_without_enough_memory_raises(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", X=X)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("stopwise.datasets.npz.check_member", fail)
    with pytest.raises(ValueError, match=r"not enough memory. Save the series as NAME_X.npy"):
        read(tmp_path / "a.npz")
