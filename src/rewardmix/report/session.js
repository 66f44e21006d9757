// The session of the report page: player.js in front of it plays, this shows. Names are set as text, never as markup.

const policy = JSON.parse(document.getElementById("policy").textContent);
const session = createSession(policy);
const byId = (id) => document.getElementById(id);
const percent = (share) =>
  share > 0 && share < 0.005 ? "<1 %" : share < 1 && share > 0.995 ? ">99 %" : `${Math.round(100 * share)} %`;
const amount = (value) => String(Math.round(1e6 * value) / 1e6).replace("-", "−");
const binary = policy.reward_values.length === 2 && policy.reward_values[0] === 0 && policy.reward_values[1] === 1;
const MOST_BUTTONS = 9;

let pending = null; // a reward that was given while the next state is still asked for
let choosing = policy.starts.length > 1; // where the episode begins is asked first

/** What the policy believes, including a reward whose next state is still open. */
function belief() {
  if (pending === null) return session.belief;
  const z = outcomeOf(policy, pending);
  return update(session.belief, likelihood(policy, session.state, session.action, z));
}

function rewardName(value) {
  if (binary) return value === 1 ? "Rewarded" : "Not rewarded";
  return `Reward ${amount(value)}`;
}

/** The question of the moment: what is asked, and the answers as [label, what it does]. */
function question() {
  const state = (s) => policy.state_names[s];
  if (choosing) {
    return { asked: "Where does the episode begin?", answers: policy.starts.map((s) => [state(s), () => begin(s)]) };
  }
  if (session.done) return { asked: "The episode is over.", answers: [["Play again", restart]] };
  if (pending !== null) {
    return { asked: "Where next?", answers: session.nextStates.map((s) => [state(s), () => step(s)]) };
  }
  const order = policy.reward_values.filter((_, z) => !isEmpty(policy, z)).reverse();
  return { asked: binary ? "Was it rewarded?" : "What did it pay?", answers: order.map((v) => [rewardName(v), () => reward(v)]) };
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

/** Do something, show what came of it, say it, and keep the focus where the next answer is. */
function act(change, focus = true) {
  change();
  show();
  byId("say").textContent = spoken();
  const first = byId("choices").querySelector("button, select");
  if (focus && first) first.focus({ preventScroll: true });
}

function spoken() {
  const shares = belief().map((share, m) => `${policy.context_names[m]} ${percent(share)}`).join(", ");
  if (choosing) return "Where does the episode begin?";
  if (session.done) return `The episode is over. Rewards in total: ${amount(session.total)}. Belief: ${shares}.`;
  if (pending !== null) return `${rewardName(pending)}. Belief: ${shares}. Where next?`;
  const where = policy.state_names.length > 1 ? `, ${session.stateName}` : "";
  return `Step ${session.step + 1} of ${policy.horizon}${where}. Belief: ${shares}. Recommended: ${session.actionName}.`;
}

function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function show() {
  const { asked, answers } = question();
  byId("asked").textContent = asked;
  byId("where").replaceChildren(...place());
  byId("action").textContent = choosing ? "…" : session.done ? "The end" : session.actionName;
  byId("choices").replaceChildren(...(answers.length > MOST_BUTTONS ? [list(answers)] : answers.map(button)));
  byId("expected").textContent = expectation();
  byId("undo").disabled = pending === null && session.step === 0 && (choosing || policy.starts.length === 1);
  byId("total").textContent = session.step > 0 ? `rewards so far: ${amount(session.total)}` : "";
  showBelief();
  showHistory();
  showTrack();
}

function place() {
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
  made.setAttribute("aria-labelledby", "asked");
  made.append(new Option("choose …", ""), ...answers.map(([label], i) => new Option(label, String(i))));
  made.addEventListener("change", () => made.value !== "" && act(answers[Number(made.value)][1]));
  return made;
}

/** What the belief expects of the recommended action. */
function expectation() {
  if (choosing || session.done || pending !== null) return "";
  const values = policy.reward_values;
  const chance = values.map((_, z) =>
    likelihood(policy, session.state, session.action, z).reduce((sum, q, m) => sum + q * session.belief[m], 0));
  if (binary) return `At this belief a reward is expected in ${percent(chance[1])} of cases.`;
  return `At this belief it pays ${(values.reduce((sum, v, z) => sum + v * chance[z], 0)).toFixed(2)} on average.`;
}

function showBelief() {
  const shares = belief();
  const bar = byId("belief");
  if (bar.children.length !== shares.length) {
    bar.replaceChildren(...shares.map((_, m) => element("span", "", `k${m % 8}`)));
  }
  shares.forEach((share, m) => { bar.children[m].style.width = `${100 * share}%`; });
  bar.dataset.belief = JSON.stringify(shares);
  bar.setAttribute("aria-label", shares.map((share, m) => `${policy.context_names[m]} ${percent(share)}`).join(", "));
  byId("legend").replaceChildren(...shares.map((share, m) => {
    const item = element("li");
    item.append(element("span", "", `swatch solid k${m % 8}`), policy.context_names[m], element("b", percent(share)));
    return item;
  }));
}

function showHistory() {
  const items = session.history.map(({ state, action, reward: paid }, t) => {
    const item = element("li");
    const where = policy.state_names.length > 1 ? `${policy.state_names[state]} · ` : "";
    const got = binary ? (paid === 1 ? "rewarded" : "not") : amount(paid);
    item.append(element("span", String(t + 1), "note"), element("span", where + policy.action_names[action]),
      element("span", got, paid > policy.reward_values[0] ? "got" : "note"));
    return item;
  });
  byId("history").replaceChildren(...items.reverse());
}

/** The belief after each reward, a line for each context. */
function showTrack() {
  const path = [...session.history.map((past) => past.belief), session.belief];
  if (pending !== null) path.push(belief());
  const x = (t) => 30 + (t / policy.horizon) * 322;
  const y = (share) => 78 - share * 70;
  const shapes = [0, 0.5, 1].flatMap((share) => [
    shape("line", { x1: 30, x2: 352, y1: y(share), y2: y(share), class: "rule" }),
    shape("text", { x: 24, y: y(share) + 3.5, "text-anchor": "end" }, percent(share)),
  ]);
  shapes.push(shape("text", { x: 30, y: 93 }, "before"), shape("text", { x: 352, y: 93, "text-anchor": "end" }, `after ${policy.horizon} rewards`));
  policy.weights.forEach((_, m) => {
    const points = path.map((shares, t) => `${x(t).toFixed(1)} ${y(shares[m]).toFixed(1)}`);
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

/** Keys act only while something in the session has the focus, so that they get in nobody's way. */
byId("session").addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  const key = event.key.toLowerCase();
  const { answers } = question();
  const asksReward = !choosing && !session.done && pending === null;
  const change =
    key === "u" ? undo
    : key === "r" ? restart
    : binary && asksReward && key === "y" ? () => reward(1)
    : binary && asksReward && key === "n" ? () => reward(0)
    : /^[1-9]$/.test(key) && answers.length <= MOST_BUTTONS ? answers[Number(key) - 1]?.[1]
    : undefined;
  if (change === undefined) return;
  event.preventDefault();
  act(change);
});
byId("undo").addEventListener("click", () => act(undo));
byId("restart").addEventListener("click", () => act(restart));
show();
