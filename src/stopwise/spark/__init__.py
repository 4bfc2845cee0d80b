"""Early classification on Spark: of whole series in a data frame, and of keyed streams.

Spark carries the classifier to its workers, which need stopwise installed. The scores are those of a local
classifier.
"""

from stopwise.spark.batch import decide
from stopwise.spark.streaming import decide_stream

__all__ = ["decide", "decide_stream"]
