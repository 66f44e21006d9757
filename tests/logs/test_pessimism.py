"""Plans that keep to what the log knows: lower rewards, the log's own actions, and what is said of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from oracles import log_statistics as oracles
from rewardmix import InputError, load, logs, plan, problems, save, simulate, uniform_policy
from rewardmix import belief as bayes
from rewardmix.evaluation import controller_value, markov_value
from rewardmix.logs import behavior_policy, pessimism
from rewardmix.logs.behavior_policy import FEATURE_RESOLUTIONS, estimate_behavior_policy, history_features
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan_markov
from rewardmix.planning.plan_result import NearestBeliefPolicy
from rewardmix.policy import BeliefPolicy, MarkovPolicy, make_epsilon_greedy
from rewardmix.report.belief_view import make_belief_view


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
            s, a, z = int(episodes.states[k, t]), int(episodes.actions[k, t]), int(episodes.reward_indices[k, t])
            keys = [
                (
                    s,
                    coarse(belief, level.log_odds_width) if level.log_odds_width else 0,
                    last * level.uses_last_step,
                    t * level.uses_time,
                )
                for level in FEATURE_RESOLUTIONS
            ]
            out.append((k, t, keys, a))
            belief = bayes.update(belief, model.reward_probs[:, s, a, z])
            last = 1 + a * model.num_values + z
    return out


def test_chances_are_mixed_from_coarse_to_fine():
    """The formula of the module, by hand, for episodes that had no part in the habits."""
    model = oracles.make_random_model(states=3, actions=2, horizon=4, seed=2)
    episodes = oracles.shortened(simulate(oracles.WinStay(2), model, 220, seed=1))
    others, fresh = episodes[:200], episodes[200:]
    result = estimate_behavior_policy(others, model)
    counts = [{} for _ in FEATURE_RESOLUTIONS]
    for _, _, keys, action in seen_by_hand(others, model):
        for table, key in zip(counts, keys, strict=True):
            table.setdefault(key, np.zeros(2))[action] += 1
    where = history_features(fresh, model)
    probs, propensities, expected = (
        result.action_probs(where),
        result.propensities(fresh, model),
        np.ones(fresh.actions.shape),
    )
    for k, t, keys, action in seen_by_hand(fresh, model):
        dist = np.full(2, 0.5)
        for table, key, strength in zip(counts, keys, result.strengths, strict=True):
            dist = mixed_with(dist, table.get(key, np.zeros(2)), strength)
        assert probs[k, t] == pytest.approx(dist, rel=1e-12)
        dist = mixed_with(np.full(2, 0.5), counts[0].get(keys[0], np.zeros(2)), result.strengths[0])
        dist = mixed_with(
            dist, counts[result.best_level].get(keys[result.best_level], np.zeros(2)), result.best_smoothing
        )
        expected[k, t] = dist[action]
    assert propensities == pytest.approx(expected, rel=1e-12)


def mixed_with(coarser, taken, strength):
    return (taken + strength * coarser) / (taken.sum() + strength)


def test_the_strengths_say_what_the_log_follows():
    """Uniform play follows nothing; a policy that stays after a reward follows the step before."""
    model = oracles.make_random_model(states=3, actions=2, horizon=6, seed=2)
    nonadaptive = estimate_behavior_policy(simulate(uniform_policy(model), model, 2000, seed=3), model)
    assert min(nonadaptive.strengths[1:]) >= 100
    follows = estimate_behavior_policy(simulate(oracles.WinStay(2), model, 2000, seed=3), model)
    assert (
        min(
            strength
            for level, strength in zip(FEATURE_RESOLUTIONS, follows.strengths, strict=True)
            if level.uses_last_step
        )
        <= 10
    )
    model = problems.make_model("shop")
    adaptive = estimate_behavior_policy(simulate(plan(model).policy, model, 500, seed=3), model)
    assert adaptive.strengths[2] <= 1
    assert FEATURE_RESOLUTIONS[adaptive.best_level].log_odds_width > 0
    assert FEATURE_RESOLUTIONS[follows.best_level].uses_last_step


def fitted_and_known(episodes, **options):
    fitted = logs.fit(episodes, num_resamples=0, held_out_fraction=0.0, **options)
    visits = fitted.info.moments.num_samples.reshape(episodes.num_states, -1)
    return fitted, pessimism.FittedLog(episodes, fitted.model, fitted.info.recovery.reward_errors, visits)


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 0.0, 2.0)])
def test_lower_rewards_are_lower_by_standard_errors(values):
    model = oracles.make_random_model(states=3, actions=2, horizon=5, seed=3, reward_values=values)
    episodes = simulate(uniform_policy(model), model, 800, seed=1)
    never = ((episodes.states[:, :-1] == 2) & (episodes.actions == 1)).any(axis=1)
    _, fitted_log = fitted_and_known(episodes[~never])
    low = pessimism.make_pessimistic_model(fitted_log, 0.7)
    assert (low.mean_rewards_by_type[:, 2, 1] == values[0]).all()
    fitted, taken = fitted_log.model, fitted_log.model.mean_rewards_by_type - low.mean_rewards_by_type
    tried = fitted_log.visits > 0
    assert np.isfinite(fitted_log.reward_errors[:, tried]).all()
    errors = np.where(np.isfinite(fitted_log.reward_errors), fitted_log.reward_errors, 0.0)
    if len(values) > 2:
        errors = np.sqrt(((errors * (np.array(values) - values[0])) ** 2).sum(axis=-1))
    most = fitted.mean_rewards_by_type - values[0]
    assert taken[:, tried] == pytest.approx(np.minimum(0.7 * errors, most)[:, tried], abs=1e-12)
    assert np.allclose(low.transition, fitted.transition)


def with_unknown_errors(values, probs, sessions=400, share=None):
    """What is known of a log of one state-action a type, with laws that are given and no standard error."""
    model = oracles.make_random_model(states=2, actions=2, horizon=4, seed=3, reward_values=values)
    model = replace(model, rewards=np.broadcast_to(np.array(probs)[:, None, None], (2, 2, 2, len(values))))
    episodes = simulate(uniform_policy(model), model, sessions, seed=1)
    visits = np.zeros((2, 2), np.int64)
    np.add.at(visits, (episodes.states[:, :-1], episodes.actions), 1)
    return pessimism.FittedLog(episodes, model, np.full(model.rewards.shape, np.nan), visits)


def test_an_error_that_is_not_finite_comes_from_counts():
    """(p + a/n) (1 - p + a/n) / n of the visits that each type is expected to have made, by hand."""
    fitted_log = with_unknown_errors((0.0, 10.0), [[0.97, 0.03], [1.0, 0.0]])
    model, episodes = fitted_log.model, fitted_log.episodes
    counts = np.zeros((2, 2, 2))
    for k in range(len(episodes)):
        belief = model.weights
        places = list(zip(episodes.states[k, :-1], episodes.actions[k], episodes.reward_indices[k], strict=True))
        for s, a, z in places:
            belief = bayes.update(belief, model.reward_probs[:, s, a, z])
        for s, a, _ in places:
            counts[:, s, a] += belief
    p, n = np.array([0.03, 0.0])[:, None, None], counts
    errors = 10.0 * np.sqrt((p + 2.0 / n) * (1.0 - p + 2.0 / n) / n)
    low = pessimism.make_pessimistic_model(fitted_log, 0.1)
    assert low.mean_rewards_by_type == pytest.approx(
        np.maximum(model.mean_rewards_by_type - 0.1 * errors, 0.0), rel=1e-6, abs=1e-9
    )
    assert low.mean_rewards_by_type[0] == pytest.approx(model.mean_rewards_by_type[0] - 0.1 * errors[0])
    assert (pessimism.count_based_errors(fitted_log, np.array([0.0, 10.0])) >= 10.0 * np.sqrt(p * (1 - p) / n)).all()


def test_errors_from_counts_of_many_levels_cover_a_multinomial_and_fall_with_the_log():
    values = np.arange(40.0)
    dist = np.exp(-values / 5)
    probs = [dist / dist.sum(), np.append(np.zeros(39), 1.0)]
    few, many = (
        pessimism.count_based_errors(with_unknown_errors(values, probs, sessions), values) for sessions in (100, 1600)
    )
    mean = (values * probs[0]).sum()
    spread = np.sqrt((((values - mean) ** 2) * probs[0]).sum())
    visits = with_unknown_errors(values, probs, 1600)
    each = visits.model.weights[0] * visits.visits
    assert (many[0] > spread / np.sqrt(each * 1.3)).all()
    assert (many[0] < 1.3 * spread / np.sqrt(each)).all()
    assert (few > 3.0 * many).all()
    assert (many[1] > 0).all()  # of a law that holds one value


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [2])
def test_a_log_of_many_levels_is_not_planned_by_chance(seed):
    """Counts with 60 levels: half of the standard errors are not finite. Each mean is known well enough to plan."""
    model = counts_world(seed)
    episodes = simulate(uniform_policy(model), model, 200, seed=seed)
    fitted, fitted_log = fitted_and_known(episodes)
    assert not np.isfinite(fitted_log.reward_errors).all()
    best = plan_markov(model).value
    empty = markov_value(uniform_policy(model), model)
    value = controller_value(fitted.plan.policy, model)
    assert value > empty + 0.85 * (best - empty)


def counts_world(seed):
    """Two types whose rewards are counts (negative binomial, cut off at 59)."""
    rng = np.random.default_rng(seed)
    means = rng.gamma(2.0, 5.0, size=(2, 2, 3))
    probs = stats.nbinom.pmf(np.arange(60), 1.5, 1.5 / (1.5 + means[..., None]))
    probs[..., -1] += 1.0 - probs.sum(axis=-1)
    transitions, start = rng.dirichlet(np.ones(2), size=(2, 3)), rng.dirichlet(np.ones(2))
    return RewardMixingMDP(transitions, start, np.array([0.6, 0.4]), probs, 5, np.arange(60.0))


def test_pessimism_0_believes_the_model_and_says_so():
    episodes = oracles.uniform_log(400)
    fitted, _ = fitted_and_known(episodes, pessimism=0.0)
    bold = plan(fitted.model, gap=1e-3)
    assert (fitted.plan.lower, fitted.plan.upper) == (bold.lower, bold.upper)
    for mine, other in zip(fitted.plan.policy.actions, bold.policy.actions, strict=True):
        assert np.array_equal(mine, other)
    assert "pessimism 0" in fitted.info.support.text
    for bad in (-0.5, np.nan, np.inf, "much"):
        with pytest.raises(InputError, match="pessimism"):
            logs.fit(episodes, pessimism=bad)


@pytest.mark.system
@pytest.mark.parametrize("name", ["hard", "probe", "shop"])
def test_a_log_of_the_deployed_policy_gives_it_back(name):
    """Its types cannot be told apart from such a log: who believes the model loses, who keeps to the log does not."""
    model = problems.make_model(name)
    deployed = plan(model).policy
    value, best = controller_value(deployed, model), plan(model).upper
    episodes = simulate(deployed, model, 1000, seed=5)
    bold, _ = fitted_and_known(episodes, pessimism=0.0)
    safe, _ = fitted_and_known(episodes)
    assert controller_value(bold.plan.policy, model) < value - 0.01 * best
    assert controller_value(safe.plan.policy, model) > value - 0.005 * best
    assert safe.info.support.off_support_fraction <= 0.01
    assert safe.plan.lower <= safe.plan.upper
    safe.plan.check_lower()
    assert safe.plan.lower == pytest.approx(safe.info.support.model_value)
    assert safe.info.support.pessimistic_value < safe.info.support.model_value


def test_actions_that_the_log_never_takes_are_never_played():
    """Half of the actions: whatever the model makes of the others."""
    model = oracles.make_random_model(states=4, actions=4, horizon=5, seed=7)
    table = np.zeros((5, 4, 4))
    table[:, :2, :2], table[:, 2:, 2:] = 0.5, 0.5
    episodes = simulate(MarkovPolicy(table), model, 300, seed=2)
    fitted, fitted_log = fitted_and_known(episodes)
    played = simulate(fitted.plan.policy, model, 2000, seed=9)
    assert (fitted_log.visits[played.states[:, :-1], played.actions] > 0).all()
    assert controller_value(fitted.plan.policy, model) > markov_value(MarkovPolicy(table), model)


def test_a_belief_policy_keeps_to_the_log_too(tmp_path):
    """The best vector at a belief may belong to a node of another history, whose action the log never takes here."""
    model = problems.make_model("probe")
    episodes = simulate(plan(model).policy, model, 1000, seed=5)
    fitted, _ = fitted_and_known(episodes)
    result = fitted.plan
    habit, deployed_value = estimate_behavior_policy(episodes, fitted.model), controller_value(result.policy, model)

    def strange(policy):
        played = simulate(policy, model, 1000, seed=3)
        own = habit.in_support(history_features(played, fitted.model))
        return 1 - np.take_along_axis(own, played.actions.astype(np.int64)[..., None], axis=-1).mean(), played

    assert result.restricted_to_support
    assert strange(BeliefPolicy(result.model, result.alpha_vectors))[0] > 0.05
    share, played = strange(result.belief_policy)
    assert share < 0.01
    assert played.returns.mean() > deployed_value - 4 * played.returns.std() / np.sqrt(1000)
    beliefs = np.stack([np.linspace(0, 1, 21), np.linspace(1, 0, 21)], axis=1)
    for step in (0, 4):
        nodes = result.belief_policy.decision_rule.find_nodes(step, beliefs)
        assert nodes.tolist() == [
            [result.belief_policy.decision_rule.find_node(step, s, item) for item in beliefs]
            for s in range(model.num_states)
        ]
    save(tmp_path / "plan", result)
    stored = load(tmp_path / "plan")
    assert stored.restricted_to_support
    assert isinstance(stored.belief_decision_rule, NearestBeliefPolicy)
    view = make_belief_view(result)
    for left, right, action in view["curve"]["intervals"]:
        middle = (left + right) / 2
        assert action == result.belief_decision_rule(view["step"], view["state"], np.array([middle, 1 - middle]))


def test_uniform_logs_lose_next_to_nothing():
    model = problems.make_model("shop")
    episodes = simulate(uniform_policy(model), model, 3000, seed=1)
    bold, _ = fitted_and_known(episodes, pessimism=0.0)
    safe, _ = fitted_and_known(episodes)
    gain = controller_value(bold.plan.policy, model) - markov_value(uniform_policy(model), model)
    assert controller_value(safe.plan.policy, model) > controller_value(bold.plan.policy, model) - 0.005 * gain
    assert not safe.info.support.restricted


def test_long_episodes_are_looked_at_a_few_at_a_time(monkeypatch):
    """With the same support as all at once; memory follows the steps of a block."""
    model = oracles.make_random_model(states=3, actions=2, horizon=6, seed=3)
    log = simulate(uniform_policy(model), model, 300)
    complete = logs.fit(log, num_resamples=0, held_out_fraction=0.0).info.support
    largest = []
    look = pessimism.history_features

    def watched(episodes, env):
        largest.append(len(episodes))
        return look(episodes, env)

    monkeypatch.setattr(pessimism, "STEPS_AT_ONCE", 100)
    monkeypatch.setattr(pessimism, "history_features", watched)
    assert logs.fit(log, num_resamples=0, held_out_fraction=0.0).info.support == complete
    assert max(largest) <= 100 // 6
    assert sum(largest) == pessimism.NUM_SIMULATED_EPISODES


def test_thin_support_is_said():
    """By hand: the share of the plan's steps, in the fitted model, at state-actions of few episodes."""
    model = oracles.make_random_model(states=5, actions=3, horizon=5, seed=4)
    fitted, fitted_log = fitted_and_known(simulate(uniform_policy(model), model, 60, seed=1), pessimism=0.0)
    support = fitted.info.support
    played = simulate(fitted.plan.policy, fitted.model, 40_000, seed=123)
    expected = (fitted_log.visits[played.states[:, :-1], played.actions] < pessimism.FEW_VISITS).mean()
    assert 0.05 < expected < 0.95
    assert support.low_count_fraction == pytest.approx(expected, abs=0.03)
    assert support.text.startswith(f"{100 * support.low_count_fraction:.1f} % of the plan's steps")
    assert support.text in fitted.info.report_text


