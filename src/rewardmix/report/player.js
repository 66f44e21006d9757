// rewardmix player: play a learned policy in any JavaScript front end. No dependency, no network, no global state.
//
//   import { createSession } from "./player.js";
//   const session = createSession(policy);        // policy: parsed JSON of `rewardmix export POLICY --format json`
//   session.action                                // recommended action (an index; session.actionName is its name)
//   session.observe(1, 2)                         // reward 1, next state 2
//                                                 // (any number, if the policy discretizes rewards)
//   session.belief                                // probability of each type
//
// A session is one episode: `horizon` actions, a reward after each. The policy is only read, so any number of sessions
// can share it.

const FORMAT = "rewardmix-policy";
const VERSION = 2;

/** Update the belief by the likelihood of a reward under each type; an impossible reward leaves it unchanged. */
export function update(belief, likelihood) {
  const joint = belief.map((prob, m) => prob * likelihood[m]);
  const total = joint.reduce((sum, prob) => sum + prob, 0);
  return total > 0 ? joint.map((prob) => prob / total) : belief.slice();
}

/** Return the probability of the reward value with index z at (state, action), under each type. */
export function likelihood(policy, state, action, z) {
  return policy.rewards.map((table) => {
    const probs = table[state][action]; // two values: the probability of the larger one; more: a list
    if (typeof probs === "number") return z === 1 ? probs : 1 - probs;
    return probs[z];
  });
}

/** Start an episode in `state`; the default is the first possible initial state. */
export function createSession(policy, state = policy?.starts?.[0]) {
  check(policy);
  let history = [];
  let current = firstStep(policy, state);

  return {
    policy,
    /** Number of steps taken; equal to the horizon when the episode is over. */
    get step() { return current.step; },
    get state() { return current.state; },
    get done() { return current.step >= policy.horizon; },
    /** Recommended action, as an index; null when the episode is over. */
    get action() { return actionOf(policy, current); },
    get actionName() { return this.done ? null : policy.action_names[this.action]; },
    get stateName() { return policy.state_names[current.state]; },
    /** Probability of each type, given the rewards so far. */
    get belief() { return current.belief.slice(); },
    /** Sum of the rewards so far. */
    get total() { return history.reduce((sum, { reward }) => sum + reward, 0); },
    /** Possible next states after the recommended action, according to the model. */
    get nextStates() { return this.done ? [] : nextStates(policy, current.state, this.action); },
    /** Steps so far: state, action, reward, and the belief before the reward. */
    get history() {
      return history.map(({ state, action, reward, belief }) => ({ state, action, reward, belief: belief.slice() }));
    },
    /** Record the reward of the recommended action and the next state (not needed at the last step). */
    observe(reward, nextState) {
      if (this.done) throw new RangeError(`the episode is over after ${policy.horizon} steps: undo() or restart()`);
      const z = rewardIndex(policy, reward);
      const last = current.step === policy.horizon - 1;
      const next = last && nextState === undefined ? current.state : checkState(policy, nextState, "nextState");
      const action = this.action;
      history.push({ ...current, action, reward: policy.reward_cuts ? reward : policy.reward_values[z] });
      current = {
        step: current.step + 1,
        state: next,
        memory: last ? 0 : nodeOf(policy, current)[1 + z],
        belief: update(current.belief, likelihood(policy, current.state, action, z)),
      };
      return this;
    },
    /** Undo the last observation; at the first step this does nothing. */
    undo() {
      if (history.length > 0) {
        const { step, state, memory, belief } = history.pop();
        current = { step, state, memory, belief };
      }
      return this;
    },
    /** Start again, by default in the initial state of this episode. */
    restart(initial = history.length > 0 ? history[0].state : current.state) {
      current = firstStep(policy, initial);
      history = [];
      return this;
    },
  };
}

function firstStep(policy, state) {
  checkState(policy, state, "state");
  return { step: 0, state, memory: policy.first[state], belief: policy.weights.slice() };
}

function nodeOf(policy, { step, state, memory }) {
  return policy.nodes[step][policy.columns[step][memory][state]];
}

function actionOf(policy, current) {
  return current.step < policy.horizon ? nodeOf(policy, current)[0] : null;
}

function nextStates(policy, state, action) {
  const listed = policy.next_states[state * policy.action_names.length + action];
  return listed === null ? policy.state_names.map((_, s) => s) : listed.slice();
}

/** Return the index of the reward value that a reward counts as. Must agree with RewardScale.level in Python. */
export function rewardIndex(policy, reward) {
  const values = policy.reward_values;
  if (typeof reward !== "number" || !Number.isFinite(reward)) {
    throw new RangeError(`reward: got ${reward}, expected a finite number`);
  }
  let z = 0; // the nearest value
  values.forEach((value, i) => { if (Math.abs(value - reward) < Math.abs(values[z] - reward)) z = i; });
  const isValue = values[z] === reward || Number(values[z].toPrecision(6)) === reward;
  if (policy.reward_cuts) {
    if (isValue && !isEmpty(policy, z)) return z;
    const raw = Math.abs(reward) < 2 ** 22 ? Math.round(reward * 1e9) / 1e9 : reward;
    return policy.reward_cuts.filter((cut) => cut <= raw).length;
  }
  if (!isValue && Math.abs(values[z] - reward) > Math.max(1e-9, 1e-6 * Math.abs(values[z]))) {
    throw new RangeError(`reward: got ${reward}, expected one of ${values.join(", ")}`);
  }
  return z;
}

/** Return whether the bin of a reward value is empty: it lies between equal cuts. */
export function isEmpty(policy, z) {
  if (!policy.reward_cuts) return false;
  const edges = [-Number.MAX_VALUE, ...policy.reward_cuts, Number.MAX_VALUE];
  return edges[z] === edges[z + 1];
}

function checkState(policy, state, argument) {
  const count = policy.state_names.length;
  if (!Number.isInteger(state) || state < 0 || state >= count) {
    throw new RangeError(`${argument}: got ${state}, expected an integer from 0 to ${count - 1}`);
  }
  return state;
}

function check(policy) {
  if (policy?.format !== FORMAT || policy.format_version !== VERSION) {
    const actual = policy?.format === FORMAT ? `version ${policy.format_version}` : typeof policy;
    throw new TypeError(`policy: got ${actual}, expected JSON of rewardmix export --format json, version ${VERSION}`);
  }
}
