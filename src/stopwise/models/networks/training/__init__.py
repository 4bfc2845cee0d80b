"""Training of networks: training loop, devices, checkpoints, order search and polishing."""
