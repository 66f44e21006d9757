"""Plans that keep to what the log knows: lower rewards, the log's own actions, and what is said of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from logs import oracles_logs as oracles
from rewardmix import InputError, load, logs, plan, problems, save, simulate, uniform
from rewardmix import belief as bayes
from rewardmix.evaluation import controller_value, markov_value
from rewardmix.logs import habits, pessimism
from rewardmix.logs.habits import SITUATION_LEVELS, habits_of, situations
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan_markov
from rewardmix.planning.plans import NodeBeliefs
from rewardmix.policy import BeliefPolicy, MarkovPolicy, exploring
from rewardmix.report.beliefs import belief_view


def coarse(belief, width):
    """Log-odds of two types in units of the width."""
    far = round(6.0 / width)
    return int(np.rint(np.clip(np.log(max(belief[0], 1e-12) / max(belief[1], 1e-12)) / width, -far, far)))


def seen_by_hand(episodes, model):
    """(situation at each level, action) of every step, one after the other."""
    out = []
    for k in range(len(episodes)):
        belief, last = model.weights, 0
        for t in range(int(episodes.lengths[k])):
            s, a, z = int(episodes.states[k, t]), int(episodes.actions[k, t]), int(episodes.outcomes[k, t])
            keys = [
                (s, coarse(belief, level.width) if level.width else 0, last * level.last, t * level.timed)
                for level in SITUATION_LEVELS
            ]
            out.append((k, t, keys, a))
            belief = bayes.update(belief, model.laws[:, s, a, z])
            last = 1 + a * model.num_values + z
    return out


def test_chances_are_mixed_from_coarse_to_fine():
    """The formula of the module, by hand, for episodes that had no part in the habits."""
    model = oracles.world(states=3, actions=2, horizon=4, seed=2)
    episodes = oracles.shortened(simulate(oracles.WinStay(2), model, 220, seed=1))
    others, fresh = episodes[:200], episodes[200:]
    found = habits_of(others, model)
    counts = [{} for _ in SITUATION_LEVELS]
    for _, _, keys, action in seen_by_hand(others, model):
        for table, key in zip(counts, keys, strict=True):
            table.setdefault(key, np.zeros(2))[action] += 1
    where = situations(fresh, model)
    laws, chances, expected = found.laws(where), found.chances(fresh, model), np.ones(fresh.actions.shape)
    for k, t, keys, action in seen_by_hand(fresh, model):
        law = np.full(2, 0.5)
        for table, key, strength in zip(counts, keys, found.strengths, strict=True):
            law = mixed_with(law, table.get(key, np.zeros(2)), strength)
        assert laws[k, t] == pytest.approx(law, rel=1e-12)
        law = mixed_with(np.full(2, 0.5), counts[0].get(keys[0], np.zeros(2)), found.strengths[0])
        law = mixed_with(law, counts[found.best].get(keys[found.best], np.zeros(2)), found.best_strength)
        expected[k, t] = law[action]
    assert chances == pytest.approx(expected, rel=1e-12)


def mixed_with(coarser, taken, strength):
    return (taken + strength * coarser) / (taken.sum() + strength)


def test_the_strengths_say_what_the_log_follows():
    """Uniform play follows nothing; a policy that stays after a reward follows the step before."""
    model = oracles.world(states=3, actions=2, horizon=6, seed=2)
    blind = habits_of(simulate(uniform(model), model, 2000, seed=3), model)
    assert min(blind.strengths[1:]) >= 100
    follows = habits_of(simulate(oracles.WinStay(2), model, 2000, seed=3), model)
    assert (
        min(strength for level, strength in zip(SITUATION_LEVELS, follows.strengths, strict=True) if level.last) <= 10
    )
    model = problems.make("shop")
    adaptive = habits_of(simulate(plan(model).policy, model, 500, seed=3), model)
    assert adaptive.strengths[2] <= 1
    assert SITUATION_LEVELS[adaptive.best].width > 0
    assert SITUATION_LEVELS[follows.best].last


def fitted_and_known(episodes, **options):
    fitted = logs.fit(episodes, resamples=0, share_held_out=0.0, **options)
    visits = fitted.info.moments.samples.reshape(episodes.num_states, -1)
    return fitted, pessimism.Known(episodes, fitted.model, fitted.info.recovery.errors, visits)


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 0.0, 2.0)])
def test_lower_rewards_are_lower_by_standard_errors(values):
    model = oracles.world(states=3, actions=2, horizon=5, seed=3, reward_values=values)
    episodes = simulate(uniform(model), model, 800, seed=1)
    never = ((episodes.states[:, :-1] == 2) & (episodes.actions == 1)).any(axis=1)
    _, known = fitted_and_known(episodes[~never])
    low = pessimism.lowered(known, 0.7)
    assert (low.means[:, 2, 1] == values[0]).all()
    fitted, taken = known.model, known.model.means - low.means
    tried = known.visits > 0
    assert np.isfinite(known.errors[:, tried]).all()
    errors = np.where(np.isfinite(known.errors), known.errors, 0.0)
    if len(values) > 2:
        errors = np.sqrt(((errors * (np.array(values) - values[0])) ** 2).sum(axis=-1))
    most = fitted.means - values[0]
    assert taken[:, tried] == pytest.approx(np.minimum(0.7 * errors, most)[:, tried], abs=1e-12)
    assert np.allclose(low.transition, fitted.transition)


def with_unknown_errors(values, laws, sessions=400, share=None):
    """What is known of a log of one state-action a type, with laws that are given and no standard error."""
    model = oracles.world(states=2, actions=2, horizon=4, seed=3, reward_values=values)
    model = replace(model, rewards=np.broadcast_to(np.array(laws)[:, None, None], (2, 2, 2, len(values))))
    episodes = simulate(uniform(model), model, sessions, seed=1)
    visits = np.zeros((2, 2), np.int64)
    np.add.at(visits, (episodes.states[:, :-1], episodes.actions), 1)
    return pessimism.Known(episodes, model, np.full(model.rewards.shape, np.nan), visits)


def test_an_error_that_is_not_finite_comes_from_counts():
    """(p + a/n) (1 - p + a/n) / n of the visits that each type is expected to have made, by hand."""
    known = with_unknown_errors((0.0, 10.0), [[0.97, 0.03], [1.0, 0.0]])
    model, episodes = known.model, known.episodes
    counts = np.zeros((2, 2, 2))
    for k in range(len(episodes)):
        belief = model.weights
        places = list(zip(episodes.states[k, :-1], episodes.actions[k], episodes.outcomes[k], strict=True))
        for s, a, z in places:
            belief = bayes.update(belief, model.laws[:, s, a, z])
        for s, a, _ in places:
            counts[:, s, a] += belief
    p, n = np.array([0.03, 0.0])[:, None, None], counts
    errors = 10.0 * np.sqrt((p + 2.0 / n) * (1.0 - p + 2.0 / n) / n)
    low = pessimism.lowered(known, 0.1)
    assert low.means == pytest.approx(np.maximum(model.means - 0.1 * errors, 0.0), rel=1e-6, abs=1e-9)
    assert low.means[0] == pytest.approx(model.means[0] - 0.1 * errors[0])
    assert (pessimism.counted_errors(known, np.array([0.0, 10.0])) >= 10.0 * np.sqrt(p * (1 - p) / n)).all()


def test_errors_from_counts_of_many_levels_cover_a_multinomial_and_fall_with_the_log():
    values = np.arange(40.0)
    law = np.exp(-values / 5)
    laws = [law / law.sum(), np.append(np.zeros(39), 1.0)]
    few, many = (
        pessimism.counted_errors(with_unknown_errors(values, laws, sessions), values) for sessions in (100, 1600)
    )
    mean = (values * laws[0]).sum()
    spread = np.sqrt((((values - mean) ** 2) * laws[0]).sum())
    visits = with_unknown_errors(values, laws, 1600)
    each = visits.model.weights[0] * visits.visits
    assert (many[0] > spread / np.sqrt(each * 1.3)).all()
    assert (many[0] < 1.3 * spread / np.sqrt(each)).all()
    assert (few > 3.0 * many).all()
    assert (many[1] > 0).all()  # of a law that holds one value


@pytest.mark.parametrize("seed", [2])
def test_a_log_of_many_levels_is_not_planned_by_chance(seed):
    """Counts with 60 levels: half of the standard errors are not finite. Each mean is known well enough to plan."""
    model = counts_world(seed)
    episodes = simulate(uniform(model), model, 200, seed=seed)
    fitted, known = fitted_and_known(episodes)
    assert not np.isfinite(known.errors).all()
    best = plan_markov(model).value
    nothing = markov_value(uniform(model), model)
    value = controller_value(fitted.plan.policy, model)
    assert value > nothing + 0.85 * (best - nothing)


def counts_world(seed):
    """Two types whose rewards are counts (negative binomial, cut off at 59)."""
    rng = np.random.default_rng(seed)
    means = rng.gamma(2.0, 5.0, size=(2, 2, 3))
    laws = stats.nbinom.pmf(np.arange(60), 1.5, 1.5 / (1.5 + means[..., None]))
    laws[..., -1] += 1.0 - laws.sum(axis=-1)
    moves, start = rng.dirichlet(np.ones(2), size=(2, 3)), rng.dirichlet(np.ones(2))
    return RewardMixingMDP(moves, start, np.array([0.6, 0.4]), laws, 5, np.arange(60.0))


def test_pessimism_0_believes_the_model_and_says_so():
    episodes = oracles.uniform_log(400)
    fitted, _ = fitted_and_known(episodes, pessimism=0.0)
    bold = plan(fitted.model, gap=1e-3)
    assert (fitted.plan.lower, fitted.plan.upper) == (bold.lower, bold.upper)
    for mine, other in zip(fitted.plan.policy.actions, bold.policy.actions, strict=True):
        assert np.array_equal(mine, other)
    assert "pessimism 0" in fitted.info.support.sentence
    for bad in (-0.5, np.nan, np.inf, "much"):
        with pytest.raises(InputError, match="pessimism"):
            logs.fit(episodes, pessimism=bad)


@pytest.mark.parametrize("name", ["hard", "probe", "shop"])
def test_a_log_of_the_deployed_policy_gives_it_back(name):
    """Its types cannot be told apart from such a log: who believes the model loses, who keeps to the log does not."""
    model = problems.make(name)
    deployed = plan(model).policy
    value, best = controller_value(deployed, model), plan(model).upper
    episodes = simulate(deployed, model, 1000, seed=5)
    bold, _ = fitted_and_known(episodes, pessimism=0.0)
    safe, _ = fitted_and_known(episodes)
    assert controller_value(bold.plan.policy, model) < value - 0.01 * best
    assert controller_value(safe.plan.policy, model) > value - 0.005 * best
    assert safe.info.support.left <= 0.01
    assert safe.plan.lower <= safe.plan.upper
    safe.plan.check_lower()
    assert safe.plan.lower == pytest.approx(safe.info.support.planned)
    assert safe.info.support.cautious < safe.info.support.planned


def test_actions_that_the_log_never_takes_are_never_played():
    """Half of the actions: whatever the model makes of the others."""
    model = oracles.world(states=4, actions=4, horizon=5, seed=7)
    table = np.zeros((5, 4, 4))
    table[:, :2, :2], table[:, 2:, 2:] = 0.5, 0.5
    episodes = simulate(MarkovPolicy(table), model, 300, seed=2)
    fitted, known = fitted_and_known(episodes)
    played = simulate(fitted.plan.policy, model, 2000, seed=9)
    assert (known.visits[played.states[:, :-1], played.actions] > 0).all()
    assert controller_value(fitted.plan.policy, model) > markov_value(MarkovPolicy(table), model)


def test_a_belief_policy_keeps_to_the_log_too(tmp_path):
    """The best vector at a belief may belong to a node of another history, whose action the log never takes here."""
    model = problems.make("probe")
    episodes = simulate(plan(model).policy, model, 1000, seed=5)
    fitted, _ = fitted_and_known(episodes)
    found = fitted.plan
    habit, earned = habits_of(episodes, fitted.model), controller_value(found.policy, model)

    def strange(policy):
        played = simulate(policy, model, 1000, seed=3)
        own = habit.own(situations(played, fitted.model))
        return 1 - np.take_along_axis(own, played.actions.astype(np.int64)[..., None], axis=-1).mean(), played

    assert found.kept
    assert strange(BeliefPolicy(found.model, found.alpha_vectors))[0] > 0.05
    share, played = strange(found.belief_policy)
    assert share < 0.01
    assert played.returns.mean() > earned - 4 * played.returns.std() / np.sqrt(1000)
    beliefs = np.stack([np.linspace(0, 1, 21), np.linspace(1, 0, 21)], axis=1)
    for step in (0, 4):
        nodes = found.decide.nodes(step, beliefs)
        assert nodes.tolist() == [[found.decide.node(step, s, one) for one in beliefs] for s in range(model.num_states)]
    save(tmp_path / "plan", found)
    stored = load(tmp_path / "plan")
    assert stored.kept
    assert isinstance(stored.decide, NodeBeliefs)
    view = belief_view(found)
    for left, right, action in view["curve"]["runs"]:
        middle = (left + right) / 2
        assert action == found.decide(view["step"], view["state"], np.array([middle, 1 - middle]))


def test_uniform_logs_lose_next_to_nothing():
    model = problems.make("shop")
    episodes = simulate(uniform(model), model, 3000, seed=1)
    bold, _ = fitted_and_known(episodes, pessimism=0.0)
    safe, _ = fitted_and_known(episodes)
    gain = controller_value(bold.plan.policy, model) - markov_value(uniform(model), model)
    assert controller_value(safe.plan.policy, model) > controller_value(bold.plan.policy, model) - 0.005 * gain
    assert not safe.info.support.kept


def test_long_episodes_are_looked_at_a_few_at_a_time(monkeypatch):
    """With the same support as all at once; memory follows the steps of a block."""
    model = oracles.world(states=3, actions=2, horizon=6, seed=3)
    log = simulate(uniform(model), model, 300)
    whole = logs.fit(log, resamples=0, share_held_out=0.0).info.support
    largest = []
    look = pessimism.situations

    def watched(episodes, world):
        largest.append(len(episodes))
        return look(episodes, world)

    monkeypatch.setattr(pessimism, "STEPS_AT_ONCE", 100)
    monkeypatch.setattr(pessimism, "situations", watched)
    assert logs.fit(log, resamples=0, share_held_out=0.0).info.support == whole
    assert max(largest) <= 100 // 6
    assert sum(largest) == pessimism.PLAYED


def test_thin_support_is_said():
    """By hand: the share of the plan's steps, in the fitted model, at state-actions of few episodes."""
    model = oracles.world(states=5, actions=3, horizon=5, seed=4)
    fitted, known = fitted_and_known(simulate(uniform(model), model, 60, seed=1), pessimism=0.0)
    support = fitted.info.support
    played = simulate(fitted.plan.policy, fitted.model, 40_000, seed=123)
    expected = (known.visits[played.states[:, :-1], played.actions] < pessimism.FEW_VISITS).mean()
    assert 0.05 < expected < 0.95
    assert support.thin == pytest.approx(expected, abs=0.03)
    assert support.sentence.startswith(f"{100 * support.thin:.1f} % of the plan's steps")
    assert support.sentence in fitted.info.sentences


