"""From pictures and videos to series of features."""
