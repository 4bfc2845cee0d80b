"""The file with the states of all streams, which `stopwise decide --state` resumes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from stopwise.persistence import tensors as files
from stopwise.streaming.answers import is_answer
from stopwise.streaming.sample_lines import Key, sequence_number
from stopwise.streaming.streams import Streams

FORMAT_VERSION = 2


def save_states(
    path: Path, streams: Streams, seqs: Mapping[Key, Any], taken: int, undelivered: list[dict[str, Any]]
) -> None:
    """Write the states of all streams in one atomic write.

    Parameters
    ----------
    path
        The file.
    streams
        Streams with keys of the type `Key`.
    seqs
        Last sequence number of each key that has one.
    taken
        Number of samples that were taken so far.
    undelivered
        Decisions that could not be written.
    """
    keys, arrays = streams.states()
    about = {
        "version": FORMAT_VERSION,
        "keys": [key.value for key in keys if isinstance(key, Key)],
        "seqs": [seqs.get(key) for key in keys if isinstance(key, Key)],
        "taken": taken,
        "undelivered": undelivered,
    }
    files.write(path, {name: torch.tensor(array) for name, array in arrays.items()}, about)


def load_states(path: Path, streams: Streams) -> tuple[dict[Key, Any], int, list[dict[str, Any]]]:
    """Add the stored streams to `streams`; return the other arguments of `save_states`.

    A ValueError is raised if the file is damaged, or belongs to another model.
    """
    try:
        tensors, about = files.read(path)
        if about.get("version") != FORMAT_VERSION:
            raise ValueError(f"it has version {about.get('version')!r:.20}, not {FORMAT_VERSION}")
        keys = [Key.of(value) for value in about["keys"]]
        seqs = [sequence_number(value) for value in about["seqs"]]
        taken, undelivered = about["taken"], about["undelivered"]
        if len(seqs) != len(keys) or type(taken) is not int or taken < 0:
            raise ValueError("its description is inconsistent")
        if not isinstance(undelivered, list) or not all(is_answer(one) for one in undelivered):
            raise ValueError("its description is inconsistent")
        streams.restore(keys, {name: tensor.numpy() for name, tensor in tensors.items()})
    except (FileNotFoundError, PermissionError, MemoryError, files.TensorFileError):
        raise
    except Exception as error:  # a file may hold any JSON and any tensors
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{path} cannot be used: {reason.rstrip('.')}. Continue with the model that wrote it, or delete "
            "the file to start over."
        ) from error
    return {key: seq for key, seq in zip(keys, seqs) if seq is not None}, taken, undelivered