def test_no_estimate_without_support():
    """A bold plan from a log of another policy leaves its actions; there is a sentence then, and no number."""
    model = problems.make_model("probe")
    episodes = simulate(plan(model).policy, model, 1000, seed=5)
    result = logs.fit(episodes, num_resamples=0, pessimism=0.0).info.off_policy
    assert not result.is_supported
    assert np.isnan(result.value)
    assert "No off-policy estimate" in result.text
    safe = logs.fit(episodes, num_resamples=0).info.off_policy
    assert safe.is_supported
    assert safe.lower < controller_value(plan(model).policy, model) < safe.upper


def test_rare_actions_are_the_logs_own_once_they_were_taken_often():
    """An action of one step in twenty: too rare to tell at first, one of the log's own later."""
    model = oracles.make_random_model(states=2, actions=2, horizon=4, seed=1)
    table = np.broadcast_to([0.95, 0.05], (4, 2, 2))
    few, many = (simulate(MarkovPolicy(table), model, count, seed=1) for count in (60, 6000))
    start = history_features(many[:1], model)
    assert not estimate_behavior_policy(few, model).in_support(start)[0, 0, 1]
    assert estimate_behavior_policy(many, model).in_support(start)[0, 0, 1]
    assert behavior_policy.MIN_PROB < 0.05 < behavior_policy.MIN_RELATIVE_FREQUENCY


