"""The command `stopwise decide`: decide on streams of samples."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwise.cli.common import app, plain

if TYPE_CHECKING:
    from stopwise.decision import Decision
    from stopwise.streaming.lines import Sample
    from stopwise.streaming.streams import Streams

ONLY = ""  # key of the only stream, if the input has no keys


@app.command()
def decide(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    source: Annotated[
        str, typer.Option("--input", "-i", help="File of samples, JSON lines or CSV; - is standard input.")
    ] = "-",
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
    strict: Annotated[
        bool, typer.Option(help="Stop at the first invalid line instead of skipping it.")
    ] = False,
) -> None:
    """Decide on streams of samples as they arrive.

    Each decision is printed as one line of JSON as soon as it is made.

    Input lines are JSON, such as {"key": "a", "x": [1.0, 2.0]}, or CSV. The key identifies the stream; leave
    it out if there is only one. {"key": "a", "end": true} ends a stream and forces its decision. At the end
    of the input, all streams without a decision are forced to one; with --state, they are kept for the next
    run.
    """
    from stopwise.estimator import load
    from stopwise.validation import check_integer

    check_integer("--save-every", save_every, 1)
    streams = load(model).streams(max_streams=max_streams, on_drop=_warn_drop)
    server = StreamServer(
        streams, None if state is None else state / "streams.safetensors", save_every, strict
    )
    try:
        with nullcontext(sys.stdin) if source == "-" else open(source, encoding="utf-8") as lines:
            server.serve(lines)
    except KeyboardInterrupt:
        server.save()
        raise
    except BrokenPipeError:  # the reader of standard output has exited
        server.save()
        # Python flushes standard output again at exit, so it is redirected to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class StreamServer:
    """Read samples, print decisions and save the states of the streams."""

    def __init__(self, streams: Streams, path: Path | None, save_every: int, strict: bool) -> None:
        self.streams, self.path, self.save_every, self.strict = streams, path, save_every, strict
        self.taken = 0
        if path is not None and path.exists():
            self._load(path)

    def serve(self, lines: Any) -> None:
        """Process all lines; at the end, save the states, or force a decision on every open stream."""
        from stopwise.streaming.lines import Malformed, read_samples

        for item in read_samples(lines):
            if isinstance(item, Malformed):
                self._report(item.line, item.reason)
                continue
            try:
                self._take(item)
            except (ValueError, KeyError) as error:
                self._report(item.line, str(error.args[0]))
        if self.path is not None:
            self.save()
            return
        for key in self.streams:
            if self.streams.decided(key) is None:
                self._answer(key, self.streams.finish(key))

    def save(self) -> None:
        """Write all states in one atomic write."""
        if self.path is None:
            return
        import torch

        from stopwise.persistence.tensors import write

        keys, arrays = self.streams.states()
        write(
            self.path,
            {name: torch.from_numpy(array) for name, array in arrays.items()},
            {"keys": keys, "taken": self.taken},
        )

    def _take(self, sample: Sample) -> None:
        key = ONLY if sample.key is None else sample.key
        if sample.x is None:
            open_ = self.streams.decided(key) is None
            decision = self.streams.finish(key)
            if open_:
                self._answer(key, decision)
            return
        decisions = self.streams.update({key: sample.x})
        self.taken += 1
        for name, decision in decisions.items():
            self._answer(name, decision)
        if self.taken % self.save_every == 0:
            self.save()

    def _answer(self, key: Any, decision: Decision) -> None:
        answer = {} if key == ONLY else {"key": key}
        answer |= {
            "label": decision.label,
            "time": decision.time,
            "forced": decision.forced,
            "scores": decision.scores.round(6).tolist(),
        }
        print(json.dumps(plain(answer)), flush=True)

    def _report(self, line: int, reason: str) -> None:
        if self.strict:
            raise ValueError(f"line {line}: {reason}")
        print(f"stopwise: line {line} skipped: {reason}", file=sys.stderr, flush=True)

    def _load(self, path: Path) -> None:
        from stopwise.persistence.tensors import read

        tensors, about = read(path)
        for i, key in enumerate(about["keys"]):
            self.streams.put(key, {name: tensor[i].numpy() for name, tensor in tensors.items()})
        self.taken = about["taken"]
        print(
            f"stopwise: resuming {len(about['keys'])} streams as they were after sample {self.taken}; later "
            "samples were not saved and must be sent again",
            file=sys.stderr,
            flush=True,
        )


def _warn_drop(key: Any, stream: Any) -> None:
    print(
        f"stopwise: stream {key!r} was dropped after {stream.time} samples: there are more streams than "
        "--max-streams",
        file=sys.stderr,
        flush=True,
    )
