"""`stopwise export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stopwise.cli.common import app, console


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    out: Annotated[Path, typer.Argument(help="The ONNX file to write.")],
) -> None:
    """Write one step of a model as an ONNX graph, state in and state out, and try it in onnxruntime."""
    from stopwise.estimator import load
    from stopwise.export import export_onnx

    difference = export_onnx(load(model), out)
    console.print(
        f"Wrote {out}; onnxruntime's scores differ from torch's by {difference:.1e} at most, relatively.",
        soft_wrap=True,
    )