def test_model_and_log_that_disagree_are_said_to():
    """Not as they are; but if the estimate were five standard errors lower."""
    fitted = logs.fit(oracles.uniform_log(2000, states=2, actions=2, horizon=3), num_resamples=4)
    assert fitted.info.off_policy.is_supported
    assert fitted.info.statements == ()
    boot, value = fitted.info.bootstrap, fitted.info.off_policy
    below = 5 * ((boot.upper - boot.lower) ** 2 + (value.upper - value.lower) ** 2) ** 0.5 / 3.92
    off = replace(value, **{key: getattr(value, key) - below for key in ("value", "lower", "upper")})
    (fact,) = replace(fitted.info, off_policy=off).statements
    assert fact.text.startswith("Model and data disagree: ")
    assert "estimated from the log" in fact.text


SMALL_WORLD = oracles.make_random_model(states=3, actions=3, horizon=5, num_types=3, seed=7)
DEPLOYED = plan(SMALL_WORLD, gap=1e-3)


def small_log(count=100, *, explore=0.0, seed=1):
    """Episodes of the deployed policy."""
    return simulate(make_epsilon_greedy(DEPLOYED.policy, explore, 3), SMALL_WORLD, count, seed=seed)


def taken_by_history(episodes):
    """(step, history before the state, state) -> the actions that were taken there."""
    taken = {}
    for k in range(len(episodes)):
        history = ()
        for t in range(int(episodes.lengths[k])):
            state = int(episodes.states[k, t])
            taken.setdefault((t, history, state), []).append(int(episodes.actions[k, t]))
            history = (*history, state, float(episodes.reward_values[episodes.reward_indices[k, t]]))
    return taken