def test_no_estimate_without_support():
    """A bold plan from a log of another policy leaves its actions; there is a sentence then, and no number."""
    model = problems.make("probe")
    episodes = simulate(plan(model).policy, model, 1000, seed=5)
    found = logs.fit(episodes, resamples=0, pessimism=0.0).info.off_policy
    assert not found.supported
    assert np.isnan(found.value)
    assert "cannot be estimated from the log" in found.sentence
    safe = logs.fit(episodes, resamples=0).info.off_policy
    assert safe.supported
    assert safe.lower < controller_value(plan(model).policy, model) < safe.upper


def test_rare_actions_are_the_logs_own_once_they_were_taken_often():
    """An action of one step in twenty: too rare to tell at first, one of the log's own later."""
    model = oracles.world(states=2, actions=2, horizon=4, seed=1)
    table = np.broadcast_to([0.95, 0.05], (4, 2, 2))
    few, many = (simulate(MarkovPolicy(table), model, count, seed=1) for count in (60, 6000))
    start = situations(many[:1], model)
    assert not habits_of(few, model).own(start)[0, 0, 1]
    assert habits_of(many, model).own(start)[0, 0, 1]
    assert habits.RARE < 0.05 < habits.SELDOM


def test_model_and_log_that_disagree_are_said_to():
    """Not as they are; but if the estimate were five standard errors lower."""
    fitted = logs.fit(oracles.uniform_log(2000, states=2, actions=2, horizon=3), resamples=4)
    assert fitted.info.off_policy.supported
    assert fitted.info.facts == ()
    boot, value = fitted.info.bootstrap, fitted.info.off_policy
    below = 5 * ((boot.upper - boot.lower) ** 2 + (value.upper - value.lower) ** 2) ** 0.5 / 3.92
    off = replace(value, **{key: getattr(value, key) - below for key in ("value", "lower", "upper")})
    (fact,) = replace(fitted.info, off_policy=off).facts
    assert fact.sentence.startswith("The world does not pay what the model says: ")
    assert "estimated from the log" in fact.sentence


