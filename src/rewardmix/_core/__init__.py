"""What every room stands on: checks, limits, exact arithmetic, random streams, counters and files."""
