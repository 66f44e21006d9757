"""Short logs of policies that follow their history: copied where the log has been, nearly copied elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from logs import oracles_logs as oracles
from rewardmix import belief as bayes
from rewardmix import load, logs, plan, save, simulate, uniform
from rewardmix.evaluation import controller_value
from rewardmix.logs import explained as explaining
from rewardmix.logs import habits, imitation
from rewardmix.logs.belief_pass import best_at
from rewardmix.logs.explained import beliefs_of, explained, steps_of
from rewardmix.planning.baselines import belief_nodes, nearest
from rewardmix.policy import exploring


def deployed(count, *, explore=0.0, seed=1, contexts=3, horizon=5, **options):
    """(model, episodes of the best policy for it)."""
    model = oracles.world(states=3, actions=3, horizon=horizon, contexts=contexts, seed=7, **options)
    policy = exploring(plan(model, gap=1e-3).policy, explore, 3)
    return model, simulate(policy, model, count, seed=seed)


def histories_by_hand(episodes):
    """(history before the state, state) -> the actions that were taken there."""
    taken = {}
    for k in range(len(episodes)):
        history = ()
        for t in range(int(episodes.lengths[k])):
            state = int(episodes.states[k, t])
            taken.setdefault((t, history, state), set()).add(int(episodes.actions[k, t]))
            history = (*history, state, float(episodes.reward_values[episodes.outcomes[k, t]]))
    return taken


def numbered(episodes, model):
    steps = steps_of(episodes, model)
    return steps, imitation.histories_of(steps, model.num_states, model.num_values)


def test_histories_are_those_of_each_episode_read_by_hand():
    model, episodes = deployed(120)
    for log in (episodes, oracles.shortened(episodes)):
        steps, found = numbered(log, model)
        by_hand = histories_by_hand(log)
        for t in range(log.horizon):
            mine = {}
            for k in np.flatnonzero(log.present[:, t]):
                mine.setdefault((int(found.before[t, k]), int(log.states[k, t])), set()).add(int(log.actions[k, t]))
            theirs = [actions for (step, _, _), actions in by_hand.items() if step == t]
            assert sorted(map(sorted, mine.values())) == sorted(map(sorted, theirs))
            assert found.counts[t] == len({history for step, history, _ in by_hand if step == t})
        assert (found.before[~log.present.T] == -1).all()
        assert imitation.follows_histories(steps, found, model.num_states)


def test_only_short_logs_whose_actions_follow_from_histories_are_copied(monkeypatch):
    model, episodes = deployed(100)
    low = model
    assert imitation.imitated(episodes, model, low) is not None
    _, mixed = deployed(100, explore=0.05)
    assert any(len(actions) > 1 for actions in histories_by_hand(mixed).values())
    assert imitation.imitated(mixed, model, low) is None
    assert imitation.imitated(simulate(uniform(model), model, 100, seed=1), model, low) is None
    assert imitation.imitated(episodes[:20], model, low) is None  # hardly anything is repeated
    for name, value in (("SHORT", 99), ("_LARGE", 5 * 9 * 3 - 1)):
        with monkeypatch.context() as patch:
            patch.setattr(imitation, name, value)
            assert imitation.imitated(episodes, model, low) is None


@pytest.mark.parametrize("contexts", [2, 3])
def test_every_episode_of_the_log_is_played_as_it_was(contexts, monkeypatch):
    """However few beliefs have nodes: histories of the log do not go through them."""
    monkeypatch.setattr(imitation, "_NODES", 3)
    _, episodes = deployed(150, contexts=contexts)
    for log in (episodes, oracles.shortened(episodes)):
        fitted = logs.fit(log, num_contexts=contexts, resamples=0, share_held_out=0.0)
        policy = imitation.imitated(log, fitted.model, fitted.model)
        for k in range(len(log)):
            memory = policy.start(int(log.states[k, 0]))
            for t in range(int(log.lengths[k])):
                action = int(log.actions[k, t])
                assert policy.act(memory, None) == action
                if t + 1 < log.lengths[k]:
                    reward = float(log.reward_values[log.outcomes[k, t]])
                    memory = policy.observe(memory, action, reward, int(log.states[k, t + 1]))


def decision_by_hand(steps, beliefs, t, state, belief):
    """The action with the most votes, each decision's vote falling with the square of its distance."""
    visited = steps.present & (steps.states == state)
    near = min(np.flatnonzero(visited.any(axis=0)), key=lambda step: abs(step - t))
    votes = np.zeros(9)
    for k in np.flatnonzero(visited[:, near]):
        distance = sum((np.sqrt(a) - np.sqrt(b)) ** 2 for a, b in zip(belief, beliefs[near, k], strict=True))
        votes[steps.actions[k, near]] += (distance + 1e-4) ** -2
    return int(votes.argmax())