SMALL_WORLD = oracles.world(states=3, actions=3, horizon=5, contexts=3, seed=7)
DEPLOYED = plan(SMALL_WORLD, gap=1e-3)


def small_log(count=100, *, explore=0.0, seed=1):
    """Episodes of the deployed policy."""
    return simulate(exploring(DEPLOYED.policy, explore, 3), SMALL_WORLD, count, seed=seed)


def taken_by_history(episodes):
    """(step, history before the state, state) -> the actions that were taken there."""
    taken = {}
    for k in range(len(episodes)):
        history = ()
        for t in range(int(episodes.lengths[k])):
            state = int(episodes.states[k, t])
            taken.setdefault((t, history, state), []).append(int(episodes.actions[k, t]))
            history = (*history, state, float(episodes.reward_values[episodes.outcomes[k, t]]))
    return taken


def test_a_log_is_deterministic_if_equal_histories_have_equal_actions():
    for log in (small_log(), small_log(explore=0.05), small_log()[:20], oracles.shortened(small_log(300))):
        taken = taken_by_history(log).values()
        repeated = sum(len(actions) - 1 for actions in taken)
        expected = all(len(set(actions)) == 1 for actions in taken) and repeated >= 30
        assert habits.is_history_deterministic(log) == expected
    assert habits.is_history_deterministic(small_log())
    assert not habits.is_history_deterministic(small_log(explore=0.05))
    assert not habits.is_history_deterministic(small_log()[:5])  # hardly anything is repeated


