/** The list of workloads, with the upload of new runs. */

import { get, latest, workloadPath } from "./api.js";
import { byId, fill, h, table } from "./dom.js";
import { number, percent, timeNode } from "./format.js";
import { currentKey } from "./key.js";
import { problemPanel } from "./problem.js";
import "./readiness.js";
import { headlineAccuracy } from "./regressor.js";
import { whenShownAgain } from "./returning.js";
import { installUpload } from "./upload.js";

const AT_ONCE = 4;
const PAGE = 100;
const FILTER_FROM = 8;
const place = byId("workloads");
const filter = byId("filter");
let shown = [];
let nextToken = null;
let rest = null;
const noMatch = h("p", { class: "quiet", hidden: true });

const HEADINGS = [
  { text: "Workload" },
  { text: "Runs", number: true, title: "finished runs, and those that did not finish" },
  { text: "Regressor" },
  { text: "Typical error", number: true, title: "mean absolute percentage error on configurations that were left out" },
  { text: "Fitted", title: "when the published regressor was fitted" },
];

function runCounts(runs) {
  const all = Object.values(runs).reduce((sum, count) => sum + count, 0);
  const rest = all - (runs.succeeded ?? 0);
  const title = Object.entries(runs).map(([status, count]) => `${status}: ${count}`).join(", ");
  return h("span", { title }, number(runs.succeeded ?? 0), rest ? h("small", {}, ` +${number(rest)}`) : null);
}

function row(workload) {
  const name = workload.workload;
  const version = workload.published_version;
  const status = version
    ? h("span", { class: "badge good" }, `version ${version}`)
    : h("span", { class: "badge" }, "none published yet");
  return {
    attributes: { "data-name": name },
    cells: [
      [h("a", { href: `/workloads/${encodeURIComponent(name)}` }, name), workload.description ? h("small", { class: "description" }, workload.description) : null],
      runCounts(workload.runs),
      status,
      h("span", { class: "accuracy", "data-of": version ? name : "" }, version ? "…" : "–"),
      h("span", { class: "fitted" }, version ? "…" : "–"),
    ],
  };
}

/** Fill in the accuracies and times, a few requests at a time; the list itself does not wait for them. */
async function fillAccuracies() {
  const seen = (cell) => cell.dataset.of && !cell.closest("tr").hidden;
  const waiting = [...place.querySelectorAll(".accuracy")].filter(seen);
  const work = async () => {
    for (let cell = waiting.shift(); cell; cell = waiting.shift()) {
      const name = cell.dataset.of;
      const fitted = cell.closest("tr").querySelector(".fitted");
      cell.dataset.of = "";
      try {
        const { regressor } = await get(workloadPath(name));
        const error = regressor ? headlineAccuracy(regressor.accuracy) : null;
        cell.textContent = error ? percent(error.mape) : "–";
        if (error) cell.title = `${error.mape} on ${error.axis}`;
        fill(fitted, regressor ? timeNode(regressor.fitted_at) : "–");
      } catch (error) {
        for (const unknown of [cell, fitted]) fill(unknown, h("span", { title: error.message }, "?"));
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

function emptyState() {
  const key = currentKey() ? " -H 'Authorization: Bearer KEY'" : "";
  const origin = location.origin;
  const lines = [
    `curl${key} --data-binary @runs.csv -H 'Content-Type: text/csv' ${origin}/v1/runs`,
    `curl${key} -X POST ${origin}/v1/workloads/WORKLOAD/fits -H 'Content-Type: application/json' -d '{}'`,
  ];
  const header = "workload,gpu_type,workers,dataset_size,batch_size,epochs,duration_seconds";
  return h(
    "article",
    { class: "empty" },
    h("h2", { class: "panel-title" }, "No runs have been measured yet"),
    h("p", {}, "Drop a CSV above, or send it from a terminal; then ask for a fit:"),
    h("pre", { tabindex: "0" }, h("code", {}, lines.join("\n"))),
    h("p", {}, "A file of runs has one line per training that you timed; only the workload and the duration are needed:"),
    h("pre", { tabindex: "0" }, h("code", {}, `${header}\nresnet50,V100-16GB,4,1281167,512,2,1843.2\nresnet50,V100-16GB,8,1281167,1024,2,1006.7`)),
    h("p", {}, h("a", { href: "/docs" }, "All columns and requests")),
  );
}

/** Hide rows whose name does not match, after fetching any rows that are not listed yet. */
async function applyFilter() {
  const text = filter.value.trim().toLowerCase();
  if (text && nextToken) {
    rest ??= loadRest();
    await rest;
    return;
  }
  const lines = [...place.querySelectorAll("tr[data-name]")];
  for (const line of lines) line.hidden = !line.dataset.name.includes(text);
  noMatch.textContent = `No workload has “${text}” in its name.`;
  noMatch.hidden = lines.some((line) => !line.hidden);
  fillAccuracies();
}

function show() {
  filter.hidden = shown.length < FILTER_FROM;
  if (!shown.length) {
    fill(place, emptyState());
    return;
  }
  const more = nextToken
    ? h("button", { type: "button", class: "secondary outline small", onclick: () => loadMore(nextToken) }, "Show more")
    : null;
  fill(place, table("Workloads", HEADINGS, shown.map(row)), noMatch, more);
  applyFilter();
}

async function loadRest() {
  const size = 1000;
  try {
    while (nextToken) {
      const token = nextToken;
      const page = await get("/v1/workloads", { page_size: size, page_token: token });
      // The list was loaded anew, or continued by a click: this page does not follow it.
      if (token !== nextToken) continue;
      shown = [...shown, ...page.workloads];
      nextToken = page.next_page_token;
    }
    show();
  } catch (error) {
    showProblem(error);
  } finally {
    rest = null;
  }
}

const load = latest(async (signal) => {
  try {
    const page = await get("/v1/workloads", { page_size: PAGE }, { signal });
    shown = page.workloads;
    nextToken = page.next_page_token;
    show();
  } catch (error) {
    if (!signal.aborted) showProblem(error);
  }
});

async function loadMore(token) {
  try {
    const page = await get("/v1/workloads", { page_size: PAGE, page_token: token });
    // A second click asks for the same page.
    if (token !== nextToken) return;
    shown = [...shown, ...page.workloads];
    nextToken = page.next_page_token;
    show();
  } catch (error) {
    showProblem(error);
  }
}

function showProblem(error) {
  const again = h("button", { type: "button", class: "secondary", onclick: () => load() }, "Try again");
  fill(place, problemPanel(error, again));
}

filter.oninput = applyFilter;
installUpload(() => load());
whenShownAgain(() => load());
await load();
