/** Shows a forecast as a sentence, with its basis and its warnings. */

import { get } from "./api.js";
import { h } from "./dom.js";
import { chance, duration, durationNode, durationRoundedUp, hardware, isolated, label, moneyNode, number, percent, plural, someOf } from "./format.js";

export const BASES = {
  measured: { text: "measured", tone: "good", meaning: "this configuration was measured" },
  interpolated: { text: "interpolated", tone: "good", meaning: "inside the measured range" },
  extrapolated: { text: "extrapolated", tone: "careful", meaning: "beyond the measured range" },
  transferred: { text: "transferred", tone: "careful", meaning: "few or no runs with this type or setting: learned from others" },
  prior: { text: "prior", tone: "doubtful", meaning: "hardly anything similar was measured" },
};

export function basisBadge(basis) {
  const style = BASES[basis] ?? { text: basis, tone: "", meaning: "" };
  return h("span", { class: `badge ${style.tone}`, title: style.meaning }, style.text);
}

function sentence(forecast) {
  const band = forecast.duration_seconds;
  const cost = forecast.cost;
  const money = cost
    ? [" and cost about ", h("strong", {}, moneyNode(cost.median, cost.currency))]
    : [];
  const interval = cost
    ? [" (", moneyNode(cost.lower, cost.currency), " to ", moneyNode(cost.upper, cost.currency), ")"]
    : [];
  return h(
    "div",
    { class: "sentence" },
    h("p", { class: "big" }, h("span", { class: "hardware" }, hardware(forecast.configuration)), " would take about ", h("strong", {}, durationNode(band.median)), ...money, "."),
    h("p", {}, `With ${percent(band.confidence)} confidence a new run takes `, durationNode(band.lower), " to ", durationNode(band.upper), ...interval, "."),
  );
}

function priceText(cost) {
  const { price } = cost;
  const unit = price.instance_type ?? price.gpu_type;
  const place = [price.provider, price.region].filter(Boolean).join(" ");
  const rate = moneyNode(cost.price_per_hour, cost.currency);
  const source = price.source === "inline" ? "as entered" : `${price.source}, ${price.valid_from.slice(0, 10)}`;
  const instances = unit ? `${number(price.instances)} × ${[place, unit].filter(Boolean).join(" ")}` : plural(price.instances, "worker");
  const perHour = price.instances > 1 || price.others.length ? " an hour each" : " an hour";
  const others = price.others.flatMap((other) => [` and ${number(other.instances)} × ${other.instance_type} at `, moneyNode(other.price_per_hour, cost.currency)]);
  const from = cost.conversion;
  const listed = from ? [", converted from ", moneyNode(from.listed_price_per_hour, from.from_currency), ` at ${number(Number(from.rate))} (${from.source})`] : [];
  return h("span", {}, `${instances} at `, rate, ...others, `${perHour}, ${price.purchase.replace("_", " ")} (${source})`, ...listed);
}

/** What the basis means, naming the types or settings that few or no runs have. */
function meaning({ support, basis }) {
  const levels = [...support.unseen_levels, ...support.rare_levels];
  if (basis !== "transferred" || !levels.length) return BASES[basis]?.meaning ?? "";
  const listed = levels.map((level) => `${label(level.name)} ${isolated(level.value ?? "not given")}`).join(", ");
  return `few or no runs with ${listed}: learned from others`;
}

function supportText(forecast) {
  const { support } = forecast;
  const parts = [`${meaning(forecast)}; ${plural(support.runs_used, "run")}, version ${forecast.regressor_version}`];
  if (support.pooled_from.length) parts.push(`also learned from ${someOf(support.pooled_from, "workload")}`);
  return parts.join("; ");
}

/** Replace a run's identifier by the name under which it was uploaded, once that is known. */
async function nameRun(node, runId) {
  try {
    const { external_id: name } = await get(`/v1/runs/${runId}`);
    if (name) node.textContent = name;
  } catch {
    // The run may have been removed since the fit: its identifier remains.
  }
}

/** Name the runs with the most influence on a forecast, and the effect of 1 % more time there. */
function lessons(taughtBy) {
  const nodes = taughtBy.map(({ run_ids, influence, about }) => {
    const change = `${influence > 0 ? "+" : ""}${Number(influence.toPrecision(2))}%`;
    const title = `${run_ids.join(", ")}: 1% more time there is ${change} here, through ${label(about)}`;
    const name = h("span", { class: "run-name" }, run_ids[0]);
    nameRun(name, run_ids[0]);
    return h("span", { class: "lesson", title }, name, ` (${label(about)})`);
  });
  return h("span", {}, nodes.flatMap((node, index) => (index ? [", ", node] : [node])));
}

