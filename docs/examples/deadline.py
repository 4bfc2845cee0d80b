"""Draw docs/img/deadline.png: where three rules stop on the Gaussian world with a deadline of 50 samples."""

import sys

import stopwise as sw


def main(path: str) -> None:
    """Learn the rules and draw them."""
    _, y, scores = sw.datasets.gaussian(n=10_000, offset=0.5, channels=2, length=50, seed=0)
    cheap, expensive = sw.FiniteHorizon.path(scores, y, costs=[0.0005, 0.01])
    rules = {
        "deadline, cost 0.0005": cheap,
        "deadline, cost 0.01": expensive,
        "SPRT(4)": sw.SPRT(4.0),
    }
    sw.plots.save(sw.plots.stopping_boundaries(rules, scores, y, series=10), path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "deadline")