def test_new_histories_get_the_nearest_decisions():
    """Sessions of any action leave the log's histories: from there on the belief goes from node to node."""
    model, episodes = deployed(60)
    steps, histories = numbered(episodes, model)
    policy = imitation.controller_like(steps, histories, model, model)
    beliefs, nodes = beliefs_of(steps, model.weights, model.laws), belief_nodes(model, 256)
    known = histories_by_hand(episodes)
    rng, left = np.random.default_rng(3), 0
    for _ in range(100):
        state, belief, history, inside = int(rng.integers(3)), model.weights, (), True
        memory = policy.start(state)
        for t in range(model.horizon):
            action = policy.act(memory, rng)
            seen = known.get((t, history, state)) if inside else None
            if seen is None:
                left += 1
                assert action == decision_by_hand(steps, beliefs, t, state, belief)
            else:
                assert {action} == seen
            if t + 1 == model.horizon:
                break
            outcome, following = int(rng.integers(2)), int(rng.integers(3))
            reward = float(model.reward_values[outcome])
            history = (*history, state, reward)
            inside = inside and any(step == t + 1 and other == history for step, other, _ in known)
            belief = bayes.update(belief, model.laws[:, state, action, outcome])
            belief = belief if inside else nodes[t + 1][nearest(belief, nodes[t + 1])]
            memory, state = policy.observe(memory, action, reward, following), following
    assert left > 100


def test_beliefs_are_bayes():
    model, episodes = deployed(40)
    log = oracles.shortened(episodes)
    steps = steps_of(log, model)
    found = beliefs_of(steps, model.weights, model.laws)
    for k in range(len(log)):
        belief = model.weights
        for t in range(log.horizon):
            assert found[t, k] == pytest.approx(belief, abs=1e-12)
            if log.present[k, t]:
                belief = bayes.update(
                    belief, model.laws[:, steps.states[k, t], steps.actions[k, t], steps.outcomes[k, t]]
                )
        assert found[-1, k] == pytest.approx(belief, abs=1e-12)


def test_the_pass_over_beliefs_finds_the_best_value():
    """Where all beliefs that can be reached are points, it is exact."""
    model = oracles.world(states=3, actions=2, horizon=3, contexts=3, seed=2)
    nodes = belief_nodes(model, 5000)
    worth, plays = best_at(model, model, nodes)
    start = np.take_along_axis(worth[0], plays[0][..., None, None], axis=2)[:, 0, 0]
    found = plan(model, gap=1e-6)
    assert found.lower - 1e-9 <= model.initial @ start @ model.weights <= found.upper + 1e-9


def objective(steps, laws, weights, pull, worth):
    """What is climbed, in plain loops; worths (H, K, A, M) as they are at the episodes' own beliefs."""
    total = float((pull * np.log(laws)).sum())
    for k in range(steps.present.shape[0]):
        joint = weights.copy()
        for t in np.flatnonzero(steps.present[k]):
            scores = worth[t][k] @ (joint / joint.sum())
            total += scores[steps.actions[k, t]] - np.log(np.exp(scores).sum())
            joint = joint * laws[:, steps.states[k, t], steps.actions[k, t], steps.outcomes[k, t]]
        total += np.log(joint.sum())
    return total


