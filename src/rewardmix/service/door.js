// The door of a page: its requests carry the token, which is asked for where the service wants one. The page has a look().
const at = (id) => document.getElementById(id);
let token = null;
try { token = sessionStorage.getItem("rewardmix-token"); } catch { /* no storage: asked again after a reload */ }

async function asked(path) {
  const headers = /^[ -~]+$/.test(token ?? "") ? { Authorization: `Bearer ${token}` } : {}; // others no header can carry
  const answer = await fetch(path, { headers, cache: "no-store" });
  if (answer.status === 401) {
    at("state").textContent = token ? "That token is not the one of this service." : "";
    at("door").hidden = false;
    at("token").focus();
    return null;
  }
  if (!answer.ok) throw new Error(`it answered ${answer.status}`);
  return answer.json();
}

at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  try { sessionStorage.setItem("rewardmix-token", token); } catch { /* as above */ }
  at("door").hidden = true;
  at("token").value = "";
  look();
});