const PRICE_FIELDS = "“Price, limits, confidence”";
/** Why carbon is unknown where the power is known, and what to do on this page. */
export const NO_FACTOR = `No grid factor is known for its place: name provider and region under ${PRICE_FIELDS}, or have the factor stored in the service.`;

/** Return the energy and, if a grid factor is known, the carbon; null if no power is known. */
function energyText(energy) {
  if (!energy?.kilowatt_hours) return null;
  const amount = `${number(Number(energy.kilowatt_hours.toPrecision(3)))} kWh`;
  if (energy.kg_co2e === null || energy.kg_co2e === undefined) return h("span", { title: NO_FACTOR }, amount);
  const source = energy.grid_factor?.source ?? "as entered";
  const title = `${number(energy.kg_co2e_per_kwh)} kg CO2e a kWh (${source})`;
  return h("span", { class: "carbon", title }, `${amount}, ${carbonText(energy)}`);
}

/** Return the carbon of a forecast's energy, a dash if no grid factor is known. */
export function carbonText(energy) {
  const mass = energy?.kg_co2e;
  return mass === null || mass === undefined ? "–" : `${number(Number(mass.toPrecision(3)))} kg CO2e`;
}

function facts(forecast) {
  const target = forecast.to_target;
  const odds = forecast.probability ?? {};
  const lines = [
    ["Basis", h("span", {}, basisBadge(forecast.basis), " ", supportText(forecast))],
    ["Safe time limit", durationNode(forecast.time_limit_seconds, durationRoundedUp)],
  ];
  if (forecast.cost) lines.splice(1, 0, ["Price", priceText(forecast.cost)]);
  if (odds.deadline !== null && odds.deadline !== undefined) lines.push(["Ends in time", chance(odds.deadline)]);
  if (odds.budget !== null && odds.budget !== undefined) lines.push(["Keeps the budget", chance(odds.budget)]);
  const memory = forecast.feasibility?.fits_probability;
  if (memory !== null && memory !== undefined) lines.push(["Fits into memory", `${chance(memory)} (${forecast.feasibility.basis})`]);
  const energy = energyText(forecast.energy);
  if (energy) lines.push([forecast.energy.basis === "data_sheet" ? "Energy, at most" : "Energy", energy]);
  if (target) {
    const band = target.duration_seconds;
    const epochs = plural(Number(target.epochs.median.toPrecision(3)), "epoch");
    const cost = target.cost ? [", ", moneyNode(target.cost.median, target.cost.currency)] : [];
    lines.push(["To the target", h("span", {}, durationNode(band.median), ` (${bandText(band)}), ${epochs}`, ...cost)]);
  }
  if (forecast.explanation?.length) {
    lines.push(["Where the time goes", forecast.explanation.map((part) => `${label(part.term)} ${chance(part.share)}`).join(", ")]);
  }
  if (forecast.taught_by?.length) lines.push(["Most influential runs", lessons(forecast.taught_by)]);
  return h("dl", { class: "facts-list" }, lines.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

const OWN_PRICE = `your own price per hour under ${PRICE_FIELDS}`;

/** Remedies in terms of this page, instead of those in terms of the API. */
export const REMEDIES = {
  currency_not_converted: `Enter ${OWN_PRICE}, or have the exchange rate stored in the service.`,
  durations_shifted: "When there are enough newer runs, have the service fit these alone.",
  outliers_nearby: "They count less; have the service exclude them if something went wrong there.",
  price_unknown: `Enter ${OWN_PRICE}.`,
  stale_exchange_rate: "Have the current rate stored in the service.",
  stale_grid_factor: "Have the current factor stored in the service.",
  stale_price: `Check it with the provider, or enter ${OWN_PRICE}.`,
};

/** Return the warnings of a forecast, each with its remedy. */
function warningList(warnings) {
  return warnings.map(({ code, message, remedy }) =>
    h("p", { class: "warning", "data-code": code }, `${message} `, h("span", { class: "remedy" }, REMEDIES[code] ?? remedy)),
  );
}

/** Return the panel of a forecast; `actions` are buttons below it. */
export function answerPanel(forecast, ...actions) {
  return h(
    "div",
    { class: "answer", "data-seconds": forecast.duration_seconds.median },
    sentence(forecast),
    ...warningList(forecast.warnings),
    facts(forecast),
    h("div", { class: "actions" }, actions),
  );
}

/** Return what stands in place of a chart as long as its question has no answer. */
export const unanswered = () => h("p", { class: "quiet" }, "Drawn once the question above is answered.");

/** Return a band in a few characters. */
export const bandText = (band) => `${duration(band.lower)} – ${duration(band.upper)}`;
