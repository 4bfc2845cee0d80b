"""Series, labels, and what a model sees of them.

`series` is one view of everything users pass as X, `inputs` turns samples into what a model sees, `examples`
are labelled series to learn from, `holdout` cuts off a validation part, `fingerprints` remember which series
a model has seen. Nothing here knows torch.
"""
