import io

import numpy as np
import pytest

from stopwise.datasets import read, write

X = np.random.default_rng(0).standard_normal((4, 3, 2))
Y = np.array([0, 1, 1, 0])
RAGGED = [X[0], X[1][:1], X[2][:2], X[3]]


@pytest.mark.parametrize("name", ["a.npz", "a.csv", "a_X.npy", "a"])
@pytest.mark.parametrize(
    "y", [Y, np.array(["up", "down, fast", 'say "hi"', "up"]), None], ids=["int", "str", "none"]
)
@pytest.mark.parametrize("series", [X, RAGGED], ids=["equal", "ragged"])
def test_written_series_are_read_back(tmp_path, name, y, series):
    write(tmp_path / name, series, y)
    data = read(tmp_path / name)
    assert data.lengths.tolist() == [len(one) for one in series]
    assert isinstance(data.X, np.ndarray) == (series is X)
    for one, original in zip(data.X, series, strict=True):
        np.testing.assert_array_equal(one, original)
    if y is None:
        assert data.y is None
    else:
        np.testing.assert_array_equal(data.y, y)
        assert data.y.dtype.kind == y.dtype.kind
    assert len(data) == 4


@pytest.mark.parametrize("name", ["a.npz", "a.csv", "a_X.npy"])
def test_padding_is_removed_on_reading(tmp_path, name):
    write(tmp_path / name, X, Y, lengths=[3, 1, 2, 3])
    data = read(tmp_path / name)
    for one, original in zip(data.X, RAGGED, strict=True):
        np.testing.assert_array_equal(one, original)
    assert repr(data) == "LabeledSeries(4 series of 1 to 3 steps, 2 classes)"


def test_dtype_and_univariate_shape_are_kept(tmp_path):
    flat = X[:, :, 0].astype(np.float32)
    write(tmp_path / "a.npz", flat, Y)
    data = read(tmp_path / "a.npz")
    assert (data.X.dtype, data.X.shape) == (np.float32, (4, 3))
    write(tmp_path / "b.npz", [np.array([1, 2]), np.array([3])])
    assert [one.tolist() for one in read(tmp_path / "b.npz").X] == [[1, 2], [3]]
    write(tmp_path / "c.csv", flat, Y)
    np.testing.assert_array_equal(read(tmp_path / "c.csv").X, flat[..., None])


def test_npy_files_are_memory_mapped(tmp_path):
    write(tmp_path / "a", X, Y)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_X.npy", "a_y.npy"]
    for name in ("a", "a_X.npy"):
        data = read(tmp_path / name)
        assert isinstance(data.X, np.memmap)
        assert not data.X.flags.writeable
    write(tmp_path / "a", RAGGED)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_X.npy", "a_lengths.npy"]
    assert isinstance(read(tmp_path / "a").X[0], np.memmap)


def test_csv_with_rows_and_columns_in_any_order(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "\ufeffspeed,label, time ,series,height\n3,1.0,2.5,b,\n1,2,10,a,7\n\n2,1.0,-1,b,5\n0,2,9,a,nan\n",
        encoding="utf-8",
    )
    data = read(path)
    assert data.names == ("b", "a")
    assert data.channels == ("speed", "height")
    assert data.y.tolist() == [1, 2]
    assert data.y.dtype == np.int64
    np.testing.assert_array_equal(data.X, [[[2, 5], [3, np.nan]], [[0, np.nan], [1, 7]]])


def test_missing_values_are_kept_in_csv(tmp_path):
    holes = X.copy()
    holes[1, 2, 0] = np.nan
    write(tmp_path / "a.csv", holes, Y)
    assert ",," in (tmp_path / "a.csv").read_text()
    np.testing.assert_array_equal(read(tmp_path / "a.csv").X, holes)


@pytest.mark.parametrize("texts", [["1", "2.5"], ["1", "x"], ["inf", "1"], ["9" * 30, "1"], ["nan", "0"]])
def test_labels_stay_strings_unless_all_are_integers(tmp_path, texts):
    path = tmp_path / "a.csv"
    path.write_text("series,time,label,x\n" + "".join(f"{i},0,{label},1\n" for i, label in enumerate(texts)))
    assert read(path).y.tolist() == texts


