"""Prefix model: causal features of the samples so far, with a closed-form classifier at some steps.

- `kernels`: random convolution kernels, and `pooling`: their running averages.
- `statistics`: running statistics of the channels, and `rbf`: Gaussian kernels on them.
- `ridge`: ridge regression in closed form, with the predictions for series that were left out.
- `blocks`: weights of the kinds of features; `calibration`: from regression outputs to log posteriors.
- `fitting` learns the heads, `heads` applies them; `step` does the same one sample at a time.
"""
