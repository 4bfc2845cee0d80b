"""The command `stopwise decide`: decide on streams of samples, or on files of series."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from stopwise.cli.common import Channels, Drop, Layout, app, fail, split_names
from stopwise.cli.decisions import OUTPUT_FORMATS, DecisionWriter
from stopwise.cli.interrupts import Interrupted, Interrupts
from stopwise.validation import check_choice, check_integer, check_real

if TYPE_CHECKING:
    from stopwise.estimator import EarlyClassifier
    from stopwise.streaming.csv_lines import Columns
    from stopwise.streaming.server import Counts, StreamServer

NOTHING_USED = 1  # exit code


@app.command()
def decide(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    source: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            help="Samples as JSON lines or CSV, - is standard input; or a file of series that train reads.",
        ),
    ] = "-",
    input_format: Annotated[
        str, typer.Option(help="Format of lines of samples: auto, json or csv.")
    ] = "auto",
    output_format: Annotated[str, typer.Option(help="Format of the decisions: json or csv.")] = "json",
    state: Annotated[
        Path | None,
        typer.Option(help="Folder for the states of the streams; the next run resumes from it."),
    ] = None,
    save_every: Annotated[int, typer.Option(help="Number of samples between saves of the states.")] = 1000,
    max_streams: Annotated[
        int,
        typer.Option(
            help="Maximum number of streams at a time. Beyond it, the least recently updated stream is "
            "dropped with a warning."
        ),
    ] = 100_000,
    idle: Annotated[
        float | None, typer.Option(help="Seconds without a sample after which a stream is removed.")
    ] = None,
    on_idle: Annotated[
        str | None,
        typer.Option(help="What to do with an idle stream: force (its decision; default) or drop."),
    ] = None,
    rearm: Annotated[
        bool,
        typer.Option("--rearm", help="Start a new series after a decision; otherwise samples are ignored."),
    ] = False,
    max_line: Annotated[int, typer.Option(help="Maximum length of a line in bytes.")] = 1 << 20,
    channels: Channels = None,
    drop: Drop = None,
    echo: Annotated[
        str | None, typer.Option(help="Columns of CSV input to copy to the decisions: a,b,c.")
    ] = None,
    layout: Layout = "steps-first",
    strict: Annotated[
        bool, typer.Option(help="Stop at the first invalid line instead of skipping it.")
    ] = False,
) -> None:
    """Decide on streams of samples as they arrive, or on files of series.

    Each decision is printed as one line of JSON (or CSV) as soon as it is made. Counts are printed on
    standard error at the end. The exit code is 1 if there was input but none of it could be used.

    Input lines are JSON, such as {"key": "a", "x": [1.0, 2.0]}, or CSV. The key identifies the stream; leave
    it out if there is only one. {"key": "a", "end": true} ends a stream and forces its decision. At the end
    of the input, all streams without a decision are forced to one; with --state, they are kept for the next
    run.
    """
    from stopwise.streaming.reading import FORMATS

    check_choice("--output-format", output_format, OUTPUT_FORMATS)
    check_choice("--input-format", input_format, FORMATS)
    if on_idle is not None:
        check_choice("--on-idle", on_idle, ("force", "drop"))
        if idle is None:
            raise ValueError("--on-idle can only be used with --idle, the seconds without a sample.")
    check_integer("--save-every", save_every, 1)
    check_integer("--max-line", max_line, 100)
    if idle is not None:
        check_real("--idle", idle, 0, open_low=True)
    from stopwise.cli.whole_files import decide_on_series, is_whole_file
    from stopwise.loading import load

    clf = load(model)
    writer = DecisionWriter(sys.stdout.buffer, output_format, clf.classes_.tolist())
    if source != "-" and input_format == "auto" and is_whole_file(Path(source)):
        if state is not None or idle is not None or rearm or echo is not None:
            raise ValueError(
                f"--state, --idle, --rearm and --echo can only be used with lines of samples; {source} holds "
                "whole series."
            )
        with _ending_with_the_reader():
            counts = decide_on_series(
                clf, Path(source), writer, note, channels=channels, drop=drop, layout=layout, strict=strict
            )
            _end(counts, "")
        return
    if layout != "steps-first":
        raise ValueError("--layout can only be used with .npz and .npy files; the input is lines of samples.")
    columns = _columns(clf, split_names(channels), split_names(drop) or [], split_names(echo) or [])
    make = partial(clf.streams, max_streams=max_streams, rearm=rearm, idle=idle)
    with ExitStack() as stack:
        file = stack.enter_context(_opened(source))
        path = None
        if state is not None:
            from stopwise.locking import exclusive

            state.mkdir(parents=True, exist_ok=True)
            stack.enter_context(exclusive(state, patience=0))
            path = state / "streams.safetensors"
        from stopwise.streaming.server import StreamServer

        server = StreamServer(
            make,
            writer,
            note,
            path=path,
            save_every=save_every,
            strict=strict,
            force_idle=None if idle is None else on_idle != "drop",
        )
        _serve(server, file, columns, input_format, max_line, idle)


def _serve(
    server: StreamServer, file: BinaryIO, columns: Columns, form: str, max_line: int, idle: float | None
) -> None:
    """Process all lines; whatever ends the run, save the states first."""
    from stopwise.streaming.lines import read_lines
    from stopwise.streaming.reading import read_samples

    pause = None if idle is None else min(1.0, max(0.05, idle / 4))
    saved = "" if server.path is None else f", {server.path} holds the open streams"
    with Interrupts() as interrupts:
        try:
            lines = read_lines(file, max_line, pause=pause, waiting=interrupts.waiting)
            with _ending_with_the_reader(server):
                server.serve(read_samples(lines, columns, form=form))
                _end(server.counts, saved)
        except Interrupted as interrupted:
            if interrupted.at_once:  # the work in progress may be incomplete; the last save is complete
                fail("interrupted twice; the states were not saved again", 128 + interrupted.number)
            server.save()
            note(f"{server.counts}{saved}")
            fail("interrupted", 128 + interrupted.number)
        except (OSError, ValueError):  # the input or the output failed, or --strict ended the run
            server.save()
            raise


@contextmanager
def _ending_with_the_reader(server: StreamServer | None = None) -> Iterator[None]:
    """End in silence, after saving the states, if the reader of standard output has exited."""
    try:
        yield
    except BrokenPipeError:
        if server is not None:
            server.save()
        # Python flushes standard output again at exit, so it is redirected to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(counts: Counts, saved: str) -> None:
    """Print the counts; exit with code 1 if nothing could be used."""
    note(f"{counts}{saved}")
    if counts.useless:
        raise typer.Exit(NOTHING_USED)


def _opened(source: str) -> AbstractContextManager[BinaryIO]:
    if source == "-":
        return nullcontext(sys.stdin.buffer)
    if not Path(source).exists():
        raise FileNotFoundError(f"--input must be - or a file; {source} does not exist.")
    if Path(source).is_dir():
        raise IsADirectoryError(f"--input must be - or a file; {source} is a folder.")
    return open(source, "rb")


def _columns(clf: EarlyClassifier, channels: list[str] | None, drop: list[str], echo: list[str]) -> Columns:
    """Return the columns of CSV input; channels are those of the model, if it knows their names."""
    from stopwise.streaming.csv_lines import Columns

    known = clf.channel_names_
    if channels is not None and (len(channels) != clf.n_channels_ or (known and set(channels) != set(known))):
        names = f": {', '.join(known)}" if known else ""
        raise ValueError(
            f"--channels must name the {clf.n_channels_} channel(s) of the model{names}; got "
            f"{', '.join(channels)}."
        )
    twice = set(drop) & set(echo) | (set(drop) | set(echo)) & set(known or channels or ())
    if twice:
        raise ValueError(
            f"--channels, --drop and --echo must differ; {', '.join(sorted(twice))} occurs twice."
        )
    chosen = channels is not None or bool(drop or echo)
    return Columns(clf.n_channels_, known or channels, tuple(drop), tuple(echo), chosen)


def note(text: str) -> None:
    """Print a message on standard error; a closed standard error does not end the run."""
    with suppress(OSError, ValueError):
        print(f"stopwise: {text}", file=sys.stderr, flush=True)
