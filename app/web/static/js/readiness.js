/** Shows in the head of the page whether the service can do all its work. */

import { byId } from "./dom.js";

const UNAVAILABLE = 503;
const place = byId("readiness");

function show(state, text, title) {
  place.dataset.state = state;
  place.title = title;
  place.querySelector(".text").textContent = text;
}

/** Ask the service how it is, and show it. */
export async function look() {
  try {
    const response = await fetch("/readyz", { headers: { Accept: "application/json" } });
    const document = await response.json();
    if (response.ok) show("ready", "ready", "Database, schema and fitter are well");
    else show("degraded", "degraded", document.detail ?? document.title);
  } catch {
    show("down", "no answer", "The service does not answer");
  }
}

/** Look again where a response, or null for none, contradicts what the badge says. */
export function heard(response) {
  const isWell = response !== null && response.status !== UNAVAILABLE;
  if (place.dataset.state === (isWell ? "down" : "ready")) look();
}

look();
setInterval(look, 30_000);
