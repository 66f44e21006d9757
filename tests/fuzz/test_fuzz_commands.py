"""A few command lines of the fuzzer; ``python tests/fuzz/commands.py --tries 2000`` types many."""

from fuzz.commands import fuzz, table


def test_command_lines_end_well_or_are_refused():
    ends, bad = fuzz(60, seed=4, show=False)
    print(", ".join(table(60, ends)))
    assert not bad, "\n".join(bad)
    assert ends["ok"] >= 10
    assert ends["refused"] >= 10
