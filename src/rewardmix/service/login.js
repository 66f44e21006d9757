// Login of a page: its requests carry the token, for which a form asks if the service needs one. The page defines refresh().
const byId = (id) => document.getElementById(id);
let token = null;
try { token = sessionStorage.getItem("rewardmix-token"); } catch { /* without storage the form opens again after a reload */ }

async function requestJson(path) {
  const headers = /^[ -~]+$/.test(token ?? "") ? { Authorization: `Bearer ${token}` } : {}; // headers carry printable ASCII only
  const response = await fetch(path, { headers, cache: "no-store" });
  if (response.status === 401) {
    byId("status").textContent = token ? "This token is not valid for the service." : "";
    byId("login").hidden = false;
    byId("token").focus();
    return null;
  }
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  try { sessionStorage.setItem("rewardmix-token", token); } catch { /* without storage the form opens again after a reload */ }
  byId("login").hidden = true;
  byId("token").value = "";
  refresh();
});

