// The demo shop: shows the sessions of the simulated users. All data are inserted as text.
function makeElement(name, text, attributes = {}) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
const colorClass = (type) => (type === "reader" ? "k1" : "k0");

function show({ pages, active, recent }) {
  byId("pages").replaceChildren(...pages.map((page) => {
    const section = makeElement("section", undefined, { class: "page" });
    const list = makeElement("ul");
    for (const session of active.filter((item) => item.page === page)) {
      const line = makeElement("li", undefined, { class: colorClass(session.type) });
      line.append(makeElement("span", session.clicked ? "●" : "○", { "aria-label": session.clicked ? "clicked" : "did not click", role: "img" }),
        makeElement("span", ` ${session.shown}`, { class: "shown" }));
      list.append(line);
    }
    section.append(makeElement("h3", page), list);
    return section;
  }));
  byId("recent").replaceChildren(...recent.map((session) => {
    const row = makeElement("tr");
    row.append(makeElement("th", `${session.user}`, { scope: "row" }), makeElement("td", session.type), makeElement("td", `${session.version}`),
      makeElement("td", session.shown), makeElement("td", `${session.clicks}`, { class: "n" }));
    return row;
  }));
}

let timer = null;
async function refresh() {
  clearTimeout(timer);
  if (document.hidden) return;
  let interval = 500;
  try {
    const data = await requestJson("/v1/demo");
    if (data === null) return; // the login form is open
    show(data);
    byId("status").textContent = "";
  } catch (error) {
    interval = 5000;
    byId("status").textContent = `The service does not answer (${error.message}).`;
  }
  timer = setTimeout(refresh, interval);
}
document.addEventListener("visibilitychange", refresh);
refresh();
