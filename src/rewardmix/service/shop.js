// The demo shop: where visitors are. Everything is written as text.
function make(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
const colour = (taste) => (taste === "reader" ? "k1" : "k0");

function show({ pages, walking, lately }) {
  at("floor").replaceChildren(...pages.map((page) => {
    const room = make("section", undefined, { class: "room" });
    const list = make("ul");
    for (const one of walking.filter((each) => each.page === page)) {
      const line = make("li", undefined, { class: colour(one.taste) });
      line.append(make("span", one.clicked ? "●" : "○", { "aria-label": one.clicked ? "clicked" : "did not click" , role: "img" }),
        make("span", ` ${one.shown}`, { class: "shown" }));
      list.append(line);
    }
    room.append(make("h3", page), list);
    return room;
  }));
  at("lately").replaceChildren(...lately.map((one) => {
    const row = make("tr");
    row.append(make("th", `${one.visitor}`, { scope: "row" }), make("td", one.taste), make("td", `${one.version}`),
      make("td", one.shown), make("td", `${one.clicks}`, { class: "n" }));
    return row;
  }));
}

let timer = null;
async function look() {
  clearTimeout(timer);
  if (document.hidden) return;
  let pause = 500;
  try {
    const told = await asked("/v1/demo");
    if (told === null) return; // the form is open
    show(told);
    at("state").textContent = "";
  } catch (error) {
    pause = 5000;
    at("state").textContent = `No answer from the service (${error.message}).`;
  }
  timer = setTimeout(look, pause);
}
document.addEventListener("visibilitychange", look);
look();
