"""Check that every mutation applies to the source and names tests that exist; ``make mutants`` runs them."""

import ast
from functools import cache
from pathlib import Path

import mutants

MUTATIONS = mutants.read_mutations()


@cache
def function_names(file: str) -> set[str]:
    tree = ast.parse((mutants.ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_mutation_applies_at_one_place():
    assert mutants.faults(MUTATIONS) == []


def test_there_are_enough_mutations_with_unique_names():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 80


def test_the_tests_of_mutations_exist():
    assert all(mutation.tests for mutation in MUTATIONS)
    for test in {test for mutation in MUTATIONS for test in mutation.tests}:
        file, _, name = test.partition("::")
        assert Path(file).parts[0] == "tests", test
        assert not name or name.partition("[")[0] in function_names(file), test


def test_a_mutation_that_does_not_apply_is_explained():
    wrong = mutants.Mutation("twice", "model.py", "a", "b", ())
    assert wrong.fault("aa") == "twice: 'a' occurs 2 times in model.py, expected once"
    assert wrong.fault("a\n") == ""
    assert "within one line" in mutants.Mutation("none", "model.py", "a", "a", ()).fault("a")
