import json
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from stopwise.persistence import tensors as files
from stopwise.persistence.tensors import TensorFileError

TENSORS = {
    "weight": torch.arange(12.0).reshape(3, 4),
    "half": torch.arange(3, dtype=torch.bfloat16),
    "step": torch.tensor(7.0),
    "empty": torch.zeros(0, 2),
    "count": torch.tensor([2**40]),
}
ABOUT = {"kind": "test", "losses": [0.1, 1 / 3], "name": "größer", "none": None}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some[1]" / "file.safetensors"  # brackets are special characters in glob patterns
    files.write(path, TENSORS, ABOUT)
    return path


def assert_complete(path, tensors=TENSORS, about=ABOUT):
    found, reported = files.read(path)
    assert reported == about
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)


def names(path):
    return sorted(file.name for file in path.parent.iterdir())


def test_a_written_file_can_be_read(path):
    assert_complete(path)
    assert names(path) == [path.name]


def test_writing_again_replaces_the_file(path):
    files.write(path, {"other": torch.ones(2)}, {"kind": "new"})
    assert_complete(path, {"other": torch.ones(2)}, {"kind": "new"})
    assert names(path) == [path.name]


def test_shared_and_non_contiguous_tensors_can_be_written(path):
    whole = torch.arange(12.0).reshape(3, 4)
    tensors = {"a": whole, "b": whole, "t": whole.t(), "row": whole[:, 1], "learned": whole.requires_grad_()}
    files.write(path, tensors, {})
    assert_complete(path, tensors, {})


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_raises(path, share):
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(TensorFileError, match=r"is damaged or not a safetensors file.*Save it again"):
        files.read(path)


def test_a_changed_byte_raises_or_has_no_effect(path):
    data = path.read_bytes()
    reported = []
    for place in range(len(data)):
        for flip in (0x01, 0x80):
            path.write_bytes(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :])
            try:
                files.read(path)
            except TensorFileError as error:
                reported.append(str(error))
            else:
                assert_complete(path)
    assert all(str(path) in message for message in reported)
    assert len(reported) > 1.9 * len(data)  # all except the padding of the header


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "was not written by stopwise"),
        ({"format": "pt"}, "was not written by stopwise"),
        ({"stopwise": "{}"}, "checksum differs"),
        ({"stopwise": "0" * 64 + " {}"}, "checksum differs"),
    ],
)
def test_safetensors_not_written_by_stopwise_raise(path, metadata, message):
    save_file({"weight": torch.ones(2)}, path, metadata)
    with pytest.raises(TensorFileError, match=message):
        files.read(path)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not JSON"), ("[1]", "must be an object; got"), ("3", "must be an object")]
)
def test_a_description_that_is_not_an_object_raises(path, monkeypatch, text, message):
    monkeypatch.setattr(json, "dumps", lambda _: text)
    files.write(path, TENSORS, ABOUT)
    with pytest.raises(TensorFileError, match=message):
        files.read(path)


class Trap:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("writer", [pickle.dump, torch.save, np.save], ids=["pickle", "torch", "numpy"])
def test_reading_cannot_run_code(path, tmp_path, writer):
    trap = tmp_path / "sprung"
    if writer is np.save:
        np.save(tmp_path / "trap.npy", np.array([Trap(trap)], dtype=object), allow_pickle=True)
        path.write_bytes((tmp_path / "trap.npy").read_bytes())
    else:
        with open(path, "wb") as file:
            writer(Trap(trap), file)
    with pytest.raises(TensorFileError, match=r"not a safetensors file"):
        files.read(path)
    assert not trap.exists()


def test_a_missing_file_or_a_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No file at .*nothing"):
        files.read(tmp_path / "nothing")
    with pytest.raises(TensorFileError, match=r"is a folder, not a file"):
        files.read(tmp_path)


@pytest.mark.parametrize("place", ["persistence.tensors.save", "atomic.os.replace", "atomic.os.fsync"])
def test_a_failed_write_keeps_the_old_file_and_no_other_file(path, monkeypatch, place):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(f"stopwise.{place}", fail)
    with pytest.raises(OSError, match=r"disk full"):
        files.write(path, {"other": torch.ones(2)}, {})
    monkeypatch.undo()
    assert_complete(path)
    assert names(path) == [path.name]


def test_an_unsupported_description_raises_and_keeps_the_old_file(path):
    with pytest.raises(TypeError, match=r"not JSON serializable"):
        files.write(path, TENSORS, {"what": object()})
    assert_complete(path)
    assert names(path) == [path.name]


def test_leftover_files_of_killed_writers_are_removed(path):
    path.with_name(f".{path.name}.0123456789abcdef.part").write_text("half")
    others = [path.with_name(name) for name in (".other.0123456789abcdef.part", f".{path.name}.mine.part")]
    for other in others:
        other.write_text("not ours")
    files.write(path, TENSORS, ABOUT)
    assert names(path) == sorted([path.name, *(other.name for other in others)])


def test_equal_tensors_give_equal_bytes(path):
    again = files.pack({name: TENSORS[name].clone() for name in reversed(TENSORS)}, ABOUT)
    assert path.read_bytes() == again
    assert files.pack(TENSORS, ABOUT | {"none": 0}) != again


def test_many_empty_tensors_raise(path):
    entry = b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = b"{" + b",".join(entry % i for i in range(files.MOST_TENSORS + 1)) + b"}"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(TensorFileError, match=r"it declares more than 20000 tensors"):
        files.read(path)
