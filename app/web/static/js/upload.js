/** Uploads files of runs, and shows the result. */

import { Problem, documentIn, request } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { number, plural } from "./format.js";
import { faultTable, problemPanel } from "./problem.js";

const TYPES = { csv: "text/csv", json: "application/json", ndjson: "application/x-ndjson", jsonl: "application/x-ndjson" };
const CHIPS = 12;
const ENCODINGS = { gz: "gzip", zst: "zstd" };

/** Return the content headers for a file by its name. */
function headersOf(name) {
  const parts = name.toLowerCase().split(".");
  const encoding = ENCODINGS[parts.at(-1)];
  if (encoding) parts.pop();
  const type = TYPES[parts.at(-1)] ?? "text/csv";
  return encoding ? { "Content-Type": type, "Content-Encoding": encoding } : { "Content-Type": type };
}

async function send(file, query) {
  const body = await file.arrayBuffer().catch(() => {
    throw new Problem({
      title: "The file cannot be read",
      detail: `${file.name} was moved, changed or is a folder.`,
      remedy: "Choose it again.",
    });
  });
  const response = await request(`/v1/runs${query}`, { method: "POST", body, headers: headersOf(file.name) });
  return documentIn(response);
}

function workloadLinks(runs) {
  const names = [...new Set((runs ?? []).map((run) => run.workload))].sort();
  if (!names.length) return null;
  const links = names.slice(0, CHIPS).map((name) =>
    h("li", {}, h("a", { href: `/workloads/${encodeURIComponent(name)}` }, name)),
  );
  const more = names.length > CHIPS ? h("li", {}, `and ${number(names.length - CHIPS)} more`) : null;
  return h("ul", { class: "chips", "aria-label": "Workloads of this file" }, links, more);
}

function oddities(warnings) {
  return warnings.map((warning) =>
    h(
      "p",
      { class: "warning" },
      `${warning.message} (${plural(warning.count, "row")}: ${warning.rows.slice(0, 10).map(number).join(", ")}${warning.count > 10 ? ", …" : ""}) `,
      h("span", { class: "remedy" }, warning.remedy),
    ),
  );
}

function resultPanel(file, result) {
  const duplicates = result.duplicates ? `, ${plural(result.duplicates, "run")} known already` : "";
  return h(
    "article",
    { class: "done" },
    h("h2", { class: "panel-title" }, result.created ? `${plural(result.created, "run")} stored` : "Nothing new"),
    h("p", {}, `${file.name}: ${plural(result.created, "new run")}${duplicates}.`),
    workloadLinks(result.runs),
    ...oddities(result.warnings ?? []),
    result.invalid_count
      ? h("details", { open: true }, h("summary", {}, `${plural(result.invalid_count, "row")} left out`), faultTable(result.invalid, result.invalid_count))
      : null,
  );
}

// Remedies in terms of this page, instead of those in terms of the API.
const REMEDIES = { invalid_request: "The file's name says how it is read: .csv, .json or .ndjson, with .gz or .zst behind it if it is compressed." };

async function upload(file, place, whenStored, query = "") {
  fill(place, h("p", { class: "quiet", "aria-busy": "true" }, `Uploading ${file.name} …`));
  try {
    const result = await send(file, query);
    fill(place, resultPanel(file, result));
    if (result.created) whenStored();
  } catch (error) {
    const skip = h(
      "button",
      { type: "button", class: "secondary", onclick: () => upload(file, place, whenStored, "?on_invalid=skip") },
      "Store the good rows only",
    );
    const hasGoodRows = error.code === "invalid_rows" && error.document.remedy.includes("on_invalid=skip");
    const remedy = hasGoodRows ? "Correct the named rows and drop the file again." : REMEDIES[error.code];
    const told = remedy ? { document: { ...error.document, remedy } } : error;
    fill(place, problemPanel(told, ...(hasGoodRows ? [skip] : [])));
  }
}

/** Make the drop zone work; `whenStored` is called after each upload that stored runs. */
export function installUpload(whenStored) {
  const zone = byId("drop");
  const input = byId("file");
  const place = byId("upload-result");
  let running = 0;
  const uploadAll = async (files) => {
    // The results of an upload under way are yet to be read.
    if (!running) place.replaceChildren();
    running += 1;
    for (const file of files) await upload(file, place.appendChild(h("div")), whenStored);
    running -= 1;
  };
  input.onchange = async () => {
    await uploadAll([...input.files]);
    input.value = "";
  };
  const hover = (isOver) => (event) => {
    event.preventDefault();
    zone.classList.toggle("over", isOver);
  };
  zone.ondragover = hover(true);
  zone.ondragleave = hover(false);
  zone.ondrop = (event) => {
    hover(false)(event);
    uploadAll([...event.dataTransfer.files]);
  };
}