def test_the_gradient_is_that_of_the_objective():
    model, episodes = deployed(25, horizon=3)
    steps = steps_of(oracles.shortened(episodes), model)
    nodes = [np.full((1, 3), 1 / 3)] * 3  # one point each, so that worths do not move with beliefs
    rng = np.random.default_rng(1)
    worth = [rng.normal(size=(3, 1, 3, 3)) for _ in range(3)]
    each = [worth[t][steps.states[:, t], 0] for t in range(3)]
    pull, place = rng.random(model.laws.shape[1:]), (rng.normal(size=model.laws.shape), rng.normal(size=3))

    def climbed(laws, weights):
        shares = [np.exp(part) / np.exp(part).sum(axis=-1, keepdims=True) for part in (laws, weights)]
        return objective(steps, *shares, pull, each)

    for part, slopes in enumerate(explaining._gradient(steps, place, pull, nodes, worth)):
        for where in list(np.ndindex(slopes.shape))[::3]:
            moved = [[one.copy() for one in place] for _ in range(2)]
            for one, sign in zip(moved, (1, -1), strict=True):
                one[part][where] += sign * 1e-5
            assert slopes[where] == pytest.approx((climbed(*moved[0]) - climbed(*moved[1])) / 2e-5, abs=1e-6)


def test_actions_tell_of_the_model_what_rewards_leave_open():
    """Three types, 300 sessions: the model that explains actions foretells them, and its imitation loses little."""
    model = oracles.world(states=5, actions=4, horizon=6, contexts=3, seed=11)
    deployed_policy = plan(model, gap=1e-3)
    loss, before = [], []
    for seed in range(3):
        log = simulate(deployed_policy.policy, model, 300, seed=seed)
        fitted = logs.fit(log, num_contexts=3, resamples=0, share_held_out=0.0, seed=seed)
        steps = steps_of(log, fitted.model)
        assert imitation.foretold(steps, explained(log, fitted.model)) > imitation.foretold(steps, fitted.model)
        assert fitted.info.support.kept
        loss.append(1 - controller_value(fitted.plan.policy, model) / deployed_policy.lower)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rewardmix.logs.imitation.SHORT", 0)
            other = logs.fit(log, num_contexts=3, resamples=0, share_held_out=0.0, seed=seed)
        before.append(1 - controller_value(other.plan.policy, model) / deployed_policy.lower)
    assert max(loss) < 0.01
    assert np.mean(loss) < 0.6 * np.mean(before)


def test_foretelling_leaves_the_episode_itself_out():
    """Every history once, with an action of its own: nobody else can tell."""
    model, episodes = deployed(2)
    log = episodes[:1]
    assert imitation.foretold(steps_of(log, model), model) == int((log.actions == 0).sum())


def test_a_copied_plan_is_estimated_with_the_certainty_of_its_log(tmp_path):
    model, episodes = deployed(300)
    fitted = logs.fit(episodes, num_contexts=3, resamples=0)
    assert fitted.info.support.kept
    assert fitted.info.support.left == 0
    assert fitted.info.support.sentence in fitted.info.sentences
    found = fitted.info.off_policy
    assert found.supported
    assert found.effective == found.agreed
    assert found.lower < controller_value(fitted.plan.policy, model) < found.upper
    save(tmp_path / "plan", fitted.plan)
    stored = load(tmp_path / "plan")
    assert stored.kept
    for mine, other in zip(fitted.plan.policy.actions, stored.policy.actions, strict=True):
        assert np.array_equal(mine, other)


def test_what_is_known_of_a_copied_log():
    taken = np.array([[True, False], [True, True]])
    known = imitation.Copied(taken)
    where = habits.Situations(0, np.array([[0], [1]]), np.full((1, 3, 2), 0.5), 0)
    assert np.array_equal(known.own(where), np.repeat(taken[:, None], 3, axis=1))
    _, episodes = deployed(30)
    assert (known.chances(episodes, None) == 1).all()
    assert replace(known, taken=~taken).own(where).sum() == 3
