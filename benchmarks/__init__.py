"""Studies: each folder holds settings, a program to run and what it found. Run from the root of the repository."""
