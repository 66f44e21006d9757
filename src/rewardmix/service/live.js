// The live page: what /v1/live tells, written as text. Nothing of it is ever read as HTML.
const PAUSE = 2000, LONGEST_PAUSE = 30000;
const SVG = "http://www.w3.org/2000/svg";
let pause = PAUSE, timer = null;

const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 2, minimumFractionDigits: 2 });
const count = (value) => value.toLocaleString("en");
const fine = (value) => value > 0 && value < 0.1 ? value.toLocaleString("en", { maximumSignificantDigits: 2 }) : number(value);
const signed = (value) => (value < 0 ? "−" : "+") + fine(Math.abs(value));
const fill = (parent, ...children) => parent.replaceChildren(...children);

function make(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function draw(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

async function look() {
  clearTimeout(timer);
  if (document.hidden) return; // asked again when it is seen
  try {
    const told = await asked("/v1/live");
    if (told === null) return void (at("lead").textContent = ""); // the form is open
    show(told);
    at("state").textContent = "";
    pause = PAUSE;
  } catch (error) {
    pause = Math.min(2 * pause, LONGEST_PAUSE);
    at("state").textContent = `No answer from the service (${error.message}); asking again in ${pause / 1000} s.`;
  }
  timer = setTimeout(look, pause);
}

document.addEventListener("visibilitychange", look);

function show(told) {
  at("content").classList.remove("empty");
  const { adaptive, fixed } = told.arms;
  at("verdict").textContent = verdict(told);
  at("lead").textContent = lead(told);
  at("shop-link").hidden = !told.demo;
  const test = told.comparison;
  fill(at("cards"),
    card("Sessions now", count(told.open_sessions), `${count(told.finished_sessions)} have finished.`),
    card("Adaptive", adaptive.sessions ? number(adaptive.mean) : "–", `reward a session, over ${count(adaptive.sessions)}`),
    card("Holdout", fixed.sessions ? number(fixed.mean) : "–", `reward a session, over ${count(fixed.sessions)}`),
    card("Difference", test ? signed(test.difference) : "–",
      (test ? `${signed(test.lower)} to ${signed(test.upper)} with 95 %, however often you look; ${counts(test)}`
        : `said from ${told.least_sessions} sessions of each on`) + leftOut(told)));
  fill(at("alarms"), ...(told.alarms.length ? told.alarms.map((alarm) => make("li", alarm.message, { class: "loud" }))
    : [make("li", "None.", { class: "quiet" })]));
  chart(told.over_time);
  fill(at("stretches"), ...told.over_time.map((one, index) => row(`${index + 1}`,
    [count(one.adaptive.sessions), one.adaptive.sessions ? number(one.adaptive.mean) : "–",
      count(one.fixed.sessions), one.fixed.sessions ? number(one.fixed.mean) : "–"])));
  fill(at("types"), ...told.types.map((type) => make("li", type.words)));
  at("held").textContent = told.held ? `Version ${told.version} was chosen by hand, and stays until somebody chooses otherwise.` : "";
  fill(at("versions"), ...told.versions.flatMap(versionRows));
}

function verdict({ comparison, arms }) {
  if (!comparison) return arms.fixed.sessions || arms.adaptive.sessions ? "Too early to tell" : "Waiting for sessions";
  if (comparison.lower > 0) return "Adapting pays";
  if (comparison.upper < 0) return "Adapting loses";
  return "Not decided yet";
}

function counts({ least_return, most_return, clipped }) {
  const beyond = clipped ? `, as ${count(clipped)} that earned ${least_return === 0 ? "more" : "less or more"} do` : "";
  return `a session counts ${count(least_return)} to ${count(most_return)}${beyond}`;
}

function leftOut({ left_out_sessions }) {
  return left_out_sessions ? `; without ${count(left_out_sessions)} sessions that no known holdout was drawn for` : "";
}

function lead({ comparison, holdout, counted_sessions, finished_sessions }) {
  const reading = counted_sessions < finished_sessions ? ` (${count(counted_sessions)} of ${count(finished_sessions)} sessions counted so far.)` : "";
  if (holdout === 0) return `There is no holdout, so nothing says what adapting is worth.${reading}`;
  if (!comparison) return `${Math.round(100 * holdout)} % of sessions do not adapt, to compare with.${reading}`;
  const { difference, lower, upper, more_sessions } = comparison;
  if (lower > 0 || upper < 0) {
    return `A session that adapts earns ${fine(Math.abs(difference))} ${difference > 0 ? "more" : "less"} than one of the holdout.${reading}`;
  }
  const slow = Math.min(holdout, 1 - holdout) < 0.15 ? " A holdout of half of the sessions would decide two to four times sooner." : "";
  const wait = more_sessions === null ? "Nothing says yet that more sessions would decide."
    : `If sessions go on as they did, about ${count(rounded(more_sessions))} more decide.`;
  return `Adapting and holdout differ by ${signed(difference)}, which may be chance. ${wait}${slow}${reading}`;
}

function ticks(low, high) {
  const rough = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(Math.abs(value) < step / 2 ? 0 : value);
  return found;
}

function rounded(value) {
  const unit = 10 ** Math.max(Math.floor(Math.log10(value)) - 1, 0);
  return Math.ceil(value / unit) * unit;
}

function card(title, value, text) {
  const made = make("section", null, { class: "card" });
  made.append(make("h2", title), make("p", value, { class: "figure-number" }), make("p", text));
  return made;
}

function row(head, cells) {
  const made = make("tr");
  made.append(make("th", head, { scope: "row" }), ...cells.map((cell) => make("td", cell, { class: "n" })));
  return made;
}

function versionRows(one) {
  const { adaptive, fixed } = one.earned;
  const from = one.origin === "given" ? "given" : `learned from ${count(one.sessions)} sessions`;
  const made = make("tr");
  made.append(make("th", `${one.version}`, { scope: "row" }), make("td", one.state === "refused" ? "not promoted" : one.state),
    make("td", from), make("td", one.added.slice(0, 16).replace("T", " ")));
  for (const cell of [count(adaptive.sessions + fixed.sessions), adaptive.sessions ? number(adaptive.mean) : "–",
    fixed.sessions ? number(fixed.mean) : "–"]) made.append(make("td", cell, { class: "n" }));
  if (!one.reason) return [made];
  made.className = "reasoned";
  const why = make("tr", null, { class: "why" });
  why.append(make("td"), make("td", one.reason, { colspan: "6" }));
  return [made, why];
}

function chart(stretches) {
  const box = at("chart"), width = Math.max(box.clientWidth, 280), height = width < 500 ? 200 : 260, left = 40, right = 8, top = 10, bottom = 26;
  const points = (arm) => stretches.map((one, i) => [i, one[arm]]).filter(([, earned]) => earned.sessions > 0);
  const all = [...points("adaptive"), ...points("fixed")].map(([, earned]) => earned.mean);
  if (!all.length) return fill(box, make("p", "No session has finished yet.", { class: "note" }));
  let low = Math.min(...all), high = Math.max(...all);
  const pad = Math.max(0.08 * (high - low), 0.05);
  low -= pad; high += pad;
  const x = (i) => left + (width - left - right) * (stretches.length > 1 ? i / (stretches.length - 1) : 0.5);
  const y = (value) => top + (height - top - bottom) * (high - value) / (high - low);
  const last = (arm) => { const found = points(arm); return found.length ? number(found.at(-1)[1].mean) : "none"; };
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Reward a session in ${stretches.length} stretches; in the last one ${last("adaptive")} adaptive, ${last("fixed")} holdout.` });
  for (const value of ticks(low, high)) {
    svg.append(draw("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "rule" }),
      draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  const total = stretches.reduce((sum, one) => sum + one.adaptive.sessions + one.fixed.sessions, 0);
  svg.append(draw("text", { x: left, y: height - 6 }, "first"),
    draw("text", { x: width - right, y: height - 6, "text-anchor": "end" }, `session ${count(total)}`));
  for (const [arm, style] of [["fixed", "fixed-curve"], ["adaptive", "curve"]]) {
    const found = points(arm);
    for (const [i, one] of found) svg.append(draw("circle", { class: `dot ${arm}`, cx: x(i), cy: y(one.mean), r: 2.6 }));
    let sum = 0, sessions = 0;
    const even = found.map(([i, one]) => { sum += one.mean * one.sessions; sessions += one.sessions; return [i, sum / sessions]; });
    svg.append(draw("path", { class: style, d: even.map(([i, mean], k) => `${k ? "L" : "M"}${x(i).toFixed(1)} ${y(mean).toFixed(1)}`).join("") }));
  }
  fill(box, svg);
}

look();
