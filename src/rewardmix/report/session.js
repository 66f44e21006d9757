// Display of the session on the report page; player.js, which precedes it, plays the policy. Names are set as text,
// never as markup.

const policy = JSON.parse(document.getElementById("policy").textContent);
const session = createSession(policy);
const byId = (id) => document.getElementById(id);
const percent = (prob) =>
  prob > 0 && prob < 0.005 ? "<1 %" : prob < 1 && prob > 0.995 ? ">99 %" : `${Math.round(100 * prob)} %`;
const amount = (value) => String(Math.round(1e6 * value) / 1e6).replace("-", "−");
const binary = policy.reward_values.length === 2 && policy.reward_values[0] === 0 && policy.reward_values[1] === 1;
const MAX_BUTTONS = 9;

let pending = null; // a reward whose next state has not been entered yet
let choosing = policy.starts.length > 1; // with several initial states the user selects one first

/** Return the belief, including a reward whose next state is still open. */
function belief() {
  if (pending === null) return session.belief;
  const z = rewardIndex(policy, pending);
  return update(session.belief, likelihood(policy, session.state, session.action, z));
}

function rewardName(value) {
  if (binary) return value === 1 ? "Rewarded" : "Not rewarded";
  return `Reward ${amount(value)}`;
}

/** Return the current prompt and its answers as [label, function]. */
function question() {
  const state = (s) => policy.state_names[s];
  if (choosing) {
    return { prompt: "Initial state?", answers: policy.starts.map((s) => [state(s), () => begin(s)]) };
  }
  if (session.done) return { prompt: "The episode is over.", answers: [["Play again", restart]] };
  if (pending !== null) {
    return { prompt: "Next state?", answers: session.nextStates.map((s) => [state(s), () => step(s)]) };
  }
  const order = policy.reward_values.filter((_, z) => !isEmpty(policy, z)).reverse();
  return { prompt: binary ? "Was it rewarded?" : "Reward?", answers: order.map((v) => [rewardName(v), () => reward(v)]) };
}

function begin(state) {
  choosing = false;
  session.restart(state);
}

function reward(value) {
  const last = session.step === policy.horizon - 1;
  const next = session.nextStates;
  if (last) session.observe(value);
  else if (next.length === 1) session.observe(value, next[0]);
  else pending = value;
}

function step(state) {
  session.observe(pending, state);
  pending = null;
}

function undo() {
  if (pending !== null) pending = null;
  else if (session.step > 0) session.undo();
  else if (policy.starts.length > 1) choosing = true;
}

function restart() {
  pending = null;
  choosing = policy.starts.length > 1;
  session.restart();
}

/** Apply a change, update the page, announce it, and move the focus to the next answer. */
function act(change, focus = true) {
  change();
  show();
  byId("announcement").textContent = announcement();
  const first = byId("choices").querySelector("button, select");
  if (focus && first) first.focus({ preventScroll: true });
}

function announcement() {
  const beliefs = beliefText();
  if (choosing) return "Initial state?";
  if (session.done) return `The episode is over. Total reward: ${amount(session.total)}. Belief: ${beliefs}.`;
  if (pending !== null) return `${rewardName(pending)}. Belief: ${beliefs}. Next state?`;
  const where = policy.state_names.length > 1 ? `, ${session.stateName}` : "";
  return `Step ${session.step + 1} of ${policy.horizon}${where}. Belief: ${beliefs}. Recommended: ${session.actionName}.`;
}

function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function show() {
  const { prompt, answers } = question();
  byId("prompt").textContent = prompt;
  byId("where").replaceChildren(...stepLabel());
  byId("action").textContent = choosing ? "…" : session.done ? "End" : session.actionName;
  byId("choices").replaceChildren(...(answers.length > MAX_BUTTONS ? [list(answers)] : answers.map(button)));
  byId("expected").textContent = expectation();
  byId("undo").disabled = pending === null && session.step === 0 && (choosing || policy.starts.length === 1);
  byId("total").textContent = session.step > 0 ? `total reward: ${amount(session.total)}` : "";
  showBelief();
  showHistory();
  showTrack();
}

function stepLabel() {
  if (choosing) return [element("span", "Before the first step")];
  if (session.done) return [element("span", `After ${policy.horizon} steps`)];
  const parts = [element("span", `Step ${session.step + 1} of ${policy.horizon}`)];
  if (policy.state_names.length > 1) parts.push(element("span", " · "), element("b", session.stateName));
  return parts;
}

