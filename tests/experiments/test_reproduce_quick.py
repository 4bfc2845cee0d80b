"""`make reproduce-quick`: all figures at their quick sizes."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stopwise.cli import app
from stopwise.cli.reproduce import FIGURES

MAKEFILE = Path(__file__).parents[2] / "Makefile"


@pytest.mark.slow
def test_all_figures_are_reproduced(tmp_path):
    line = re.search(r"stopwise (reproduce all .*) --out \S+", MAKEFILE.read_text())
    result = CliRunner().invoke(app, [*line.group(1).split(), "--out", str(tmp_path), "--workers", "2"])
    assert result.exit_code == 0, result.output
    stems = {path.name.split("-")[0] for path in tmp_path.glob("*.png")}
    assert stems == {*FIGURES, "loss"} - {"archive"}
    table = json.loads((tmp_path / "main-quick.json").read_text())["a2"]["models"]
    baselines = [table[name]["llr_error"]["mean"] for name in ("TANDEM-LLLR", "Oblivion-LSEL")]
    for model in ("B2Bsqrt-TANDEM", "TANDEMformer", "accumulator"):
        assert table[model]["llr_error"]["mean"] < min(baselines)
        assert table[model]["by_truth"]["llr_error"]["mean"] < min(baselines)