def test_the_given_policy_is_compared_step_by_step():
    """As the policy itself plays, one episode after the other; also where episodes end early."""
    other = plan(oracles.world(states=3, actions=3, horizon=5, contexts=3, seed=8)).policy
    for log in (small_log(), oracles.shortened(small_log())):
        assert habits.took_every_action(DEPLOYED.policy, log)
        for policy in (DEPLOYED.policy, other):
            for k in range(0, len(log), 9):
                memory, agrees = policy.start(int(log.states[k, 0])), True
                for t in range(int(log.lengths[k])):
                    action = int(log.actions[k, t])
                    agrees &= policy.act(memory, None) == action
                    if t + 1 < log.lengths[k]:
                        reward = float(log.reward_values[log.outcomes[k, t]])
                        memory = policy.observe(memory, policy.act(memory, None), reward, int(log.states[k, t + 1]))
                assert habits.took_every_action(policy, log[k : k + 1]) == agrees
    assert not habits.took_every_action(other, small_log())
    assert not habits.took_every_action(DEPLOYED.policy, small_log(explore=0.05))


@pytest.mark.parametrize("seed", range(3))
def test_a_small_log_keeps_the_given_policy_as_it_is(seed, tmp_path):
    log = small_log(300, seed=seed)
    fitted = logs.fit(log, start=DEPLOYED, resamples=0)
    support, found = fitted.info.support, fitted.info.off_policy
    assert isinstance(support, pessimism.SmallLogSupport)
    assert (support.keeps_given_policy, support.kept, support.left) == (True, True, 0.0)
    assert "it is the given policy, which took all actions of the log" in support.sentence
    assert support.sentence in fitted.info.sentences
    assert controller_value(fitted.plan.policy, SMALL_WORLD) == controller_value(DEPLOYED.policy, SMALL_WORLD)
    assert fitted.plan.lower <= fitted.plan.upper
    fitted.plan.check_lower()
    assert found.supported
    assert found.agreed == found.episodes == found.effective  # its chances are known: it draws nothing
    assert found.lower < DEPLOYED.lower < found.upper
    save(tmp_path / "plan", fitted.plan)
    assert load(tmp_path / "plan").kept


