"""Check how SARSOP is called and its output read, with a stand-in program."""

import sys

import pytest
from benchmarks.planning import rivals, settings
from benchmarks.planning.run import beside_sarsop

from rewardmix import problems

STAND_IN = """#!{python}
import sys
args = sys.argv[1:]
assert args[0::2][:3] == ["--precision", "--timeout", "-o"] and len(args) == 7, args
assert float(args[1]) == {gap} and float(args[3]) > 0
text = open(args[6]).read()
assert "<pomdpx" in text
print("Loading the model ...")
print(" Time   |#Trial |#Backup |LBound    |UBound    |Precision  |#Alphas |#Beliefs")
print(" 0.01    0       0        1.5        9.25       7.75        3        1")
print(" 0.52    10      51       2.125      2.25       0.125       17       9")
"""


def install(folder, monkeypatch, gap):
    program = folder / "pomdpsol"
    program.write_text(STAND_IN.format(python=sys.executable, gap=gap))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_sarsop_gets_the_exported_model_and_its_last_bracket_is_read(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, 0.01)
    model = problems.make_model("random", states=3, actions=2, horizon=3, num_types=4)
    lower, upper, seconds = rivals.sarsop(model, 0.01, 5.0)
    assert (lower, upper) == (2.125, 2.25)
    assert seconds > 0


def test_three_to_eight_types_are_compared_with_sarsop(tmp_path, monkeypatch):
    assert {case.num_types for case in settings.MANY} >= {3, 4, 6, 8}
    small = [settings.Case("dense", 2, 2, 2, 0.1, num_types=num_types) for num_types in range(3, 9)]
    monkeypatch.setattr(settings, "MANY", small)
    install(tmp_path, monkeypatch, 0.1)
    rows = beside_sarsop(quick=False)
    assert [row["case"] for row in rows] == [case.name for case in small]
    assert all(row["gap"] == pytest.approx(0.125) for row in rows)


def test_there_is_no_comparison_if_sarsop_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rivals.sarsop(problems.make_model("probe"), 0.1, 1.0) is None
    assert beside_sarsop(quick=True) == []
