"""Models on disk: tensors in a file, and the folder of a saved classifier."""
