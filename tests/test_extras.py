"""Every extra names its install line when one of its packages is missing."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import stopwise as sw
from stopwise.extras import extra

ROOT = Path(__file__).parents[1]
WITHOUT_OPTUNA = "import sys; sys.modules['optuna'] = None; from stopwise.cli import main; main()"


def install_line(name):
    return re.escape(
        f"pip install 'stopwise[{name}]', or in a clone of the repository "
        f"pip install -c constraints.txt '.[{name}]'."
    )


def test_the_message_names_the_package_and_both_install_lines():
    with (
        pytest.raises(ImportError, match="^reading needs no_such: " + install_line("video")) as caught,
        extra("video", "reading"),
    ):
        importlib.import_module("no_such.part")
    assert caught.value.name == "no_such"
    with pytest.raises(ValueError, match="another error"), extra("video", "reading"):
        raise ValueError("another error")


def test_every_extra_in_a_message_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    used = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r'extra\("(\w+)", ', path.read_text())
    }
    assert used >= {"tune", "video", "datasets", "export", "distributed"}
    assert used <= set(extras)
    assert (ROOT / "constraints.txt").exists()


def test_tuning_without_optuna(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("stopwise.tuning", "optuna"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match="tuning needs optuna: " + install_line("tune")):
        importlib.import_module("stopwise.tuning")


def test_the_command_tune_without_optuna(tmp_path):
    sw.datasets.write(tmp_path / "train.npz", np.zeros((4, 3, 1)), np.arange(4) % 2)
    files = [str(tmp_path / "train.npz"), "-o", str(tmp_path / "best.json")]
    command = [sys.executable, "-c", WITHOUT_OPTUNA, "tune", *files]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert re.search("^stopwise: tuning needs optuna: " + install_line("tune"), result.stderr)
    assert result.stderr.count("\n") == 1


def test_export_without_onnx(monkeypatch, tmp_path):
    from stopwise.export import export_onnx

    for package in ("onnx", "onnxruntime", "onnxscript"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(ImportError, match=f"ONNX needs {package}: " + install_line("export")):
                export_onnx(None, tmp_path / "model.onnx")


def test_decisions_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    decisions = sw.FixedTime(1).decide([[[1.0, 0.0]]])
    with pytest.raises(ImportError, match=r"to_frame\(\) needs pandas: pip install pandas"):
        decisions.to_frame()
