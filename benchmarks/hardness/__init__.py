"""The family of theorem:lower_bound: episodes until nine runs of ten find its pair, against (S A / e)^2."""
