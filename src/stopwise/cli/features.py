"""The command `stopwise features`: extract features from videos."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from stopwise.cli.common import AsJson, app, console


@app.command()
def features(
    videos: Annotated[Path, typer.Argument(help="Folder of videos.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the features.")],
    dataset: Annotated[
        str,
        typer.Option(
            help="folder (one subfolder per class, or train/ and test/ with one per class), ucf101, hmdb51 "
            "or siw."
        ),
    ] = "folder",
    split: Annotated[
        str,
        typer.Option(help="Official split of the dataset: 1, 2 or 3; for siw: 1, 2.1 to 2.4, 3.1 or 3.2."),
    ] = "1",
    splits: Annotated[
        Path | None,
        typer.Option(help="Folder of the official split lists (default: search next to the videos)."),
    ] = None,
    test_fraction: Annotated[
        float, typer.Option(help="Test share of each class, for a folder without train/ and test/.")
    ] = 0.25,
    backbone: Annotated[
        str, typer.Option(help="resnet18, resnet34, resnet50, resnet101, resnet152 or small.")
    ] = "resnet50",
    weights: Annotated[
        Path | None, typer.Option(help="File of pretrained weights: .safetensors or a torch state_dict.")
    ] = None,
    frames: Annotated[int, typer.Option(help="Maximum number of frames per video.")] = 50,
    stride: Annotated[
        int | None,
        typer.Option(help="Take every n-th frame from the start, instead of evenly spaced frames."),
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Height and width of the frames in pixels (default 224; small: 64).")
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Train the backbone on the training frames first.")
    ] = False,
    dim: Annotated[
        int | None,
        typer.Option(
            help="Number of features: of the small backbone (default 64), or of a projection after a ResNet "
            "(default: no projection)."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Epochs of --fit.")] = 10,
    learning_rate: Annotated[float, typer.Option(help="Learning rate of --fit.")] = 2e-3,
    batch_size: Annotated[int, typer.Option(help="Frames per batch.")] = 64,
    workers: Annotated[int, typer.Option(help="Number of videos to decode in parallel.")] = 1,
    device: Annotated[str, typer.Option(help="Torch device.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Extract series of features from a folder of videos, for training.

    If a run is interrupted, the same command resumes it.
    """
    from stopwise.features import build_backbone, extract, find_clips

    layout = find_clips(videos, dataset, split=split, splits=splits, test_fraction=test_fraction, seed=seed)
    net = build_backbone(backbone, weights, size=size, dim=dim, seed=seed)
    recipe = {"epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size, "seed": seed}
    if not (net.trained or fit or as_json):
        what = f"the weights of {backbone} are random, and so are the features. Pass --weights FILE, or train"
        if weights is not None:
            what = f"the projection to {dim} features is random. Train"
        console.print(f"[bold red]Note:[/] {what} the backbone with --fit.")
    report = extract(
        layout,
        net,
        out,
        frames=frames,
        stride=stride,
        fit=recipe if fit else None,
        batch_size=batch_size,
        workers=workers,
        device=device,
        progress=not as_json,
    )
    if as_json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return
    _print_report(report, out)


def _print_report(report: dict[str, Any], out: Path) -> None:
    for part, about in report["parts"].items():
        low, high = about["steps"]
        steps = f"{low}" if low == high else f"{low} to {high}"
        console.print(
            f"{part}: {_count(about['videos'], 'video')} of {_count(about['classes'], 'class', 'es')}, "
            f"{steps} frames, {about['features']} features each."
        )
    for title, items in (("Skipped", report["skipped"]), ("Damaged but used", report["damaged"])):
        for item in items[:10]:
            why = item.get("reason") or "; ".join(item["notes"])
            console.print(f"{title}: {item['video']}: {why}", soft_wrap=True, markup=False)
        if len(items) > 10:
            console.print(f"… and {len(items) - 10} more.")
    for note in report["notes"]:
        console.print(f"Note: {note}", soft_wrap=True, markup=False)
    console.print(f"Report: {out / 'features.json'}", soft_wrap=True)
    if "train" in report["parts"]:
        console.print(f"Next: stopwise train {out / 'train'} -o MODEL", soft_wrap=True)


def _count(number: int, name: str, plural: str = "s") -> str:
    return f"{number} {name}{'' if number == 1 else plural}"
