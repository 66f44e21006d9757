// rewardmix player: plays a learned policy in any JavaScript front end. No dependency, no network, no global state.
//
//   import { createSession } from "./player.js";
//   const session = createSession(policy);        // policy: parsed JSON of `rewardmix export POLICY --format json`
//   session.action                                // what to do now (an index; session.actionName for people)
//   session.observe(1, 2)                         // it paid 1, and the visitor is now in state 2
//                                                 // (any number, if the policy puts rewards into bins)
//   session.belief                                // how likely each context is by now
//
// A session is one episode: `horizon` actions, a reward after each. The policy is only read, so that any number of
// sessions can share it.

const FORMAT = "rewardmix-policy";
const VERSION = 1;

/** Posterior after an outcome of the given likelihood in each context; unchanged if the outcome is impossible. */
export function update(belief, likelihood) {
  const joint = belief.map((share, m) => share * likelihood[m]);
  const total = joint.reduce((sum, part) => sum + part, 0);
  return total > 0 ? joint.map((part) => part / total) : belief.slice();
}

/** Probability of reward value number z at (state, action), in each context. */
export function likelihood(policy, state, action, z) {
  return policy.rewards.map((table) => {
    const law = table[state][action]; // two values: the probability of the larger one; more: a law
    if (typeof law === "number") return z === 1 ? law : 1 - law;
    return law[z];
  });
}

/** Start an episode. `state`: where it begins; without it, the first state in which episodes can begin. */
export function createSession(policy, state = policy?.starts?.[0]) {
  check(policy);
  let past = [];
  let now = opening(policy, state);

  return {
    policy,
    /** Steps taken so far; equal to the horizon when the episode is over. */
    get step() { return now.step; },
    get state() { return now.state; },
    get done() { return now.step >= policy.horizon; },
    /** The action to take now, as an index; null when the episode is over. */
    get action() { return actionOf(policy, now); },
    get actionName() { return this.done ? null : policy.action_names[this.action]; },
    get stateName() { return policy.state_names[now.state]; },
    /** How likely each context is, given the rewards so far. */
    get belief() { return now.belief.slice(); },
    /** Sum of the rewards so far. */
    get total() { return past.reduce((sum, { reward }) => sum + reward, 0); },
    /** States that may follow the recommended action, according to the model. */
    get nextStates() { return this.done ? [] : nextStates(policy, now.state, this.action); },
    /** The steps so far: state, action, reward, and the belief before the reward. */
    get history() {
      return past.map(({ state, action, reward, belief }) => ({ state, action, reward, belief: belief.slice() }));
    },
    /** Tell what the recommended action paid, and the state that followed (not needed at the last step). */
    observe(reward, nextState) {
      if (this.done) throw new RangeError(`the episode is over after ${policy.horizon} steps: undo() or restart()`);
      const z = outcomeOf(policy, reward);
      const last = now.step === policy.horizon - 1;
      const following = last && nextState === undefined ? now.state : checkState(policy, nextState, "nextState");
      const action = this.action;
      past.push({ ...now, action, reward: policy.reward_cuts ? reward : policy.reward_values[z] });
      now = {
        step: now.step + 1,
        state: following,
        memory: last ? 0 : nodeOf(policy, now)[1 + z],
        belief: update(now.belief, likelihood(policy, now.state, action, z)),
      };
      return this;
    },
    /** Take the last observation back; nothing happens at the beginning. */
    undo() {
      if (past.length > 0) {
        const { step, state, memory, belief } = past.pop();
        now = { step, state, memory, belief };
      }
      return this;
    },
    /** Begin again, in the same first state or in another one. */
    restart(first = past.length > 0 ? past[0].state : now.state) {
      now = opening(policy, first);
      past = [];
      return this;
    },
  };
}

function opening(policy, state) {
  checkState(policy, state, "state");
  return { step: 0, state, memory: policy.first[state], belief: policy.weights.slice() };
}

function nodeOf(policy, { step, state, memory }) {
  return policy.nodes[step][policy.columns[step][memory][state]];
}

function actionOf(policy, now) {
  return now.step < policy.horizon ? nodeOf(policy, now)[0] : null;
}

function nextStates(policy, state, action) {
  const listed = policy.next_states[state * policy.action_names.length + action];
  return listed === null ? policy.state_names.map((_, s) => s) : listed.slice();
}

/** Number of the reward value that a reward counts as: the twin of RewardScale.level. */
export function outcomeOf(policy, reward) {
  const values = policy.reward_values;
  if (typeof reward !== "number" || !Number.isFinite(reward)) {
    throw new RangeError(`reward: found ${reward}, expected a finite number`);
  }
  let z = 0; // the nearest value
  values.forEach((value, i) => { if (Math.abs(value - reward) < Math.abs(values[z] - reward)) z = i; });
  const meant = values[z] === reward || Number(values[z].toPrecision(6)) === reward;
  if (policy.reward_cuts) {
    if (meant && !isEmpty(policy, z)) return z;
    const raw = Math.abs(reward) < 2 ** 22 ? Math.round(reward * 1e9) / 1e9 : reward;
    return policy.reward_cuts.filter((cut) => cut <= raw).length;
  }
  if (!meant && Math.abs(values[z] - reward) > Math.max(1e-9, 1e-6 * Math.abs(values[z]))) {
    throw new RangeError(`reward: found ${reward}, expected one of ${values.join(", ")}`);
  }
  return z;
}

/** Whether a reward value stands for no reward: it lies between equal cuts. */
export function isEmpty(policy, z) {
  if (!policy.reward_cuts) return false;
  const edges = [-Number.MAX_VALUE, ...policy.reward_cuts, Number.MAX_VALUE];
  return edges[z] === edges[z + 1];
}

function checkState(policy, state, argument) {
  const count = policy.state_names.length;
  if (!Number.isInteger(state) || state < 0 || state >= count) {
    throw new RangeError(`${argument}: found ${state}, expected a whole number from 0 to ${count - 1}`);
  }
  return state;
}

function check(policy) {
  if (policy?.format !== FORMAT || policy.format_version !== VERSION) {
    const found = policy?.format === FORMAT ? `version ${policy.format_version}` : typeof policy;
    throw new TypeError(`policy: found ${found}, expected JSON of rewardmix export --format json, version ${VERSION}`);
  }
}
