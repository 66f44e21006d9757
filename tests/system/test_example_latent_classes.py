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
    probs = np.array([[0.9, 0.8, 0.2, 0.1, 0.7, 0.5], [0.2, 0.1, 0.7, 0.9, 0.3, 0.5]])
    return (rng.random((people, 6)) < probs[who]).astype(float), who, probs


def test_scikit_learns_own_checks():
    from sklearn.utils.estimator_checks import check_estimator

    result = check_estimator(LatentClassMixture(), on_fail=None, on_skip=None)
    bad = {item["check_name"]: item["exception"] for item in result if item["status"] not in ("passed", "skipped")}
    skipped = {item["check_name"] for item in result if item["status"] == "skipped"}
    assert not bad
    assert skipped <= {"check_array_api_input"}  # only where SCIPY_ARRAY_API is set
    assert len(result) >= 30


def test_types_are_found():
    table, who, probs = answers()
    result = LatentClassMixture().fit(table)
    order = np.argsort(result.weights_)[::-1]
    np.testing.assert_allclose(result.weights_[order], [0.65, 0.35], atol=5 * np.sqrt(0.25 / 2000) * 2)
    np.testing.assert_allclose(result.probs_[order, :, 1], probs, atol=0.12)
    right = (result.predict(table) == order[who]).mean()
    assert right > 0.9
    np.testing.assert_array_equal(result.fit_predict(table), result.predict(table))
    assert [len(result.profiles_), round(sum(t.weight for t in result.profiles_), 9)] == [2, 1.0]


def test_probabilities_are_bayes():
    table, _, _ = answers(300)
    result = LatentClassMixture().fit(table)
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    codes = rows.astype(int)
    probs = [np.prod(class_probs[np.arange(6), codes], axis=1) for class_probs in result.probs_]
    joint = np.stack(probs, axis=1) * result.weights_
    np.testing.assert_allclose(result.predict_proba(rows), joint / joint.sum(axis=1, keepdims=True), atol=1e-9)
    np.testing.assert_allclose(result.score_samples(rows), np.log(joint.sum(axis=1)), atol=1e-9)
    assert result.score(rows) == pytest.approx(np.log(joint.sum(axis=1)).mean())


def test_numbers_are_cut_into_levels():
    rng = np.random.default_rng(1)
    who = rng.integers(2, size=600)
    table = rng.normal(size=(600, 4)) + 2.0 * who[:, None]
    result = LatentClassMixture(bins=4).fit(table)
    assert [cuts.size for cuts in result.bin_edges_] == [3] * 4
    agree = (result.predict(table) == who).mean()
    assert max(agree, 1 - agree) > 0.85
    assert result.predict_proba(np.full((1, 4), 1e9)).shape == (1, 2)  # beyond everything that was seen


def test_columns_have_names():
    pandas = pytest.importorskip("pandas")
    table, _, _ = answers(200)
    result = LatentClassMixture().fit(pandas.DataFrame(table, columns=list("abcdef")))
    assert result.model_.action_names == tuple("abcdef")
    assert result.profiles_[0].preferred[0].label in "abcdef"


@pytest.mark.parametrize(
    ("options", "text"), [({"n_components": 0}, "n_components: got 0"), ({"bins": 1}, "bins: got 1")]
)
def test_settings_are_refused_by_name(options, text):
    with pytest.raises(rm.InputError, match=text):
        LatentClassMixture(**options).fit(answers(50)[0])
