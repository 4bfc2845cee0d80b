"""`stopwise train --params FILE` with wrong settings: one line, never a raw error."""

import json
import random
import re

import pytest

import stopwise as sw
from stopwise.cli import main

VALUES = [
    *(None, True, -1, 0, 1, 3, 5 * 10**12, 10**30, 0.5, -0.0, 1e308, 5e-324, float("nan"), float("inf")),
    *("", "x", "inf", "cuda", "meta", "auto", "lstm", "a" * 10_000, [], {}, [[]], [1, 2], {"a": 1}),
]
OTHERS = ["model", "standardize", "missing", "prior", "random_state", "rule", "progress", "training", "zzz"]
SETTINGS = {"order": 0, "training.max_epochs": 1, "polish": False}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("params") / "d.npz"
    X, y, _ = sw.datasets.gaussian(40, offset=1.0, channels=2, length=4, seed=0)
    sw.datasets.write(path, X, y)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "must hold settings as JSON"),
        (b"\xff\xfe", "must hold settings as JSON"),
        (b"[" * 100_000, "must hold settings as JSON"),
        (b"[1]", "must hold a JSON object of settings; got list"),
        (
            b'{"model": "accumulator", "hidden": 5000000000000}',
            "the network would have .* weights; at most 10000000000 are supported",
        ),
        (b'{"model": "accumulator", "hidden": 1' + b"0" * 30 + b"}", "the network would have"),
        (b'{"model": "tandemformer", "blocks": 5000000000000}', "at most 2000 weight tensors"),
        (
            b'{"model": "accumulator", "training.devices": 5000000000000}',
            r"`devices` must be in \[1, 4096\]",
        ),
        (
            b'{"model": "accumulator", "training.device": "meta"}',
            "`device` must be a torch device that is available",
        ),
        (
            b'{"model": "accumulator", "training.device": null}',
            "`device` must be a torch device that is available",
        ),
        (b'{"model": ["b2bsqrt"]}', "`--model` must be one of"),
        (b'{"training": 5}', "has no option 'training'"),
    ],
)
def test_wrong_settings_are_one_line(data, tmp_path, refusal, text, message):
    (tmp_path / "p.json").write_bytes(text)
    found = refusal("train", data, "-o", tmp_path / "m", "--params", tmp_path / "p.json")
    assert re.search(message, found)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("count", [25, pytest.param(600, marks=pytest.mark.slow)])
def test_random_settings_train_or_are_refused(data, tmp_path, monkeypatch, capsys, count):
    rng, codes = random.Random(0), {0: 0, 2: 0}
    options = {name: [option.name for option in sw.models.options(name)] for name in sw.models.MODELS}
    for _ in range(count):
        model = rng.choice(sorted(options))
        names = [name for name in options[model] if name != "training.devices"]  # processes take seconds
        settings = SETTINGS | {"model": model, rng.choice(names + OTHERS): rng.choice(VALUES)}
        if settings["training.max_epochs"] in (5 * 10**12, 10**30):
            continue  # valid, but long
        (tmp_path / "p.json").write_text(json.dumps(settings))
        arguments = [
            "train",
            data,
            "-o",
            tmp_path / "m",
            "--params",
            tmp_path / "p.json",
            "--force",
            "--json",
        ]
        monkeypatch.setattr("sys.argv", ["stopwise", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        message = capsys.readouterr().err
        codes[ended.value.code or 0] += 1
        assert ended.value.code in (0, None) or (
            message.startswith("stopwise: ") and message.count("\n") == 1
        )
    print(f"\n{count} settings: {codes}")
    assert min(codes.values()) > 0
