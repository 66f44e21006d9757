"""Whether results are the same bits on every machine."""
