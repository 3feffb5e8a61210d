/** The page of one workload: what-ifs and their charts, fits, the regressor and its runs. */

import { get, latest, workloadPath } from "./api.js";
import { answerPanel } from "./answer.js";
import { installChoices } from "./choices.js";
import { Comparison } from "./comparison.js";
import { installCurve } from "./curve.js";
import { byId, debounced, fill, h } from "./dom.js";
import { Fitting } from "./fitting.js";
import { percent, plural, timeNode } from "./format.js";
import { isKept } from "./kept.js";
import { currentKey } from "./key.js";
import { problemPanel } from "./problem.js";
import { addressOf, buildQuestion, queryOf, questionOf, readFields, writeFields } from "./question.js";
import "./readiness.js";
import { headlineAccuracy, showRegressor } from "./regressor.js";
import { whenShownAgain } from "./returning.js";
import { showRuns } from "./runs.js";

const RUNS = 10;
const workload = byId("main").dataset.workload;
const path = workloadPath(workload);
const form = byId("question");
const comparison = new Comparison(byId("comparison"), workload);
let sections = null;
let newest = null;
let fitting = null;
let asked = null;
/** The versions that the page has told of: one that answers for the first time was published meanwhile. */
const toldVersions = new Set();

/** Read the newest runs, once: the first question and the list show the same ones. */
const newestRuns = () => (newest ??= get(`${path}/runs`, { page_size: RUNS }));

function facts(detail) {
  const all = Object.values(detail.runs).reduce((sum, count) => sum + count, 0);
  const { regressor } = detail;
  const error = regressor ? headlineAccuracy(regressor.accuracy) : null;
  const parts = [
    detail.description || null,
    plural(all, "run"),
    detail.dataset_unit ? `dataset in ${detail.dataset_unit}` : null,
    regressor ? h("span", {}, `version ${regressor.version}, fitted `, timeNode(regressor.fitted_at)) : "no regressor published yet",
    error ? h("span", { title: String(error.mape) }, `typical error ${percent(error.mape)}`) : null,
  ].filter(Boolean);
  fill(byId("facts"), parts.map((part) => h("span", {}, part)));
}

function curlLine(fields) {
  const query = new URLSearchParams(queryOf(fields)).toString();
  const key = currentKey() ? " -H 'Authorization: Bearer KEY'" : "";
  const line = `curl${key} -H 'Accept: text/plain' '${location.origin}${path}/forecast?${query}'`;
  return h("details", { class: "curl" }, h("summary", {}, "The same by curl"), h("pre", { tabindex: "0" }, h("code", {}, line)));
}

/** Keep what the page was asked in its address, to send it or to come back to it. */
function keepAddress() {
  // A question that cannot be sent stays in the address as it was given.
  if (asked) history.replaceState(null, "", addressOf(form, { ...asked, ...sections.curve.asked(), ...sections.choices.asked() }));
}

const forecast = latest(async (signal) => {
  const fields = readFields(form);
  asked = fields;
  keepAddress();
  const place = byId("answer");
  place.setAttribute("aria-busy", "true");
  const answer = await get(`${path}/forecast`, { ...queryOf(fields), explain: true }, { signal });
  const add = h("button", { type: "button", class: "outline", id: "add", onclick: () => comparison.add(answer) }, "Add to comparison");
  fill(place, answerPanel(answer, add), curlLine(fields));
  sections.curve.draw(fields);
  sections.choices.search(fields, answer.cost !== null);
  // The facts may come from a process that does not know the version yet: each is asked for once.
  if (!toldVersions.has(answer.regressor_version)) {
    toldVersions.add(answer.regressor_version);
    show();
  }
});

/** Show an error, and remove the charts of the previous question, also those that are still on their way. */
function showUnanswered(error) {
  fill(byId("answer"), problemPanel(error));
  sections.curve.draw(null);
  sections.choices.search(null);
}

const ask = () => forecast().catch(showUnanswered);

/** Put a complete run or forecast into the question and ask it. */
function use(scenario) {
  if (!sections) return;
  writeFields(form, sections.questionOf(scenario));
  ask();
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
  byId("what-if").scrollIntoView({ behavior });
}

/** Ask the question in the address, else about the newest run that the regressor may have used. */
async function firstQuestion(detail, runs, address) {
  if (Object.keys(address).some((name) => !isKept(name))) return address;
  const fittedAt = detail.regressor.fitted_at;
  const isSeen = (candidate) => candidate.status === "succeeded" && !candidate.excluded && Date.parse(candidate.created_at) < Date.parse(fittedAt);
  const run = runs.find(isSeen) ?? (await newestSeenRun(fittedAt)) ?? runs[0];
  return run ? questionOf(detail, run) : {};
}

async function newestSeenRun(fittedAt) {
  const page = await get(`${path}/runs`, { page_size: 1, status: "succeeded", excluded: false, created_before: fittedAt });
  return page.runs[0];
}

async function knownGpus(detail) {
  if (!detail.features.gpu_type) return [];
  const { gpus } = await get("/v1/gpus").catch(() => ({ gpus: [] }));
  return gpus.map((gpu) => gpu.gpu_type).sort();
}

/** What the sections offer and tell is what was measured: it changes with the runs. */
const featuresOf = (detail) => JSON.stringify(detail.features);

function installSections(workload, gpus, question, address) {
  // Answers to the sections before must not come late.
  sections?.curve.draw(null);
  sections?.choices.search(null);
  // The address may ask for another currency than the workload's.
  const detail = { ...workload, currency: question.currency || workload.currency };
  buildQuestion(form, detail, gpus, question, debounced(ask, 150));
  const curve = installCurve(detail, address, keepAddress);
  const choices = installChoices(detail, gpus, address, { use, onChange: keepAddress });
  sections = { curve, choices, questionOf: (scenario) => questionOf(detail, scenario), features: featuresOf(detail) };
}

function showUnfitted(runs) {
  const needs = runs ? "A fit takes seconds." : "Upload runs first.";
  fill(byId("problem"), h("article", { class: "empty" }, h("h2", { class: "panel-title" }, "No regressor is published yet"), h("p", {}, `${plural(runs, "finished run")} stored. ${needs}`)));
}

const refresh = latest(async (signal) => {
  const detail = await get(path, {}, { signal });
  const isFitted = Boolean(detail.regressor);
  facts(detail);
  for (const id of ["what-if", "scaling", "choices", "regressor"]) byId(id).hidden = !isFitted;
  byId("recent").hidden = false;
  if (!isFitted) showUnfitted(detail.runs.succeeded ?? 0);
  else {
    toldVersions.add(detail.regressor.version);
    fill(byId("problem"));
    if (sections?.features !== featuresOf(detail)) {
      const [gpus, { runs }] = await Promise.all([knownGpus(detail), newestRuns()]);
      const address = Object.fromEntries(new URLSearchParams(location.search));
      const question = await firstQuestion(detail, runs, address);
      if (signal.aborted) return undefined;
      installSections(detail, gpus, question, address);
    }
    ask();
    showRegressor(detail, show);
  }
  return detail;
});

async function show() {
  newest = null;
  try {
    const [detail, runs] = await Promise.all([refresh(), newestRuns()]);
    if (!detail) return;
    showRuns(workload, runs, use);
    fitting ??= new Fitting(detail, show);
  } catch (error) {
    fill(byId("problem"), problemPanel(error, h("a", { href: "/", role: "button", class: "secondary" }, "All workloads")));
  }
}

whenShownAgain(show);
await show();
