/** Shows at the top of the page whether the service is fully operational. */

import { byId } from "./dom.js";

const UNAVAILABLE = 503;
const place = byId("readiness");

function show(state, text, title) {
  place.dataset.state = state;
  place.title = title;
  place.querySelector(".text").textContent = text;
}

/** Ask the service for its readiness and show it. */
export async function checkReadiness() {
  try {
    const response = await fetch("/readyz", { headers: { Accept: "application/json" } });
    const document = await response.json();
    if (response.ok) show("ready", "ready", "Database, schema and fitter are well");
    else show("degraded", "degraded", document.detail ?? document.title);
  } catch {
    show("down", "no answer", "The service does not answer");
  }
}

/** Check again if a response (null if there was none) contradicts the badge. */
export function noteResponse(response) {
  const isWell = response !== null && response.status !== UNAVAILABLE;
  if (place.dataset.state === (isWell ? "down" : "ready")) checkReadiness();
}

checkReadiness();
setInterval(checkReadiness, 30_000);
