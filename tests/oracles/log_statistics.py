"""Slow and plain versions of what logs computes, and a policy that follows rewards."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rewardmix import problems, simulate, uniform_policy
from rewardmix.episodes import PADDING, Episodes


def stored_in_parquet(kind):
    """Whether the Arrow that is installed can write text of this type; older ones cannot write views."""
    try:
        pq.write_table(pa.table({"text": pa.array(["a"], kind)}), pa.BufferOutputStream())
    except pa.ArrowNotImplementedError:
        return False
    return True


TEXTS = [kind for kind in (pa.string(), pa.large_string(), pa.string_view()) if stored_in_parquet(kind)]


def make_random_model(states=4, actions=3, horizon=6, seed=1, **options):
    return problems.make_model("random", states=states, actions=actions, horizon=horizon, seed=seed, **options)


def uniform_log(count=2000, **options):
    model = make_random_model(**options)
    return simulate(uniform_policy(model), model, count)


def shortened(episodes, seed=0):
    """The same episodes, some of them ended early or with an unknown last state."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, episodes.horizon + 1, len(episodes)).astype(np.int32)
    here = np.arange(episodes.horizon) < lengths[:, None]
    there = np.arange(episodes.horizon + 1) <= lengths[:, None] - (rng.random((len(episodes), 1)) < 0.3)
    return Episodes(
        np.where(there, episodes.states, PADDING),
        np.where(here, episodes.actions, PADDING).astype(np.int16),
        np.where(here, episodes.reward_indices, PADDING).astype(np.int8),
        lengths, episodes.num_states, episodes.num_actions, episodes.reward_values,
    )  # fmt: skip


def rows_of(episodes):
    """The long form as a dictionary of lists, written out step by step."""
    columns = {name: [] for name in ("episode", "step", "state", "action", "reward")}
    for k in range(len(episodes)):
        for t in range(int(episodes.lengths[k])):
            reward = float(episodes.reward_values[episodes.reward_indices[k, t]])
            for name, value in zip(
                columns, (k, t, int(episodes.states[k, t]), int(episodes.actions[k, t]), reward), strict=True
            ):
                columns[name].append(value)
    return columns


@dataclass
class WinStay:
    """Repeats a rewarded action nine times out of ten; otherwise any."""

    num_actions: int

    def start(self, state):
        return -1, 0.0

    def act(self, memory, rng):
        action, reward = memory
        stays = action >= 0 and reward > 0 and rng.random() < 0.9
        return action if stays else int(rng.integers(self.num_actions))

    def observe(self, memory, action, reward, next_state):
        return action, reward


def same(item, two):
    return all(
        np.array_equal(getattr(item, name), getattr(two, name))
        for name in ("states", "actions", "reward_indices", "lengths")
    )


# Read a log in plain Python, following docs/user-guide/logs.md. A file is {column: (kind, values)}, with a kind of
# "numbers", "text", "nothing" (a column of nulls), "fraction" (decimals) or "other" (dates, bytes, lists, ...).

REQUIRED = ("episode", "step", "state", "action", "reward")
STRANGE = "no whole number that fits"


class Refused(Exception):
    """The log is not to be counted."""


def read_log_slowly(files, names, *, horizon=None, reward_values=None, num_states=None, num_actions=None,
                 state_names=(), action_names=(), drop_invalid=False):  # fmt: skip
    """What a log holds: "episodes" are ([(state, action, outcome)], last state), "sizes" are S, A and H."""
    roles = present_roles(files, names)
    files = [{role: file[names[role]] for role in roles} for file in files]
    text = {role: is_text(files, role) for role in roles}
    if (
        "next_state" in roles
        and text["next_state"] != text["state"]
        and None not in (text["next_state"], text["state"])
    ):
        raise Refused("next states of another kind")
    files = [{role: column[1] for role, column in file.items()} for file in files]
    if not sum(len(file["episode"]) for file in files):
        raise Refused("no rows")
    states, size = size_of(
        files, [r for r in ("state", "next_state") if r in roles], text["state"], num_states, state_names
    )
    actions, choices = size_of(files, ["action"], text["action"], num_actions, action_names)
    values = values_of(files, reward_values)
    if size < 1 or choices < 1 or size * choices * len(values) > 2**24:
        raise Refused("too few or too many states, actions and rewards")
    steps = [whole(v) for file in files for v in file.get("step", ())]
    base = 1 if min((s for s in steps if isinstance(s, int)), default=0) == 1 else 0
    good, seen, bad = [], 0, 0
    if any(out_of_order(file, base) for file in files):
        if "step" not in roles:
            raise Refused("an episode in two places, and nothing that orders its rows")
        files = [put_in_order(file) for file in files]
    for file in files:
        for begin, end in runs_of([identity(v) for v in file["episode"]]):
            rows = [{role: values[i] for role, values in file.items()} for i in range(begin, end)]
            episode = episode_of(rows, base, (states, size), (actions, choices), values, horizon)
            seen += 1
            bad += episode is None
            good += [] if episode is None else [episode]
    if bad and not drop_invalid:
        raise Refused("bad episodes")
    if not good:
        raise Refused("no good episode")
    longest = horizon or max(len(steps) for steps, _ in good)
    rows = sum(len(file["episode"]) for file in files)
    return {"episodes": good, "rows": rows, "seen": seen, "sizes": (size, choices, longest), "values": values}


def present_roles(files, names):
    optional = {role: names.get(role) == role for role in ("next_state", "step")}
    storage = []
    roles = [role for role in names if names[role] is not None]
    for role in roles:
        there = [names[role] in file for file in files]
        if not all(there):
            if optional.get(role) and not any(there):
                continue
            raise Refused(f"no {role} in some file")
        storage.append(role)
    return storage


