"""Networks: their torch modules, kernels, steps and training."""
