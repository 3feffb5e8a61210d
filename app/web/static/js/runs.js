/** The measured runs of a workload, the newest first. */

import { get, request, workloadPath } from "./api.js";
import { byId, fill, h, table } from "./dom.js";
import { durationNode, hardware, isolated, label, number, timeNode } from "./format.js";
import { problemPanel } from "./problem.js";
import { fieldsOf } from "./question.js";

const HEADINGS = [
  { text: "Run" }, { text: "Configuration", keep: true }, { text: "Work" }, { text: "Duration", number: true }, { text: "Status" }, { text: "Stored" }, { text: "Ask", hidden: true },
];
const HARDWARE = ["gpu_type", "instance_type", "workers", "provider", "region", "purchase"];

function workText(run) {
  const fields = Object.entries(fieldsOf(run)).filter(([name]) => !HARDWARE.includes(name));
  return fields.map(([name, value]) => `${label(name)} ${typeof value === "number" ? number(value) : isolated(value)}`).join(", ");
}

function status(run) {
  if (run.excluded) return h("span", { class: "badge", title: run.excluded_reason }, "left out of fits");
  return h("span", { class: `badge ${run.status === "succeeded" ? "" : "careful"}` }, run.status.replaceAll("_", " "));
}

function row(run, use) {
  return [
    h("span", { class: "run-name", title: [run.external_id, run.run_id].filter(Boolean).join(" · ") }, run.external_id ?? run.run_id),
    hardware(run.configuration),
    h("small", {}, workText(run)),
    durationNode(run.duration_seconds),
    status(run),
    timeNode(run.created_at),
    h("button", { type: "button", class: "link", "aria-label": `Ask about the configuration of ${run.external_id ?? run.run_id}`, onclick: () => use(run) }, "Ask"),
  ];
}

// Safari reads the file only after the click has returned, and late on a slow machine.
const KEPT_MS = 60_000;

async function download(path, workload) {
  const response = await request(path, { headers: { Accept: "text/csv" } });
  const url = URL.createObjectURL(await response.blob());
  h("a", { href: url, download: `${workload}-runs.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

/** Show the first page of runs; more are fetched on request. */
export function showRuns(workload, first, use) {
  const place = byId("runs");
  const path = `${workloadPath(workload)}/runs`;
  const runs = [...first.runs];
  let next = first.next_page_token;
  const show = () => {
    const more = next ? h("button", { type: "button", class: "secondary outline small", onclick: () => load(next) }, "Show more") : null;
    fill(place, runs.length ? table("The newest runs", HEADINGS, runs.map((run) => row(run, use))) : h("p", {}, "No runs yet."), more);
  };
  const load = async (token) => {
    try {
      const page = await get(path, { page_size: 50, page_token: token });
      // A second click asks for the same page.
      if (token !== next) return;
      runs.push(...page.runs);
      next = page.next_page_token;
      show();
    } catch (error) {
      place.append(problemPanel(error));
    }
  };
  byId("export").onclick = () => download(path, workload).catch((error) => place.prepend(problemPanel(error)));
  show();
}