def is_text(files, role):
    """True, False, or None where nothing but nulls is."""
    names = {file[role][0] for file in files} - {"nothing"}
    allowed = {"numbers"}
    allowed |= {"fraction"} if role == "reward" else set()
    allowed |= {"text"} if role not in ("step", "reward") else set()
    if names - allowed or (len(names) > 1 and "text" in names):
        raise Refused(f"types of {role}")
    return "text" in names if names else None


def whole(value):
    """A whole number of four bytes; None if missing; STRANGE if it is something else."""
    if value is None or value != value:
        return None
    fits = value == value // 1 and abs(value) < 2**31 - 1 if abs(value) != float("inf") else False
    return int(value) if fits or value == 2**31 - 1 else STRANGE


def identity(value):
    """Which episode a row belongs to; None if to none."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, float):
        return int(value) if value == value // 1 and abs(value) < 2**53 else None
    return int(value)


def runs_of(ids):
    """(begin, end) of rows with one id after the other."""
    borders = [i for i in range(len(ids)) if i == 0 or ids[i] != ids[i - 1]] + [len(ids)]
    return list(pairwise(borders))


def out_of_order(file, base=0):
    """Whether an id comes back later, or a step comes after a later one of its episode (or before the first)."""
    ids = [identity(value) for value in file["episode"]]
    runs = runs_of(ids)
    run_ids = [ids[begin] for begin, _ in runs if ids[begin] is not None]
    if len(set(run_ids)) < len(run_ids):
        return True
    steps = [whole(value) for value in file.get("step", ())]
    for begin, end in runs if steps else ():
        numbers = [step - base for step in steps[begin:end] if isinstance(step, int)]
        if any(step < max([0, *numbers[:t]]) for t, step in enumerate(numbers)):
            return True
    return False


def put_in_order(file):
    """The rows of a file by the first row of their episode, and by their steps; rows that are equal stay."""
    ids = [identity(value) for value in file["episode"]]
    steps = [whole(value) for value in file["step"]]
    number = {None: -3, STRANGE: -2}
    rows = sorted(
        range(len(ids)),
        key=lambda i: (ids.index(ids[i]), steps[i] if isinstance(steps[i], int) else -(2**40) + number[steps[i]]),
    )
    return {role: [values[i] for i in rows] for role, values in file.items()}


def size_of(files, roles, text, schema_hints, labels):
    """(label -> index, or None for numbers; how many)."""
    if labels and schema_hints and len(labels) != schema_hints:
        raise Refused("names and numbers differ")
    result = [value for file in files for role in roles for value in file[role]]
    if text:
        labels = labels or sorted({value for value in result if value is not None})
        if not labels or schema_hints not in (None, len(labels)):
            raise Refused("labels")
        return {label: i for i, label in enumerate(labels)}, len(labels)
    if text is None and any(isinstance(value, str) for value in result):
        raise Refused("no state at all")
    numbers = [number for number in map(whole, result) if isinstance(number, int)]
    return None, schema_hints or len(labels) or max(numbers, default=0) + 1


def values_of(files, schema_hints):
    values = schema_hints
    if values is None:
        finite = {float(v) for file in files for v in file["reward"] if v is not None and abs(v) < float("inf")}
        result = {(round(v, 9) if abs(v) < 2**22 else v) + 0.0 for v in finite}
        if len(result) > 127:
            raise Refused("too many rewards")
        values = [0.0, 1.0] if result <= {0.0, 1.0} else sorted(result if len(result) > 1 else result | {0.0})
    if any(two - item <= 2e-9 for item, two in pairwise(values)):
        raise Refused("rewards too close")
    return list(values)


def episode_of(rows, base, states, actions, values, horizon):
    """([(state, action, outcome)], last state or -1), or None if something is wrong with it."""
    if identity(rows[0]["episode"]) is None or (horizon and len(rows) > horizon):
        return None
    steps = []
    for t, row in enumerate(rows):
        state, action = index_of(row["state"], *states), index_of(row["action"], *actions)
        reward = row["reward"]
        near = [z for z, v in enumerate(values) if reward is not None and abs(v - float(reward)) <= 1e-9]
        if state is None or action is None or not near or ("step" in row and whole(row["step"]) != t + base):
            return None
        steps.append((state, action, near[0]))
    if "next_state" not in rows[0]:
        return steps, -1
    for t, row in enumerate(rows[:-1]):
        if index_of(row["next_state"], *states) != steps[t + 1][0]:
            return None
    last = rows[-1]["next_state"]
    if last is None or last != last:
        return steps, -1
    after = index_of(last, *states)
    return None if after is None else (steps, after)


def index_of(value, labels, count):
    if labels is not None:
        return labels.get(value)
    number = whole(value)
    return number if isinstance(number, int) and 0 <= number < count else None


def count_moments_slowly(result):
    """Starts, moves, first-visit outcomes and pair tables of what ``read_plainly`` found, as dictionaries of counts."""
    states, actions, horizon = result["sizes"]
    starts, transitions, reward_indices, pairs = Counter(), Counter(), Counter(), Counter()
    for steps, last in result["episodes"]:
        starts[steps[0][0]] += 1
        visits = {}
        for t, (state, action, reward_index) in enumerate(steps):
            x = state * actions + action
            visits.setdefault(x, []).append(reward_index)
            after = steps[t + 1][0] if t + 1 < len(steps) else last if len(steps) == horizon else states
            if after >= 0:
                transitions[x, after] += 1
        for x, paid in visits.items():
            reward_indices[x, paid[0]] += 1
            if len(paid) > 1:
                pairs[x, x, paid[0], paid[1]] += 1
            for y, others in visits.items():
                if x < y:
                    pairs[x, y, paid[0], others[0]] += 1
    return starts, transitions, reward_indices, pairs