HEAD = "series,time,label,x\n"
BAD_CSV = {
    "empty": ("", "bad.csv is empty. It must begin with a line of column names"),
    "no rows": (HEAD, "has column names but no rows"),
    "no series": ("id,time,x\n0,0,1\n", "line 1: there is no column `series`; found id, time, x"),
    "no time": ("series,label,x\n0,0,1\n", "there is no column `time`"),
    "no channel": ("series,time,label\n0,0,1\n", "line 1: there is no channel column"),
    "same column": ("series,time,x,x\n0,0,1,2\n", "every column needs a unique name"),
    "short row": (HEAD + "0,0,a,1\n0,1,a\n", "line 3: expected 4 cells, as in the first line; got 3"),
    "word": (HEAD + "0,0,a,fast\n", "line 2, column x: expected a number or an empty cell; got 'fast'"),
    "date": (HEAD + "0,monday,a,1\n", "line 2, column time: expected a number; got 'monday'"),
    "nan time": (HEAD + "0,nan,a,1\n", "column time: expected a number; got 'nan'"),
    "duplicate": (
        HEAD + "0,1,a,1\n0,2,a,1\n0,1.0,a,2\n",
        "line 4: series '0' already has a sample at time 1, on line 2",
    ),
    "two labels": (HEAD + "0,1,a,1\n0,2,b,1\n", "line 3: series '0' has label 'b' here but 'a' on line 2"),
    "no label": (HEAD + "0,1,,1\n", "line 2: the label is empty"),
    "quotes": (HEAD + '0,1,"a"b,1\n', "line 2: not valid CSV"),
}


