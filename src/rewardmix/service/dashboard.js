// The dashboard: shows the data of /v1/dashboard as text. Nothing of it is parsed as HTML.
const INTERVAL = 2000, MAX_INTERVAL = 30000;
const SVG = "http://www.w3.org/2000/svg";
let interval = INTERVAL, timer = null;

const formatNumber = (value) => value.toLocaleString("en", { maximumFractionDigits: 2, minimumFractionDigits: 2 });
const formatCount = (value) => value.toLocaleString("en");
// Small differences get two significant digits, as two decimals would show them as 0.
const formatSize = (value) => value > 0 && value < 0.1 ? value.toLocaleString("en", { maximumSignificantDigits: 2 }) : formatNumber(value);
const formatSigned = (value) => (value < 0 ? "−" : "+") + formatSize(Math.abs(value));
const formatMean = (stats) => stats.sessions ? formatNumber(stats.mean) : "–";
const fill = (parent, ...children) => parent.replaceChildren(...children);

function makeElement(name, text, attributes = {}) {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function makeSvg(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

async function refresh() {
  clearTimeout(timer);
  if (document.hidden) return; // visibilitychange refreshes again
  try {
    const data = await requestJson("/v1/dashboard");
    if (data === null) return void (byId("lead").textContent = ""); // the login form is open
    show(data);
    byId("status").textContent = "";
    interval = INTERVAL;
  } catch (error) {
    interval = Math.min(2 * interval, MAX_INTERVAL);
    byId("status").textContent = `The service does not answer (${error.message}); next attempt in ${interval / 1000} s.`;
  }
  timer = setTimeout(refresh, interval);
}

document.addEventListener("visibilitychange", refresh);

function show(data) {
  byId("content").classList.remove("empty");
  const { adaptive, holdout } = data.arms;
  byId("verdict").textContent = formatVerdict(data);
  byId("lead").textContent = formatLead(data);
  byId("shop-link").hidden = !data.demo;
  const comparison = data.comparison;
  fill(byId("cards"),
    makeCard("Open sessions", formatCount(data.open_sessions), `${formatCount(data.finished_sessions)} have finished.`),
    makeCard("Adaptive arm", formatMean(adaptive), `mean return of ${formatCount(adaptive.sessions)} sessions`),
    makeCard("Holdout arm", formatMean(holdout), `mean return of ${formatCount(holdout.sessions)} sessions`),
    makeCard("Difference", comparison ? formatSigned(comparison.difference) : "–",
      (comparison ? `95 % interval, valid at all times: ${formatSigned(comparison.lower)} to ${formatSigned(comparison.upper)}; ${formatBounds(comparison)}`
        : `estimated from ${data.min_sessions} sessions in each arm on`) + formatExcluded(data)));
  fill(byId("alarms"), ...(data.alarms.length ? data.alarms.map((alarm) => makeElement("li", alarm.message, { class: "alarm" }))
    : [makeElement("li", "None.", { class: "quiet" })]));
  showChart(data.history);
  fill(byId("history-rows"), ...data.history.map((item, index) => makeRow(`${index + 1}`,
    [formatCount(item.adaptive.sessions), formatMean(item.adaptive), formatCount(item.holdout.sessions), formatMean(item.holdout)])));
  fill(byId("types"), ...data.types.map((type) => makeElement("li", type.text)));
  byId("pinned").textContent = data.pinned ? `Version ${data.active_version} is pinned: it stays active until another version is activated by hand.` : "";
  fill(byId("versions"), ...data.versions.flatMap(makeVersionRows));
}

function formatVerdict({ comparison, arms }) {
  if (!comparison) return arms.holdout.sessions || arms.adaptive.sessions ? "Too few sessions to compare" : "No finished sessions yet";
  if (comparison.lower > 0) return "The adaptive policy is better";
  if (comparison.upper < 0) return "The adaptive policy is worse";
  return "No significant difference yet";
}

function formatBounds({ min_return, max_return, clipped }) {
  const text = clipped ? ` (${formatCount(clipped)} clipped)` : "";
  return `returns are bounded by ${formatCount(min_return)} and ${formatCount(max_return)}${text}`;
}

function formatExcluded({ excluded_sessions }) {
  return excluded_sessions ? `; ${formatCount(excluded_sessions)} sessions without a known holdout probability are excluded` : "";
}

function formatLead({ comparison, holdout_share, counted_sessions, finished_sessions }) {
  const progress = counted_sessions < finished_sessions ? ` (${formatCount(counted_sessions)} of ${formatCount(finished_sessions)} sessions counted so far.)` : "";
  if (holdout_share === 0) return `There is no holdout arm, so the effect of adapting is not measured.${progress}`;
  if (!comparison) return `${Math.round(100 * holdout_share)} % of the sessions are in the holdout arm.${progress}`;
  const { difference, lower, upper, sessions_until_significant } = comparison;
  if (lower > 0 || upper < 0) {
    return `The mean return of the adaptive arm is ${formatSize(Math.abs(difference))} ${difference > 0 ? "higher" : "lower"} than that of the holdout arm.${progress}`;
  }
  const advice = Math.min(holdout_share, 1 - holdout_share) < 0.15 ? " A holdout share of 0.5 would decide two to four times sooner." : "";
  const forecast = sessions_until_significant === null ? "The number of sessions until a decision cannot be estimated yet."
    : `If the trend continues, about ${formatCount(roundUp(sessions_until_significant))} more sessions are needed.`;
  return `The estimated difference of ${formatSigned(difference)} may be due to chance. ${forecast}${advice}${progress}`;
}

function computeTicks(low, high) {
  const minStep = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(minStep));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= minStep);
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) ticks.push(Math.abs(value) < step / 2 ? 0 : value);
  return ticks;
}

