"""Make docs/img/decision.gif: an utterance of Japanese Vowels arrives and its speaker is decided."""

import sys

import numpy as np

import stopwise as sw


def main(path: str) -> None:
    """Fit the prefix model, choose an utterance and animate the decision on it."""
    train, test = sw.datasets.japanese_vowels()
    clf = sw.EarlyClassifier("prefix").fit(train.X, train.y)
    i = choose(clf, test)
    title = "Who is speaking? One of nine, as the speech arrives"
    video = sw.plots.decision_video(clf, test.X[i], test.y[i], title=title)
    print(f"{video.save(path)}: series {i}, {video}")


def choose(clf: sw.EarlyClassifier, test: sw.datasets.LabeledSeries) -> int:
    """Return a series in which a wrong speaker leads at first, and that saves many samples."""
    decisions, scores = clf.decide(test.X), clf.scores(test.X)
    found = {}
    for i, decision in enumerate(decisions):
        own = scores[i, : decision.time]
        top = np.sort(own, axis=1)[:, -2:]
        leads = top[:, 1] - top[:, 0]
        misled = int((clf.classes_[own.argmax(1)] != test.y[i]).sum())
        # The lead before the last one is clearly too small, and the decision takes some seconds.
        clear = 7 <= decision.time <= 10 and leads[-2] < 0.9 * np.log(8 / 0.05)
        if decision.label == test.y[i] and not decision.forced and clear and misled >= 3:
            found[i] = int(decisions.lengths[i]) - decision.time
    return max(found, key=found.__getitem__)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "decision.gif")
