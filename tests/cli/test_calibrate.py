"""`stopwise calibrate`, and `stopwise evaluate` of a calibrated model."""

import json

import numpy as np
import pytest

import stopwise as sw
from helpers import early
from stopwise.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli")
    X, y, _ = sw.datasets.gaussian(1600, offset=1.5, channels=3, length=8, seed=0)
    names = np.array(["left", "right"])[y]
    for name, rows in (("train", slice(0, 200)), ("held", slice(200, 1000)), ("test", slice(1000, None))):
        sw.datasets.write(path / f"{name}.npz", X[rows], names[rows])
    early(order=0, max_epochs=5, polish=False).fit(X[:200], names[:200]).save(path / "model")
    return path


@pytest.fixture(scope="session")
def run(run):
    """Return a function that runs a command and returns its output without line breaks."""
    return lambda *arguments: " ".join(run(*arguments).split())


def test_calibrate_saves_the_model_and_prints_the_guarantee(run, folder):
    printed = run(
        "calibrate", folder / "model", folder / "held.npz", "--error-rate", 0.05, "-o", folder / "new"
    )
    assert "With confidence 95 %, at most 5 % of new series are decided wrongly (calibrated on 800" in printed
    held = sw.datasets.read(folder / "held.npz")
    expected = sw.load(folder / "model").calibrate(held.X, held.y, error_rate=0.05)
    assert sw.load(folder / "new").rule_ == expected.rule_
    assert sw.load(folder / "model").rule_ == sw.SPRT(error_rate=0.05)


def test_calibrate_in_place_with_json_output(run, folder):
    sw.load(folder / "model").save(folder / "mine")
    printed = json.loads(
        run("calibrate", folder / "mine", folder / "held.npz", "--error-rate", 0.1, "--json")
    )
    rule = sw.load(folder / "mine").rule_
    assert printed["rule"] == rule.to_dict()
    assert printed["words"] == str(rule.guarantee)


CASES = [
    (("--error-rate", 0.1, "--per-class"), "10 % of the new series of each class", "of class 'left', "),
    (("--error-rate", "left=0.1,right=0.2"), "10 % of class 'left' and 20 %", "of class 'left', "),
    (("--accuracy-gap", "left=0.1"), "nothing is guaranteed for class 'right'", "% of class 'left' decided"),
    (("--error-rate", 0.1), "10 % of new series are", "% of all series decided wrongly."),
    (("--error-rate", "left=0.1"), "nothing is guaranteed for class 'right'", "% of class 'left' decided"),
    (("--accuracy-gap", 0.05), "correctly at their end", "decided wrongly, correctly at the end."),
    (
        ("--accuracy-gap", 0.1, "--conditional"),
        "decided by any one step",
        "by which at least 100 series were decided",
    ),
]


@pytest.mark.parametrize(("options", "guaranteed", "observed"), CASES)
def test_evaluate_prints_the_guarantee_and_the_observed_rate(run, folder, options, guaranteed, observed):
    out = ("-o", folder / "other", "--force")
    printed = run("calibrate", folder / "model", folder / "held.npz", *options, *out)
    assert guaranteed in printed
    printed = run("evaluate", folder / "other", folder / "test.npz")
    assert guaranteed in printed
    assert observed in printed
    printed = json.loads(run("evaluate", folder / "other", folder / "test.npz", "--json"))
    clf, test = sw.load(folder / "other"), sw.datasets.read(folder / "test.npz")
    expected = sw.rules.observed_rate(
        clf.rule_.with_prior(clf.prior_),
        clf.scores(test.X),
        np.searchsorted(clf.classes_, test.y),
        min_series=100,
    )
    assert np.allclose(printed["observed"], expected)
    assert printed["guarantee"]["words"] == str(clf.rule_.guarantee)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("held.npz",), "exactly one target"),
        (
            ("held.npz", "--error-rate", "left=0.1", "--error-rate", "0.1"),
            "CLASS=NUMBER once for each class; got '0.1'",
        ),
        (("held.npz", "--error-rate", "up=0.1"), "got 'up=0.1'. Known classes: left, right."),
        (
            ("held.npz", "--error-rate", "left=0.1", "--error-rate", "left=0.2"),
            "once for each class; got 'left=0.2'",
        ),
        (("held.npz", "--error-rate", "5%"), "--error-rate must be a number such as 0.05; got '5%'"),
        (("held.npz", "--error-rate", "0.001"), "No threshold can be shown to keep `error_rate`=0.001"),
        (("train.npz", "--error-rate", "0.05"), "200 of 200 were given to fit"),
        (("nothing.npz", "--error-rate", "0.05"), "nothing.npz does not exist"),
        (("held.npz", "--error-rate", "left=0.1", "--per-class"), "`per_class` cannot be used with a dict"),
        (("held.npz", "--error-rate", "0.1", "--conditional"), "needs one number as `accuracy_gap`"),
    ],
)
def test_invalid_arguments_print_one_line_and_keep_the_model(folder, arguments, message, refusal):
    before = (folder / "model" / "model.json").read_bytes()
    data, *rest = arguments
    assert message in refusal("calibrate", folder / "model", folder / data, *rest)
    assert (folder / "model" / "model.json").read_bytes() == before


def test_warnings_are_one_line_without_code(folder, monkeypatch, capsys, tmp_path):
    held = sw.datasets.read(folder / "held.npz")
    sw.datasets.write(tmp_path / "twice.npz", np.concatenate([held.X] * 2), np.tile(held.y, 2))
    arguments = ("calibrate", folder / "model", tmp_path / "twice.npz", "--error-rate", "0.1")
    monkeypatch.setattr("sys.argv", ["stopwise", *map(str, arguments), "-o", str(tmp_path / "new")])
    monkeypatch.setattr("warnings.filters", [])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().err.startswith(
        "stopwise: warning: `X` contains 800 of 1600 series that are copies"
    )
    assert sw.load(tmp_path / "new").rule_.guarantee.series == 800


def test_another_model_is_not_replaced_without_force(run, refusal, folder, tmp_path):
    sw.load(folder / "model").save(tmp_path)
    before = (tmp_path / "model.json").read_bytes()
    for command in (("calibrate", "--error-rate", 0.1), ("fit-rule", "--mean-time", 3)):
        arguments = (command[0], folder / "model", folder / "held.npz", *command[1:], "-o", tmp_path)
        assert "holds a model already" in refusal(*arguments)
        assert (tmp_path / "model.json").read_bytes() == before
    run(*arguments, "--force")
    assert (tmp_path / "model.json").read_bytes() != before
