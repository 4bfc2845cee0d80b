"""Shared parts of the commands: application, common arguments, reading data, error messages."""

from __future__ import annotations

import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console

if TYPE_CHECKING:  # commands import these when needed, because importing torch takes seconds
    from stopwise.datasets import LabeledSeries
    from stopwise.estimator import EarlyClassifier

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()


def _print_version(asked: bool) -> None:
    if asked:
        print(f"stopwise {version('stopwise')}")
        raise typer.Exit


@app.callback()
def _common(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Decide early, decide right: early classification of time series."""


_DATA_HELP = (
    "Labeled series: NAME.npz with X and y; NAME for the pair NAME_X.npy and NAME_y.npy; NAME.ts; or "
    "NAME.csv with the columns series, time, label and one per channel."
)
Data = Annotated[Path, typer.Argument(help=_DATA_HELP)]
OptionalData = Annotated[Path | None, typer.Argument(help=_DATA_HELP, show_default=False)]
Seed = Annotated[int | None, typer.Option("--seed", help="Random seed (default 0).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


Channels = Annotated[
    str | None, typer.Option("--channels", help="Columns of a .csv file to use as channels: a,b,c.")
]
Drop = Annotated[str | None, typer.Option("--drop", help="Columns of a .csv file to ignore: a,b,c.")]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        help="Column (.csv), array (.npz) or file NAME_GROUPS.npy that says which series belong together, "
        "such as those of one person; they are never split between training and validation.",
    ),
]
Copies = Annotated[
    str,
    typer.Option(
        "--copies",
        help="once: series that are copies of each other count once. all: equal series are independent "
        "draws, because they are short and have few distinct values.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace another model that is in the folder --out.")]
Layout = Annotated[
    str,
    typer.Option("--layout", help="Axes of X in .npz and .npy files: steps-first or channels-first."),
]


def read_labeled(
    path: Path,
    channels: str | None = None,
    drop: str | None = None,
    groups: str | None = None,
    layout: str = "steps-first",
) -> LabeledSeries:
    """Read series with the columns that the options name; raise a ValueError if they have no labels."""
    from stopwise.datasets import read

    series = read(
        path, channels=split_names(channels), drop=split_names(drop) or (), groups=groups, layout=layout
    )
    if series.y is None:
        raise ValueError(f"{path} has no labels: add an array `y`, or a label column in a .csv file.")
    return series


def split_names(text: str | None) -> list[str] | None:
    """Return the names in a text such as "a,b,c"."""
    return None if text is None else [name.strip() for name in text.split(",")]


def check_folder_is_free(out: Path, force: bool) -> None:
    """Raise an error if a model cannot be saved to `out`, or if there is one and `force` is not set."""
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"cannot save the model to {out}: it is a file. Choose another --out.")
    if (out / "model.json").exists() and not force:
        raise FileExistsError(
            f"{out} holds a model already. Choose another --out, or add --force to replace it."
        )
    # Tried, because permissions alone do not tell: a file system may be read-only, full or virtual.
    missing = [folder for folder in (out, *out.absolute().parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise PermissionError(
            f"cannot save the model to {out}: {error.strerror}. Choose another --out."
        ) from None
    finally:
        for folder in missing:
            if folder.exists():
                folder.rmdir()


def class_indices(clf: EarlyClassifier, series: LabeledSeries) -> np.ndarray:
    """Return the class index (n,) of each label."""
    y = np.asarray(series.y)
    unknown = np.setdiff1d(y.astype(str), clf.classes_.astype(str))
    if len(unknown):
        raise ValueError(
            f"the data has labels the model does not know: {', '.join(unknown[:5])}. Known labels: "
            f"{', '.join(clf.classes_.astype(str)[:10])}."
        )
    names = {str(name): k for k, name in enumerate(clf.classes_)}
    return np.array([names[str(label)] for label in y], dtype=np.int64)


def named_numbers(option: str, given: list[str], classes: np.ndarray) -> dict[Any, float]:
    """Return {label: number} from strings CLASS=NUMBER or CLASS=NUMBER,CLASS=NUMBER.

    `option` is used in error messages.
    """
    names = {str(label): label for label in classes.tolist()}
    numbers: dict[Any, float] = {}
    # A name may contain a comma.
    parts = [[text] if text.rpartition("=")[0] in names else text.split(",") for text in given]
    for text in (part.strip() for own in parts for part in own):
        name, sign, number = text.rpartition("=")
        if not sign or name not in names or names[name] in numbers:
            raise ValueError(
                f"{option} must be one number, or CLASS=NUMBER once for each class; got {text!r}. "
                f"Known classes: {', '.join(list(names)[:10])}."
            )
        numbers[names[name]] = as_number(option, number)
    return numbers


def one_or_named(option: str, given: list[str] | None, classes: np.ndarray) -> Any:
    """Return one number, a dict {label: number}, or None if the option is not given."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return as_number(option, given[0])
    return named_numbers(option, given, classes)


def named_losses(given: list[str] | None, classes: np.ndarray) -> Any:
    """Return one number, a dict {(true label, decided label): loss}, or None if the option is not given."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return as_number("--loss", given[0])
    labels = classes.tolist()
    pairs = {f"{true}:{decided}": (true, decided) for true in labels for decided in labels if true != decided}
    losses: dict[Any, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        if name not in pairs or pairs[name] in losses:
            raise ValueError(
                f"--loss must be one number, or TRUE:DECIDED=NUMBER once for each pair of classes; got "
                f"{text!r}. Known pairs: {', '.join(list(pairs)[:10])}."
            )
        losses[pairs[name]] = as_number("--loss", number)
    return losses


def named_shares(option: str, given: list[str] | None, classes: np.ndarray) -> str | dict[Any, float] | None:
    """Return a prior: a name, or a dict {label: share}; None if the option is not given."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    return named_numbers(option, given, classes)


def as_number(option: str, text: str) -> float:
    """Convert a string to a number; `option` is used in error messages."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} must be a number such as 0.05; got {text!r}.") from None


def plain(value: Any) -> Any:
    """Convert to plain JSON values; NaN and infinity become None (null in JSON)."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


def fail(message: str, code: int) -> NoReturn:
    """Print an error message in one line and exit with a code."""
    print(f"stopwise: {message}", file=sys.stderr)
    sys.exit(code)
