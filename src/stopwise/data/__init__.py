"""Series, labels and model inputs.

- `series`: a common interface to all forms of X;
- `labels`: labels as class indices, and class frequencies;
- `inputs`: conversion of samples to model inputs;
- `examples`: labeled series for training;
- `holdout`: split into a training and a validation part;
- `fingerprints`: hashes of the training series.

No module here imports torch.
"""
