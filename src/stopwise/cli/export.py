"""The command `stopwise export`: export a model to ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stopwise.cli.common import app, console


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    out: Annotated[Path, typer.Argument(help="ONNX file to write.")],
) -> None:
    """Export one streaming step of a model as an ONNX graph, and test it with onnxruntime."""
    from stopwise.export import export_onnx
    from stopwise.loading import load

    difference = export_onnx(load(model), out)
    console.print(
        f"Wrote {out}. The scores of onnxruntime and torch differ by at most {difference:.1e} (relative).",
        soft_wrap=True,
    )
