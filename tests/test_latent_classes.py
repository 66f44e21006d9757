"""Test the estimator of examples/latent_classes.py, with scikit-learn's own checks too."""

import itertools
import os

import numpy as np
import pytest

import rewardmix as rm

if os.environ.get("CI"):
    import sklearn
else:
    sklearn = pytest.importorskip("sklearn", reason="the extra dev has scikit-learn")


from examples.latent_classes import LatentClassMixture


def answers(people=2000, seed=0):
    """Two types, six questions, and who was of which."""
    rng = np.random.default_rng(seed)
    who = (rng.random(people) < 0.35).astype(int)
    chances = np.array([[0.9, 0.8, 0.2, 0.1, 0.7, 0.5], [0.2, 0.1, 0.7, 0.9, 0.3, 0.5]])
    return (rng.random((people, 6)) < chances[who]).astype(float), who, chances


def test_scikit_learns_own_checks():
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(LatentClassMixture(), on_fail=None, on_skip=None)
    bad = {one["check_name"]: one["exception"] for one in found if one["status"] not in ("passed", "skipped")}
    skipped = {one["check_name"] for one in found if one["status"] == "skipped"}
    assert not bad
    assert skipped <= {"check_array_api_input"}  # only where SCIPY_ARRAY_API is set
    assert len(found) >= 30


def test_types_are_found():
    table, who, chances = answers()
    found = LatentClassMixture().fit(table)
    order = np.argsort(found.weights_)[::-1]
    np.testing.assert_allclose(found.weights_[order], [0.65, 0.35], atol=5 * np.sqrt(0.25 / 2000) * 2)
    np.testing.assert_allclose(found.probs_[order, :, 1], chances, atol=0.12)
    right = (found.predict(table) == order[who]).mean()
    assert right > 0.9
    np.testing.assert_array_equal(found.fit_predict(table), found.predict(table))
    assert [len(found.profiles_), round(sum(t.share for t in found.profiles_), 9)] == [2, 1.0]


def test_probabilities_are_bayes():
    table, _, _ = answers(300)
    found = LatentClassMixture().fit(table)
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    codes = rows.astype(int)
    chances = [np.prod(law[np.arange(6), codes], axis=1) for law in found.probs_]
    joint = np.stack(chances, axis=1) * found.weights_
    np.testing.assert_allclose(found.predict_proba(rows), joint / joint.sum(axis=1, keepdims=True), atol=1e-9)
    np.testing.assert_allclose(found.score_samples(rows), np.log(joint.sum(axis=1)), atol=1e-9)
    assert found.score(rows) == pytest.approx(np.log(joint.sum(axis=1)).mean())


def test_numbers_are_cut_into_levels():
    rng = np.random.default_rng(1)
    who = rng.integers(2, size=600)
    table = rng.normal(size=(600, 4)) + 2.0 * who[:, None]
    found = LatentClassMixture(bins=4).fit(table)
    assert [cuts.size for cuts in found.bin_edges_] == [3] * 4
    agree = (found.predict(table) == who).mean()
    assert max(agree, 1 - agree) > 0.85
    assert found.predict_proba(np.full((1, 4), 1e9)).shape == (1, 2)  # beyond everything that was seen


def test_columns_have_names():
    pandas = pytest.importorskip("pandas")
    table, _, _ = answers(200)
    found = LatentClassMixture().fit(pandas.DataFrame(table, columns=list("abcdef")))
    assert found.model_.action_names == tuple("abcdef")
    assert found.profiles_[0].likes[0].label in "abcdef"


@pytest.mark.parametrize(
    ("options", "said"), [({"n_components": 0}, "n_components: found 0"), ({"bins": 1}, "bins: found 1")]
)
def test_settings_are_refused_by_name(options, said):
    with pytest.raises(rm.InputError, match=said):
        LatentClassMixture(**options).fit(answers(50)[0])
