"""How networks learn: the loop, several devices, checkpoints, the order, and the polish of the last layer."""