def test_a_log_is_deterministic_if_equal_histories_have_equal_actions():
    for log in (small_log(), small_log(explore=0.05), small_log()[:20], oracles.shortened(small_log(300))):
        taken = taken_by_history(log).values()
        repeated = sum(len(actions) - 1 for actions in taken)
        expected = all(len(set(actions)) == 1 for actions in taken) and repeated >= 30
        assert behavior_policy.is_history_deterministic(log) == expected
    assert behavior_policy.is_history_deterministic(small_log())
    assert not behavior_policy.is_history_deterministic(small_log(explore=0.05))
    assert not behavior_policy.is_history_deterministic(small_log()[:5])  # hardly anything is repeated


def test_the_given_policy_is_compared_step_by_step():
    """As the policy itself plays, one episode after the other; also where episodes end early."""
    other = plan(oracles.make_random_model(states=3, actions=3, horizon=5, num_types=3, seed=8)).policy
    for log in (small_log(), oracles.shortened(small_log())):
        assert behavior_policy.took_every_action(DEPLOYED.policy, log)
        for policy in (DEPLOYED.policy, other):
            for k in range(0, len(log), 9):
                memory, agrees = policy.start(int(log.states[k, 0])), True
                for t in range(int(log.lengths[k])):
                    action = int(log.actions[k, t])
                    agrees &= policy.act(memory, None) == action
                    if t + 1 < log.lengths[k]:
                        reward = float(log.reward_values[log.reward_indices[k, t]])
                        memory = policy.observe(memory, policy.act(memory, None), reward, int(log.states[k, t + 1]))
                assert behavior_policy.took_every_action(policy, log[k : k + 1]) == agrees
    assert not behavior_policy.took_every_action(other, small_log())
    assert not behavior_policy.took_every_action(DEPLOYED.policy, small_log(explore=0.05))


