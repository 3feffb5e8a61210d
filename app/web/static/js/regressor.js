/** The card of the published regressor: its accuracy on held-out runs. */

import { get, latest, request, workloadPath } from "./api.js";
import { byId, fill, h, table } from "./dom.js";
import { duration, label, number, percent, plural, timeNode } from "./format.js";
import { problemPanel } from "./problem.js";

const AXES = {
  interpolation: "inside the measured range", workers: "more workers than measured", dataset_size: "other dataset sizes",
  batch_size: "other batch sizes", epochs: "other numbers of epochs", gpu_type: "a GPU type not measured", nodes: "other numbers of nodes",
  instance_type: "an instance type not measured",
};

/** Return the representative error: the one inside the measured range, if known. */
export function headlineAccuracy(accuracy) {
  const axis = "interpolation" in accuracy ? "interpolation" : Object.keys(accuracy)[0];
  return axis === undefined ? null : { axis, mape: accuracy[axis] };
}

function meter(fraction, scale) {
  const bar = h("span", { class: "bar" });
  bar.style.setProperty("--share", String(Math.min(1, fraction / scale)));
  return h("span", { class: "meter", "aria-hidden": "true" }, bar);
}

function accuracyList(regressor) {
  const entries = Object.entries(regressor.accuracy_by_axis);
  const scale = Math.max(0.5, ...entries.map(([, mape]) => mape));
  const lines = entries.map(([name, mape]) =>
    h("div", {}, h("dt", {}, AXES[name] ?? label(name)), h("dd", { title: String(mape) }, meter(mape, scale), h("span", { class: "figure" }, percent(mape)))),
  );
  const jitter = regressor.evidence.jitter;
  const noise = jitter ? `${percent(jitter.relative)} and ${duration(jitter.seconds)}` : percent(regressor.noise_floor ?? 0);
  // Errors are relative to the mean of a configuration's runs, the noise is that of single runs: neither bounds the other.
  const note = `Single runs of the same configuration differ by ${noise} among themselves (standard deviation), which no forecast can tell beforehand. The errors above are against the average of each configuration, so they may be smaller.`;
  const floor = regressor.noise_floor === null ? null : h("p", { class: "quiet" }, note);
  return h("div", {}, h("h3", {}, "Typical error on configurations left out"), lines.length ? h("dl", { class: "meters" }, lines) : h("p", {}, "Too few runs to tell."), floor);
}

function coverageList(regressor) {
  const entries = Object.entries(regressor.coverage);
  if (!entries.length) return null;
  const lines = entries.map(([level, share]) =>
    h("div", {}, h("dt", {}, `${percent(Number(level))} bands`), h("dd", { title: String(share) }, meter(share, 1), h("span", { class: "figure" }, `held ${percent(share)}`))),
  );
  return h("div", {}, h("h3", {}, "Do the bands keep their word?"), h("dl", { class: "meters" }, lines));
}

function candidates(regressor) {
  const sorted = [...regressor.candidates].sort((a, b) => b.weight - a.weight || (a.mape ?? 9) - (b.mape ?? 9));
  const axes = Object.keys(regressor.accuracy_by_axis);
  const shown = (error) => (error === null || error === undefined ? "–" : percent(error));
  const headings = [{ text: "Candidate" }, { text: "Weight", number: true }, { text: "Error", number: true }, ...axes.map((name) => ({ text: label(name), number: true }))];
  const rows = sorted.map((candidate) => [label(candidate.regressor), candidate.weight ? percent(candidate.weight) : "–", shown(candidate.mape), ...axes.map((name) => shown(candidate.by_axis[name]))]);
  const failed = Object.entries(regressor.failed_candidates).map(([name, reason]) => h("li", {}, `${label(name)}: ${reason}`));
  return h("details", {}, h("summary", {}, `${plural(rows.length, "candidate")} compared`), table("Candidates", headings, rows), failed.length ? h("ul", {}, failed) : null);
}

function versionTable({ regressors: versions, next_page_token: next }, publish) {
  const headings = [{ text: "Version", number: true }, { text: "Fitted" }, { text: "Runs", number: true }, { text: "Typical error", number: true }, { text: "Publish", hidden: true }];
  const rows = versions.map((version) => {
    const error = headlineAccuracy(version.accuracy_by_axis);
    const action = version.published
      ? h("span", { class: "badge good" }, "published")
      : h("button", { type: "button", class: "link", "aria-label": `Publish version ${version.version}`, onclick: (event) => publish(version.version, event.target) }, "Publish");
    return [String(version.version), timeNode(version.created_at), number(version.runs_used), error ? percent(error.mape) : "–", action];
  });
  const summary = next ? `the newest ${rows.length} versions` : plural(rows.length, "version");
  return h("details", {}, h("summary", {}, summary), table("Versions", headings, rows));
}

function origin(regressor) {
  const libraries = Object.entries(regressor.library_versions).map(([name, version]) => `${name} ${version}`).join(", ");
  return h(
    "p",
    { class: "quiet" },
    `Version ${regressor.version}, fitted `, timeNode(regressor.created_at), ` on ${plural(regressor.runs_used, "run")} of ${plural(regressor.configurations_used, "configuration")}; training set `,
    h("code", { title: regressor.training_fingerprint }, regressor.training_fingerprint.slice(0, 12)), `; ${libraries}.`,
  );
}

/** Show the card; `whenPublished` is called after another version was published. */
export const showRegressor = latest(async (signal, detail, whenPublished) => {
  const place = byId("card");
  const path = `${workloadPath(detail.workload)}/regressors`;
  const publish = async (version, button) => {
    button.disabled = true;
    try {
      await request(`${path}/${version}:publish`, { method: "POST" });
      whenPublished();
    } catch (error) {
      button.replaceWith(problemPanel(error));
    }
  };
  try {
    const newest = await get(path, { page_size: 20 }, { signal });
    const published = newest.regressors.find((regressor) => regressor.published) ?? (await get(`${path}/${detail.published_version}`, {}, { signal }));
    fill(place, h("div", { class: "columns" }, accuracyList(published), coverageList(published)), candidates(published), versionTable(newest, publish), origin(published));
  } catch (error) {
    if (!signal.aborted) fill(place, problemPanel(error));
  }
});
