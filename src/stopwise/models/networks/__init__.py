"""Networks trained by gradient: one model a file, on torch `modules`, `kernels`, `steps` and `training`."""