def test_a_small_log_without_its_policy_is_kept_to_and_says_so():
    fitted = logs.fit(small_log(300), num_contexts=3, resamples=0, share_held_out=0.0)
    support = fitted.info.support
    assert isinstance(support, pessimism.SmallLogSupport)
    assert (support.keeps_given_policy, support.kept) == (False, True)
    assert "too small to improve on the policy that wrote it" in support.sentence
    assert support.left <= 0.01
    value, deployed = (controller_value(one, SMALL_WORLD) for one in (fitted.plan.policy, DEPLOYED.policy))
    assert value > 0.97 * deployed


def test_only_a_policy_that_fits_the_log_is_kept(monkeypatch):
    log, model = small_log(), SMALL_WORLD

    def keep(start, episodes=log, world=model):
        return pessimism.policy_to_keep(start, episodes, world)

    assert keep(DEPLOYED) is DEPLOYED.policy
    fitted = logs.fit(log, start=DEPLOYED, resamples=0, share_held_out=0.0)
    assert keep(fitted) is fitted.plan.policy  # of a result too
    assert keep(model) is None
    assert keep(None) is None
    assert keep(DEPLOYED, small_log(explore=0.05)) is None
    assert keep(DEPLOYED, world=replace(model, horizon=4)) is None
    assert keep(DEPLOYED, world=replace(model, reward_values=[0.0, 2.0])) is None
    with monkeypatch.context() as patch:
        patch.setattr(pessimism, "SMALL_LOG", 99)
        assert keep(DEPLOYED) is None
    bold = logs.fit(log, start=DEPLOYED, pessimism=0.0, resamples=0, share_held_out=0.0)
    assert not bold.info.support.kept