function roundUp(value) {
  const unit = 10 ** Math.max(Math.floor(Math.log10(value)) - 1, 0);
  return Math.ceil(value / unit) * unit;
}

function makeCard(title, value, text) {
  const card = makeElement("section", null, { class: "card" });
  card.append(makeElement("h2", title), makeElement("p", value, { class: "figure-number" }), makeElement("p", text));
  return card;
}

function makeRow(head, cells) {
  const row = makeElement("tr");
  row.append(makeElement("th", head, { scope: "row" }), ...cells.map((cell) => makeElement("td", cell, { class: "n" })));
  return row;
}

function makeVersionRows(version) {
  const { adaptive, holdout } = version.returns;
  const origin = version.origin === "provided" ? "provided" : `refit to ${formatCount(version.num_training_sessions)} sessions`;
  const row = makeElement("tr");
  row.append(makeElement("th", `${version.version}`, { scope: "row" }), makeElement("td", version.state),
    makeElement("td", origin), makeElement("td", version.created_at.slice(0, 16).replace("T", " ")));
  for (const cell of [formatCount(adaptive.sessions + holdout.sessions), formatMean(adaptive), formatMean(holdout)]) {
    row.append(makeElement("td", cell, { class: "n" }));
  }
  if (!version.reason) return [row];
  row.className = "has-reason";
  const reasonRow = makeElement("tr", null, { class: "reason" });
  reasonRow.append(makeElement("td"), makeElement("td", version.reason, { colspan: "6" }));
  return [row, reasonRow];
}

function showChart(history) {
  const box = byId("chart"), width = Math.max(box.clientWidth, 280), height = width < 500 ? 200 : 260, left = 40, right = 8, top = 10, bottom = 26;
  const selectPoints = (arm) => history.map((item, index) => [index, item[arm]]).filter(([, stats]) => stats.sessions > 0);
  const means = [...selectPoints("adaptive"), ...selectPoints("holdout")].map(([, stats]) => stats.mean);
  if (!means.length) return fill(box, makeElement("p", "No session has finished yet.", { class: "note" }));
  let low = Math.min(...means), high = Math.max(...means);
  const padding = Math.max(0.08 * (high - low), 0.05);
  low -= padding; high += padding;
  const x = (index) => left + (width - left - right) * (history.length > 1 ? index / (history.length - 1) : 0.5);
  const y = (value) => top + (height - top - bottom) * (high - value) / (high - low);
  const lastMean = (arm) => { const points = selectPoints(arm); return points.length ? formatNumber(points.at(-1)[1].mean) : "none"; };
  const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Mean return in ${history.length} intervals; in the last one ${lastMean("adaptive")} in the adaptive arm, ${lastMean("holdout")} in the holdout arm.` });
  for (const value of computeTicks(low, high)) {
    svg.append(makeSvg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "rule" }),
      makeSvg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, formatNumber(value)));
  }
  const total = history.reduce((sum, item) => sum + item.adaptive.sessions + item.holdout.sessions, 0);
  svg.append(makeSvg("text", { x: left, y: height - 6 }, "first"),
    makeSvg("text", { x: width - right, y: height - 6, "text-anchor": "end" }, `session ${formatCount(total)}`));
  for (const [arm, style] of [["holdout", "holdout-curve"], ["adaptive", "curve"]]) {
    const points = selectPoints(arm);
    for (const [index, stats] of points) svg.append(makeSvg("circle", { class: `dot ${arm}`, cx: x(index), cy: y(stats.mean), r: 2.6 }));
    // The line shows the mean of all sessions so far, so that it converges.
    let sum = 0, sessions = 0;
    const runningMeans = points.map(([index, stats]) => { sum += stats.mean * stats.sessions; sessions += stats.sessions; return [index, sum / sessions]; });
    svg.append(makeSvg("path", { class: style, d: runningMeans.map(([index, mean], k) => `${k ? "L" : "M"}${x(index).toFixed(1)} ${y(mean).toFixed(1)}`).join("") }));
  }
  fill(box, svg);
}

refresh();
