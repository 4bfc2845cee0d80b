"""Data-parallel training on several devices, with one process per device, on Lightning Fabric."""

from __future__ import annotations

import atexit
import os
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.spawn import ProcessRaisedException

from stopwise.extras import extra
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training.config import Training
from stopwise.persistence.tensors import TensorFileError


def launch(
    run: Any, net: Integrator, training: Training
) -> tuple[dict[str, np.ndarray], list[dict[str, float]]]:
    """Execute a `TrainingRun` with one process per device; return the weights and the history."""
    with extra("distributed", f"devices={training.devices}"):
        from lightning_fabric import Fabric
    accelerator = torch.device(training.device).type
    fabric: Any = Fabric(accelerator=accelerator, devices=training.devices, strategy="ddp_spawn")
    try:
        return fabric.launch(_execute_on_fabric, run, net)
    except ProcessRaisedException as error:
        # The last line is the error of the process, such as "ValueError: `checkpoint`: ...".
        kind, _, message = str(error).strip().splitlines()[-1].partition(": ")
        known = {"FloatingPointError": FloatingPointError, "ValueError": ValueError}
        known["stopwise.persistence.tensors.TensorFileError"] = TensorFileError
        if kind in known:
            raise known[kind](message) from error
        raise


def _execute_on_fabric(
    fabric: Any, run: Any, net: Integrator
) -> tuple[dict[str, np.ndarray], list[dict[str, float]]]:
    history = run.execute(net, fabric)
    fabric.barrier()
    # Only the result remains to be returned. Threads of the process group are still running, and a regular
    # shutdown of the interpreter sometimes aborts the process, so exit without it.
    atexit.register(os._exit, 0)
    # Use numpy, because tensors would be passed through shared memory of a process that is about to exit.
    return {name: value.cpu().numpy() for name, value in net.state_dict().items()}, history
