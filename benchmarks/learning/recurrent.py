"""RecurrentPPO of sb3-contrib on the same problems, as far as it takes.

python -m benchmarks.learning.recurrent [--quick] [--problem NAME] [--seeds N] [--keep-sweep]

It needs the extra ``bench`` and torch, so it is a program of its own; ``run`` reads what it wrote. First a sweep over
the settings of ``settings.SWEEP`` at a small budget, then the best of them for as long as ``settings.LONG`` says, from
as many seeds as asked for; at checkpoints the policy is played without exploration noise in fresh episodes.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from benchmarks.learning import settings
from benchmarks.record import record, rows_of, table
from rewardmix import problems
from rewardmix.bounded_mean import return_bounds
from rewardmix.environments import PreviousActionRewardObservation, RewardMixingEnv, RewardMixingVectorEnv
from rewardmix.evaluation import confidence_interval
from rewardmix.model import RewardMixingMDP


class ManyCopies(VecEnv):
    """Our vector environment as stable-baselines3 wants it, with the observation of PreviousActionReward."""

    def __init__(self, model: RewardMixingMDP, num_envs: int, seed: int) -> None:
        self.inner = RewardMixingVectorEnv(model, num_envs, autoreset_mode="SameStep")
        space = PreviousActionRewardObservation(RewardMixingEnv(model)).observation_space
        self.sizes = model.num_states, model.num_actions
        self.first_seed: int | None = seed
        super().__init__(num_envs, space, spaces.Discrete(model.num_actions))

    def reset(self) -> Any:
        """Start an episode in every copy."""
        states, _ = self.inner.reset(seed=self.first_seed)
        self.first_seed = None
        return self.encoded(states, np.zeros(self.num_envs, int), np.zeros(self.num_envs), np.ones(self.num_envs, bool))

    def step_async(self, actions: Any) -> None:
        """Keep the actions for ``step_wait``."""
        self.actions = actions

    def step_wait(self) -> Any:
        """One step of every copy; finished ones begin anew, with an observation that remembers nothing."""
        states, rewards, done, _, info = self.inner.step(self.actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            last = np.where(done, np.where(done, info["final_obs"], 0), states).astype(int)
            finals = self.encoded(last, self.actions, rewards, np.zeros(self.num_envs, bool))
            for i in np.flatnonzero(done):
                infos[i] = {"terminal_observation": finals[i], "TimeLimit.truncated": False}
        return self.encoded(states, self.actions, rewards, done), rewards.astype(np.float32), done, infos

    def encoded(self, states: Any, actions: Any, rewards: Any, begun: Any) -> Any:
        """One-hot state, one-hot previous action and previous reward; zeros where an episode has just begun."""
        num_states, num_actions = self.sizes
        out = np.zeros((self.num_envs, num_states + num_actions + 1), np.float32)
        out[np.arange(self.num_envs), states] = 1.0
        going = np.flatnonzero(~begun)
        out[going, num_states + np.asarray(actions)[going]] = 1.0
        out[going, -1] = np.asarray(rewards)[going]
        return out

    def close(self) -> None:
        """Nothing is open."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Copies have no attributes of their own but render_mode."""
        return [getattr(self.inner, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Copies have no attributes of their own."""

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Copies have no methods of their own."""
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Copies are not wrapped."""
        return [False] * self.num_envs


def played(agent: RecurrentPPO, model: RewardMixingMDP, episodes: int) -> Any:
    """Value of the agent without exploration noise, with its interval."""
    sizes = [settings.PLAYED] * (episodes // settings.PLAYED) or [episodes]
    returns = np.concatenate([returns_of(agent, model, size, seed) for seed, size in enumerate(sizes)])
    return confidence_interval(returns, bounds=return_bounds(model.reward_values, model.horizon, may_end=False))


def returns_of(agent: RecurrentPPO, model: RewardMixingMDP, episodes: int, seed: int) -> Any:
    """Returns of fresh episodes, all played at once."""
    copies = ManyCopies(model, episodes, seed=987_654 + seed)
    observation, memory = copies.reset(), None
    begun, returns = np.ones(episodes, bool), np.zeros(episodes)
    for _ in range(model.horizon):
        actions, memory = agent.predict(observation, state=memory, episode_start=begun, deterministic=True)
        observation, rewards, begun, _ = copies.step(actions)
        returns += rewards
    return returns


class Checkpoints(BaseCallback):
    """Play the policy whenever the number of episodes passes the next checkpoint."""

    def __init__(self, model: RewardMixingMDP, marks: list[int], episodes: int, keep: Any) -> None:
        super().__init__()
        self.keep = keep
        self.world, self.marks, self.episodes = model, list(marks), episodes
        self.curve: list[dict[str, float]] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self.look()

    def _on_training_end(self) -> None:
        self.look()

    def look(self) -> None:
        """Play, if it is time."""
        done = self.num_timesteps // self.world.horizon
        if not self.marks or done < self.marks[0]:
            return
        while self.marks and done >= self.marks[0]:
            self.marks.pop(0)
        evaluation = played(self.model, self.world, self.episodes)
        self.curve.append(
            {"episodes": done, "value": evaluation.value, "lower": evaluation.lower, "upper": evaluation.upper}
        )
        print(
            f"    {done:>8} episodes: {evaluation.value:.4f} [{evaluation.lower:.4f}, {evaluation.upper:.4f}]",
            flush=True,
        )
        self.keep(self.curve)


def trained(model: RewardMixingMDP, choice: dict[str, Any], marks: list[int], fresh: int, seed: int, keep: Any) -> Any:
    """Train from scratch up to the last mark; the value at each mark, from ``fresh`` episodes, goes to ``keep``."""
    agent = RecurrentPPO(
        "MlpLstmPolicy",
        ManyCopies(model, choice["num_envs"], seed),
        learning_rate=choice["learning_rate"],
        n_steps=choice["episodes_per_rollout"] * model.horizon,
        batch_size=choice["batch_size"],
        n_epochs=choice["epochs"],
        ent_coef=choice["entropy"],
        gamma=1.0,
        policy_kwargs={"lstm_hidden_size": choice["hidden"], "net_arch": [choice["hidden"]]},
        seed=seed,
        device="cpu",
    )
    watch = Checkpoints(model, marks, fresh, keep)
    begin = time.process_time()
    agent.learn(marks[-1] * model.horizon, callback=watch)
    return watch.curve, time.process_time() - begin


def swept(model: RewardMixingMDP, episodes: int) -> list[dict[str, Any]]:
    """Every setting with its value at a small budget."""
    rows = []
    for choice in settings.SWEEP:
        print(f"  {choice}", flush=True)
        curve, seconds = trained(model, choice, [episodes], settings.PLAYED, 0, lambda curve: None)
        rows.append({**choice, "value": curve[-1]["value"], "cpu_seconds": seconds})
    return rows


def kept_sweep(problem: str) -> list[dict[str, Any]]:
    """The sweep of the committed results, which a long run may go on from."""
    return list(rows_of("learning", f"recurrent_{problem}")[0]["sweep"])


def main() -> None:
    """The sweep, then the long runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--problem", default="shop", choices=list(settings.PROBLEMS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--keep-sweep", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)
    name, options = settings.PROBLEMS[args.problem]
    model = problems.make_model(name, **options)
    short, long, fresh = settings.SWEEP_EPISODES, settings.LONG, settings.PLAYED_LONG
    if args.quick:
        short, long, fresh = 500, 1000, settings.PLAYED
    sweep = kept_sweep(name) if args.keep_sweep else swept(model, short)
    best = max(range(len(sweep)), key=lambda i: sweep[i]["value"])
    result = {"problem": args.problem, "sweep": sweep, "sweep_episodes": short, "chosen": best}
    curves: dict[str, Any] = {}
    for seed in range(1, args.seeds + 1):
        print(f"  setting {best}, seed {seed}", flush=True)

        def keep(curve: Any, seed: int = seed) -> None:
            curves[str(seed)] = curve
            if not args.quick:
                record("learning", f"recurrent_{name}", [{**result, "curves": curves}], program="recurrent")

        marks = [n for n in settings.CHECKPOINTS if n < long] + [long]
        trained(model, settings.SWEEP[best], marks, fresh, seed, keep)
    columns = ["setting", "learning rate", "hidden", "epochs", "entropy", "value"]
    table(
        columns,
        [
            [i, row["learning_rate"], row["hidden"], row["epochs"], row["entropy"], row["value"]]
            for i, row in enumerate(sweep)
        ],
    )


if __name__ == "__main__":
    main()
