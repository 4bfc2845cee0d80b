"""Series that are still arriving: one stream, many streams by key, samples as lines of text."""