function button([label, choose], i) {
  const made = element("button", "", label === "Rewarded" ? "yes" : "");
  made.type = "button";
  const key = element("kbd", String(i + 1));
  key.setAttribute("aria-hidden", "true");
  made.append(key, label);
  made.addEventListener("click", () => act(choose));
  return made;
}

function list(answers) {
  const made = document.createElement("select");
  made.setAttribute("aria-labelledby", "prompt");
  made.append(new Option("choose …", ""), ...answers.map(([label], i) => new Option(label, String(i))));
  made.addEventListener("change", () => made.value !== "" && act(answers[Number(made.value)][1]));
  return made;
}

/** Describe the expected reward of the recommended action under the belief. */
function expectation() {
  if (choosing || session.done || pending !== null) return "";
  const values = policy.reward_values;
  const probs = values.map((_, z) =>
    likelihood(policy, session.state, session.action, z).reduce((sum, q, m) => sum + q * session.belief[m], 0));
  if (binary) return `Probability of a reward at this belief: ${percent(probs[1])}.`;
  return `Expected reward at this belief: ${(values.reduce((sum, v, z) => sum + v * probs[z], 0)).toFixed(2)}.`;
}

/** Format the belief: the probability of each type. */
function beliefText() {
  return belief().map((prob, m) => `${policy.type_names[m]} ${percent(prob)}`).join(", ");
}

function showBelief() {
  const probs = belief();
  const bar = byId("belief");
  if (bar.children.length !== probs.length) {
    bar.replaceChildren(...probs.map((_, m) => element("span", "", `k${m % 8}`)));
  }
  probs.forEach((prob, m) => { bar.children[m].style.width = `${100 * prob}%`; });
  bar.dataset.belief = JSON.stringify(probs);
  bar.setAttribute("aria-label", beliefText());
  byId("legend").replaceChildren(...probs.map((prob, m) => {
    const item = element("li");
    item.append(element("span", "", `swatch solid k${m % 8}`), policy.type_names[m], element("b", percent(prob)));
    return item;
  }));
}

function showHistory() {
  const items = session.history.map(({ state, action, reward: value }, t) => {
    const item = element("li");
    const where = policy.state_names.length > 1 ? `${policy.state_names[state]} · ` : "";
    const outcome = binary ? (value === 1 ? "rewarded" : "not") : amount(value);
    item.append(element("span", String(t + 1), "note"), element("span", where + policy.action_names[action]),
      element("span", outcome, value > policy.reward_values[0] ? "got" : "note"));
    return item;
  });
  byId("history").replaceChildren(...items.reverse());
}

/** Draw the belief after each reward, one line for each type. */
function showTrack() {
  const path = [...session.history.map((step) => step.belief), session.belief];
  if (pending !== null) path.push(belief());
  const x = (t) => 30 + (t / policy.horizon) * 322;
  const y = (prob) => 78 - prob * 70;
  const shapes = [0, 0.5, 1].flatMap((prob) => [
    shape("line", { x1: 30, x2: 352, y1: y(prob), y2: y(prob), class: "rule" }),
    shape("text", { x: 24, y: y(prob) + 3.5, "text-anchor": "end" }, percent(prob)),
  ]);
  shapes.push(shape("text", { x: 30, y: 93 }, "start"), shape("text", { x: 352, y: 93, "text-anchor": "end" }, `after ${policy.horizon} rewards`));
  policy.weights.forEach((_, m) => {
    const points = path.map((probs, t) => `${x(t).toFixed(1)} ${y(probs[m]).toFixed(1)}`);
    shapes.push(shape("path", { d: `M${points.join("L")}`, class: `k${m % 8}` }));
    const [cx, cy] = points[points.length - 1].split(" ");
    shapes.push(shape("circle", { cx, cy, r: 3.2, class: `k${m % 8}` }));
  });
  byId("track").replaceChildren(...shapes);
}

function shape(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.textContent = text;
  return made;
}

/** Keys act only while an element of the session has the focus, so that they do not interfere with the page. */
byId("session").addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  const key = event.key.toLowerCase();
  const { answers } = question();
  const isRewardPrompt = !choosing && !session.done && pending === null;
  const change =
    key === "u" ? undo
    : key === "r" ? restart
    : binary && isRewardPrompt && key === "y" ? () => reward(1)
    : binary && isRewardPrompt && key === "n" ? () => reward(0)
    : /^[1-9]$/.test(key) && answers.length <= MAX_BUTTONS ? answers[Number(key) - 1]?.[1]
    : undefined;
  if (change === undefined) return;
  event.preventDefault();
  act(change);
});
byId("undo").addEventListener("click", () => act(undo));
byId("restart").addEventListener("click", () => act(restart));
show();
