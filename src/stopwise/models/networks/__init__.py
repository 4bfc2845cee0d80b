"""Models that are neural networks, one per file, built on `modules`, `kernels`, `steps` and `training`."""