@pytest.mark.parametrize("seed", range(3))
def test_a_small_log_keeps_the_given_policy_as_it_is(seed, tmp_path):
    log = small_log(300, seed=seed)
    fitted = logs.fit(log, init_model=DEPLOYED, num_resamples=0)
    support, result = fitted.info.support, fitted.info.off_policy
    assert isinstance(support, pessimism.SmallLogSupport)
    assert (support.keeps_given_policy, support.restricted, support.off_support_fraction) == (True, True, 0.0)
    assert "The plan is the given policy, which took all actions of the log" in support.text
    assert support.text in fitted.info.report_text
    assert controller_value(fitted.plan.policy, SMALL_WORLD) == controller_value(DEPLOYED.policy, SMALL_WORLD)
    assert fitted.plan.lower <= fitted.plan.upper
    fitted.plan.check_lower()
    assert result.is_supported
    assert (
        result.num_matched == result.num_episodes == result.effective_sample_size
    )  # its chances are known: it draws nothing
    assert result.lower < DEPLOYED.lower < result.upper
    save(tmp_path / "plan", fitted.plan)
    assert load(tmp_path / "plan").restricted_to_support


def test_a_small_log_without_its_policy_is_kept_to_and_says_so():
    fitted = logs.fit(small_log(300), num_types=3, num_resamples=0, held_out_fraction=0.0)
    support = fitted.info.support
    assert isinstance(support, pessimism.SmallLogSupport)
    assert (support.keeps_given_policy, support.restricted) == (False, True)
    assert "too small to improve on the policy that wrote it" in support.text
    assert support.off_support_fraction <= 0.01
    value, deployed = (controller_value(item, SMALL_WORLD) for item in (fitted.plan.policy, DEPLOYED.policy))
    assert value > 0.97 * deployed


def test_only_a_policy_that_fits_the_log_is_kept(monkeypatch):
    log, model = small_log(), SMALL_WORLD

    def keep(start, episodes=log, env=model):
        return pessimism.policy_to_keep(start, episodes, env)

    assert keep(DEPLOYED) is DEPLOYED.policy
    fitted = logs.fit(log, init_model=DEPLOYED, num_resamples=0, held_out_fraction=0.0)
    assert keep(fitted) is fitted.plan.policy  # of a result too
    assert keep(model) is None
    assert keep(None) is None
    assert keep(DEPLOYED, small_log(explore=0.05)) is None
    assert keep(DEPLOYED, env=replace(model, horizon=4)) is None
    assert keep(DEPLOYED, env=replace(model, reward_values=[0.0, 2.0])) is None
    with monkeypatch.context() as patch:
        patch.setattr(pessimism, "SMALL_LOG", 99)
        assert keep(DEPLOYED) is None
    bold = logs.fit(log, init_model=DEPLOYED, pessimism=0.0, num_resamples=0, held_out_fraction=0.0)
    assert not bold.info.support.restricted