@pytest.mark.parametrize(("text", "message"), BAD_CSV.values(), ids=BAD_CSV)
def test_invalid_csv_raises(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read(path)


def test_csv_in_another_encoding_raises(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(HEAD.encode() + "0,1,caf\xe9,1\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"not UTF-8 text. Save the file as CSV in UTF-8"):
        read(path)


BAD_NPZ = {
    "missing key": ({"x": X, "y": Y}, "no array 'X'; it holds 'x', 'y'. Rename the array 'x' to 'X'"),
    "far key": ({"data": X}, "no array 'X'; it holds 'data'. Save the array as X="),
    "split": ({"X_train": X}, r"train and test split: read it with datasets.load\(name\)"),
    "objects": ({"X": np.array([X[0], X[1][:1]], dtype=object)}, "holds Python objects under the key 'X'"),
    "strings": ({"X": np.array([["a", "b"]])}, "`X` must hold real numbers; got dtype <U1"),
    "flat": ({"X": np.zeros(3)}, r"`X` must have shape \(n, T, d\) or \(n, T\).*got shape \(3,\)"),
    "no series": ({"X": np.zeros((0, 3))}, r"none of them 0; got shape \(0, 3\)"),
    "few labels": ({"X": X, "y": Y[:3]}, r"`y` must have shape \(4,\).*got shape \(3,\)"),
    "float labels": ({"X": X, "y": Y + 0.5}, "`y` must hold integers or strings; got dtype float64"),
    "long": ({"X": X, "y": Y, "lengths": np.array([3, 4, 3, 3])}, r"`lengths` must be in \[1, 3\]"),
    "float lengths": ({"X": X, "lengths": np.full(4, 3.0)}, "`lengths` must be integers"),
}


@pytest.mark.parametrize(("arrays", "message"), BAD_NPZ.values(), ids=BAD_NPZ)
def test_invalid_npz_raises(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path / "bad.npz")
    assert "bad.npz" in str(caught.value)


def npz_bytes():
    file = io.BytesIO()
    np.savez_compressed(file, X=X, y=Y)
    return file.getvalue()


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", npz_bytes()[:-30], npz_bytes()[:200]])
def test_damaged_npz_raises(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged, truncated or in another format"):
        read(path)


@pytest.mark.parametrize("ending", [".npz", "_X.npy", ".csv"])
def test_corrupted_file_is_read_or_raises_a_clear_error(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    write(path, X, Y)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    raised = passed = 0
    for _ in range(150):
        broken = bytearray(whole)
        broken[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
        path.write_bytes(broken[: rng.integers(1, len(whole) + 1)] if rng.random() < 0.3 else broken)
        try:
            read(path)
        except ValueError as error:
            raised += f"a{ending}" in str(error)
        else:
            passed += 1
    assert raised + passed == 150
    assert raised > 20


def test_invalid_npy_raises(tmp_path):
    (tmp_path / "a_X.npy").write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"a_X.npy cannot be read: it is damaged"):
        read(tmp_path / "a")
    np.save(tmp_path / "b_X.npy", np.array([X[0], X[1][:1]], dtype=object))
    with pytest.raises(ValueError, match=r"b_X.npy holds Python objects. They are not read"):
        read(tmp_path / "b_X.npy")
    np.save(tmp_path / "c.npy", X)
    with pytest.raises(ValueError, match=r"must end in _X.npy"):
        read(tmp_path / "c.npy")
    (tmp_path / "d_X.npy").write_bytes(npz_bytes())
    with pytest.raises(ValueError, match=r"is an .npz archive, not a single array"):
        read(tmp_path / "d")
    (tmp_path / "c.npy").rename(tmp_path / "c.npz")
    with pytest.raises(ValueError, match=r"is a single array, not an .npz archive"):
        read(tmp_path / "c.npz")
    write(tmp_path / "e", X, Y)
    np.save(tmp_path / "e_y.npy", Y[:2])
    with pytest.raises(ValueError, match=r"e_X.npy: `y` must have shape \(4,\)"):
        read(tmp_path / "e")


def test_missing_files_raise_with_suggestions(tmp_path):
    write(tmp_path / "steps.npz", X, Y)
    with pytest.raises(FileNotFoundError, match=r"step.npz does not exist. Did you mean steps.npz\?"):
        read(tmp_path / "step.npz")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        read(tmp_path / "missing" / "a.csv")
    with pytest.raises(FileNotFoundError, match=r"a_X.npy does not exist"):
        read(tmp_path / "a_X.npy")
    with pytest.raises(FileNotFoundError, match="is a folder, not a file"):
        read(tmp_path)
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"a.txt: unknown file format. The name must end in .npz"):
        read(tmp_path / "a.txt")


BAD_WRITES = {
    "ending": (("a.txt", X, Y), "unknown file format"),
    "lengths of a list": (
        ("a.npz", RAGGED, Y, [3, 1, 2, 3]),
        "`lengths` can only be used with a padded array",
    ),
    "empty list": (("a.npz", []), "at least one series; got an empty list"),
    "channels differ": (
        ("a.npz", [X[0], X[0][:, :1]]),
        r"series 0 has shape \(3, 2\), series 1 has shape \(3, 1\)",
    ),
    "no steps": (("a.npz", [X[0], X[0][:0]]), r"T_i >= 1.*series 1 has shape \(0, 2\)"),
    "labels": (("a.npz", X, Y[:2]), r"`y` must have shape \(4,\)"),
    "empty label": (("a.csv", X, ["a", "", "a", "a"]), "`y` must not contain empty strings"),
    "strings": (("a.npz", [["a"], ["b"]]), "`X` must hold real numbers"),
    "lengths": (("a.npz", X, Y, [1, 2]), r"`lengths` must have shape \(4,\)"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_WRITES.values(), ids=BAD_WRITES)
def test_invalid_arguments_of_write_leave_no_file(tmp_path, arguments, message):
    name, *rest = arguments
    with pytest.raises(ValueError, match=message):
        write(tmp_path / name, *rest)
    assert not list(tmp_path.iterdir())


def test_writing_into_a_missing_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*missing. Create it first"):
        write(tmp_path / "missing" / "a.npz", X, Y)


@pytest.mark.parametrize("name", ["a.npz", "a.csv", "a_X.npy"])
def test_interrupted_write_keeps_the_old_files(tmp_path, monkeypatch, name):
    write(tmp_path / name, X, Y)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("stopwise.atomic.os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / name, X + 1, 1 - Y)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_inputs_are_not_changed(tmp_path):
    copies = [one.copy() for one in RAGGED]
    for name in ("a.npz", "a.csv", "a"):
        write(tmp_path / name, RAGGED, Y)
    for one, copy in zip(RAGGED, copies):
        np.testing.assert_array_equal(one, copy)
