"""The glossary is true: its names are importable, and it has every key of ``result.json``."""

import importlib
import json
import re
from pathlib import Path

import pytest

import rewardmix as rm

DOCS = Path(__file__).parents[2] / "docs"
GLOSSARY = (DOCS / "concepts" / "glossary.md").read_text(encoding="utf-8")
RESULT_PAGE = (DOCS / "reference" / "result-json.md").read_text(encoding="utf-8")
TABLE = GLOSSARY.split("\n## Find the code\n")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| (.+?) \| `([\w.]+)` \|$", TABLE, re.MULTILINE)
SEARCHED = """A/B test, alpha vectors, BIC, Bellman backup, contextual bandit, doubly robust, E-step, EM restarts,
    Gibbs sampling, importance weight, label switching, lower bound, M-step, off-policy evaluation, propensity, rate
    limit, sample complexity, segment, session timeout, sliding window, Thompson sampling"""

FREE_KEYS = {"files", "metadata", "policy", "versions", "numbers", "labels", "premises", "statement_checks"}
"""Fields whose keys are not part of the schema: settings, file names, numbers of one sentence, names of premises."""


def find_object(name):
    """Import a module, or the module of a name and then the name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        home, _, last = name.rpartition(".")
        if not home:
            raise
        return getattr(find_object(home), last)


@pytest.mark.parametrize("name", [name for _, name in ROWS])
def test_names_in_the_glossary_are_importable(name):
    assert find_object(name) is not None


def test_the_table_of_the_glossary_is_complete_and_sorted():
    assert len(ROWS) == TABLE.count("\n| ") - 1 > 100  # all rows but the head have a name
    words = [text.casefold() for text, _ in ROWS]
    assert len(set(words)) == len(words)
    first_letters = [text[0] for text in words]
    assert first_letters == sorted(first_letters)


@pytest.mark.parametrize("word", [word.strip() for word in " ".join(SEARCHED.split()).split(",")])
def test_the_glossary_has_the_words_that_people_search_for(word):
    assert word.casefold() in TABLE.casefold()


def collect_keys(value):
    """Yield the keys of nested objects that belong to the schema."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key not in FREE_KEYS:
                yield from collect_keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from collect_keys(item)


@pytest.fixture(scope="module")
def results():
    """Return one small result of each kind that writes ``result.json``."""
    shop = rm.make_model("shop")
    episodes = rm.simulate(rm.uniform_policy(shop), shop, 600)
    return {
        "learn": rm.learn("shop", num_episodes=300, num_resamples=2, num_validation_episodes=50),
        "fit": rm.fit(episodes, num_resamples=2),
        "learn_online": rm.learn_online(rm.make_env("probe"), num_episodes=300),
    }


@pytest.mark.parametrize("kind", ["learn", "fit", "learn_online"])
def test_keys_of_result_json_are_documented(kind, results, tmp_path):
    results[kind].save(tmp_path)
    keys = set(collect_keys(json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))))
    documented = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", GLOSSARY + RESULT_PAGE))))
    assert keys <= documented, sorted(keys - documented)
    assert len(keys) > 60
