/** Compares many configurations for the same work: cost against duration, and the best ones. */

import { NO_FACTOR, REMEDIES, basisBadge, bandText, carbonText, unanswered } from "./answer.js";
import { latest, post } from "./api.js";
import { axis, draw, scaleOf, tooltip } from "./chart.js";
import { byId, debounced, field, fill, h, select, table } from "./dom.js";
import { duration, durationNode, durationTick, hardware, money, moneyNode, moneyTick, number, plural, roundedUp } from "./format.js";
import { keptOf, writeKept } from "./kept.js";
import { checkNumbers } from "./numbers.js";
import { problemPanel } from "./problem.js";
import { MAX_HOURS, documentOf } from "./question.js";

const OBJECTIVES = [["cost", "cheapest"], ["duration", "fastest"], ["cost_duration_product", "best cost × time"], ["energy", "least energy"], ["carbon", "least carbon"]];
const PURCHASES = [["on_demand", "on demand"], ["spot", "spot"], ["reserved", "reserved"]];
const REASONS = {
  deadline: "too late", budget: "too expensive", out_of_memory: "out of memory", beyond_range: "beyond the measured range",
  price_unknown: "no price known", energy_unknown: "no energy known", carbon_unknown: "no grid factor known",
  exchange_rate_unknown: "no exchange rate known", spot_infeasible: "would never end on spot capacity",
};
/** Refusals of a GPU that the regressor does not know by its name. */
const UNKNOWN_NAMES = ["unknown_gpu", "ambiguous_gpu"];
const LIMIT = 300;
const SHOWN = 6;
const HOUR = 3600;
/** What the search is called in the page's address. */
const SECTION = "search";

/** Return the default maximum number of workers to search: four times the measured ones. */
const defaultMaxWorkers = (detail) => 2 ** Math.ceil(Math.log2((detail.features.workers?.max ?? 1) * 4));

function searchForm(form, detail) {
  const limit = (name, max) => h("input", { type: "number", name, min: "0", max, step: "any", inputmode: "decimal", placeholder: "no limit" });
  const measuredGpus = detail.features.gpu_type?.values ?? [];
  const maxWorkers = defaultMaxWorkers(detail);
  const hardware = measuredGpus.length
    ? field("GPUs", select("gpus", [["measured", "measured"], ["known", "all known"]]))
    : null;
  fill(
    form,
    field("Look for the", select("objective", OBJECTIVES)),
    hardware,
    field("Workers up to", h("input", { type: "number", name: "most", min: "1", step: "1", inputmode: "numeric", value: maxWorkers, placeholder: maxWorkers })),
    field("Purchase", select("purchase", PURCHASES)),
    field("Deadline (hours)", limit("deadline_h", MAX_HOURS)),
    field(`Budget (${detail.currency})`, limit("budget")),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "within" }), " only inside the measured range"),
  );
}

function workerCounts(maxWorkers) {
  const counts = [];
  for (let workers = 1; workers <= maxWorkers && counts.length < 20; workers *= 2) counts.push(workers);
  if (maxWorkers > 1 && !counts.includes(maxWorkers)) counts.push(maxWorkers);
  return counts;
}

function readSearch(form, detail, gpus, fields) {
  checkNumbers(form);
  const values = Object.fromEntries(new FormData(form));
  const search = { workers: workerCounts(Number(values.most || defaultMaxWorkers(detail))), purchase: [values.purchase] };
  const measured = detail.features.gpu_type?.values ?? [];
  const others = (values.gpus === "known" ? gpus : [fields.gpu_type]).filter((name) => name && !measured.includes(name));
  // Left unset, the search covers everything measured, including runs without a GPU.
  if (measured.length && others.length) search.gpu_types = [...measured, ...others];
  const document = {
    ...documentOf(detail, fields),
    search,
    objective: values.objective,
    confidence: Number(fields.confidence ?? 0.9),
    require_within_range: Boolean(values.within),
    limit: LIMIT,
  };
  if (values.deadline_h) document.deadline_s = Number(values.deadline_h) * HOUR;
  if (values.budget) document.budget = values.budget;
  return document;
}

/** Search; a GPU whose name runs have brought since the fit is left out, as where no names are sent. */
async function recommendationFor(document, options) {
  try {
    return await post("/v1/recommendations", document, options);
  } catch (error) {
    const names = document.search.gpu_types ?? [];
    const refused = (error.document?.errors ?? []).map((fault) => fault.value);
    const others = names.filter((name) => !refused.includes(name));
    if (!UNKNOWN_NAMES.includes(error.code) || others.length === names.length) throw error;
    return recommendationFor({ ...document, search: { ...document.search, gpu_types: others } }, options);
  }
}

const pointOf = (forecast) => ({
  value: [forecast.duration_seconds.median, Number(forecast.cost.median)],
  forecast,
});

function tipLines({ data }) {
  const forecast = data?.forecast;
  if (!forecast) return null;
  const { cost, duration_seconds: band } = forecast;
  return [hardware(forecast.configuration), `${duration(band.median)} (${bandText(band)})`, `${money(cost.median, cost.currency)} (${money(cost.lower, cost.currency)} – ${money(cost.upper, cost.currency)})`, forecast.basis];
}

function options(all, front, best, colours) {
  const currency = all[0].cost.currency;
  const dot = (size, colour, opacity) => ({ symbolSize: size, itemStyle: { color: colour, opacity, borderColor: colours.surface, borderWidth: 1 } });
  return {
    grid: { left: 74, right: 20, top: 34, bottom: 56 },
    xAxis: axis(colours, { ...scaleOf(all.map((forecast) => forecast.duration_seconds.median), true), name: "duration", nameGap: 36, axisLabel: { formatter: durationTick, margin: 14 } }),
    yAxis: axis(colours, { ...scaleOf(all.map((forecast) => Number(forecast.cost.median)), false), name: "cost", nameLocation: "end", nameGap: 12, nameTextStyle: { color: colours.text, align: "right" }, axisLabel: { formatter: (value) => moneyTick(value, currency) } }),
    tooltip: tooltip(colours, "item", tipLines),
    series: [
      { name: "all", type: "scatter", data: all.map(pointOf), ...dot(9, colours.points, 0.45) },
      { name: "front", type: "line", data: front.map(pointOf), symbol: "circle", ...dot(10, colours.main, 1), lineStyle: { color: colours.main, width: 2 } },
      { name: "best", type: "scatter", data: best?.cost?.currency === currency ? [pointOf(best)] : [], ...dot(18, colours.accent, 1), symbol: "diamond", z: 5 },
    ],
  };
}

/** Return where a configuration is bought, as far as known. */
const placeOf = ({ configuration }) => [configuration.provider, configuration.region].filter(Boolean).join(" ");

function rankedTable(forecasts, use) {
  const hasCarbon = forecasts.some((forecast) => carbonText(forecast.energy) !== "–");
  const carbon = hasCarbon ? [{ text: "Carbon", number: true }] : [];
  const headings = [{ text: "Configuration", keep: true }, { text: "Duration", number: true }, { text: "Band", keep: true }, { text: "Cost", number: true }, ...carbon, { text: "Basis" }, { text: "Ask", hidden: true }];
  const kinds = forecasts.map((forecast) => hardware(forecast.configuration));
  const isRepeated = new Set(kinds).size < kinds.length;
  const rows = forecasts.map((forecast) => [
    h("span", {}, hardware(forecast.configuration), isRepeated ? h("small", { class: "description" }, placeOf(forecast)) : null),
    durationNode(forecast.duration_seconds.median),
    bandText(forecast.duration_seconds),
    forecast.cost ? moneyNode(forecast.cost.median, forecast.cost.currency) : "–",
    ...(hasCarbon ? [carbonText(forecast.energy)] : []),
    basisBadge(forecast.basis),
    h("button", { type: "button", class: "link", "aria-label": `Ask about ${hardware(forecast.configuration)}`, onclick: () => use(forecast) }, "Ask"),
  ]);
  return table("The best configurations", headings, rows);
}

function rejections(recommendation) {
  if (!recommendation.rejected_count) return null;
  const parts = Object.entries(recommendation.rejected_by_reason).map(([reason, count]) => `${number(count)} ${REASONS[reason] ?? reason}`);
  return h("p", { class: "quiet" }, `${plural(recommendation.considered, "configuration")} considered, ${number(recommendation.rejected_count)} set aside: ${parts.join(", ")}.`);
}

/** What would have to change, by the constraint: in the form's words and units, and rounded up so that it suffices. */
const CHANGES = {
  deadline_s: ({ asked, needed }) => `The deadline would have to be ${plural(roundedUp(needed / HOUR), "hour")} instead of ${number(asked / HOUR)}.`,
  budget: ({ asked, needed }, currency) => `The budget would have to be ${number(needed)} ${currency} instead of ${number(asked)}.`,
  require_within_range: () => "It lies beyond the measured range: measure it, or untick “only inside the measured range”.",
  "pricing.price_per_hour": ({ needed }, currency) => {
    const limit = needed === null ? "" : ` Up to ${number(needed)} ${currency} an hour would keep the budget.`;
    return `No price is known for it. ${REMEDIES.price_unknown}${limit}`;
  },
  "pricing.currency": ({ asked, needed }) => `Its price is in ${needed}, and no exchange rate to ${asked} is known. ${REMEDIES.currency_not_converted}`,
  "energy.watts_per_worker": () => "Its power is not known: upload runs that tell their energy (resource.energy_joules).",
  "energy.kg_co2e_per_kwh": () => NO_FACTOR,
};

function changeTexts(changes, currency) {
  // The amounts are in the currency of a price that no rate converts.
  const money = changes.find(({ constraint }) => constraint === "pricing.currency")?.needed ?? currency;
  return changes.map((change) => CHANGES[change.constraint]?.(change, money) ?? change.message).join(" ");
}

function nothingQualifies(recommendation, currency) {
  const { nearest } = recommendation;
  const text = nearest
    ? `The nearest: ${hardware(nearest.forecast.configuration)}. ${changeTexts(nearest.changes, currency)}`
    : "Enter a price of your own, or search among other hardware.";
  return h("article", { class: "warning" }, h("strong", {}, "Nothing meets this. "), text);
}

function verdict(best, objective) {
  const words = Object.fromEntries(OBJECTIVES);
  const { cost, duration_seconds: band } = best;
  return h("p", { class: "big" }, `The ${words[objective]}: `, h("strong", {}, hardware(best.configuration)), ", ", durationNode(band.median), cost ? [", ", moneyNode(cost.median, cost.currency)] : [], ".");
}

/** Return those of the priced forecasts that one chart can show: amounts of other currencies cannot be compared. */
function comparable(priced, front) {
  const currency = (front[0] ?? priced[0])?.cost.currency;
  return priced.filter((forecast) => forecast.cost.currency === currency);
}

/** Tell how many forecasts the chart leaves out since their currency is another one. */
function notDrawn(priced, drawn) {
  const count = priced.length - drawn.length;
  if (!count) return null;
  const currencies = [...new Set(priced.filter((forecast) => !drawn.includes(forecast)).map((forecast) => forecast.cost.currency))];
  return h("p", { class: "quiet" }, `Not drawn: ${plural(count, "configuration")} priced in ${currencies.join(", ")}, for which no exchange rate to ${drawn[0].cost.currency} is known.`);
}

/** Prepare the section with the search of an address; `use(fields)` puts a configuration into the what-if. Returns `search(question, hasPrice)`, whose question is null for one without an answer, and `asked()`, the fields of the search for the address, of which `onChange` tells. */
export function installChoices(detail, gpus, address, { use, onChange }) {
  const form = byId("search");
  const place = byId("front");
  const plot = h("div", { class: "plot", id: "front-plot" });
  let fields = null;
  searchForm(form, detail);
  const usual = Object.fromEntries(new FormData(form));
  let isTouched = writeKept(form, SECTION, address);

  const ask = latest(async (signal) => {
    if (!fields) {
      fill(place, unanswered());
      return;
    }
    const recommendation = await recommendationFor(readSearch(form, detail, gpus, fields), { signal });
    const ranked = recommendation.ranked.map((entry) => entry.forecast);
    const front = recommendation.pareto.map((entry) => entry.forecast).filter((forecast) => forecast.cost);
    const priced = ranked.filter((forecast) => forecast.cost);
    const drawn = comparable(priced, front);
    const free = priced.length && priced.every((forecast) => Number(forecast.cost.median) === 0) ? h("p", { class: "quiet" }, "All of these cost nothing: only the time tells them apart.") : null;
    const unpriced = ranked.length && !priced.length ? h("p", { class: "warning" }, "No price is known for these; ", h("span", { class: "remedy" }, "enter your own price per hour in the question above.")) : null;
    fill(
      place,
      ranked.length ? verdict(ranked[0], recommendation.objective) : nothingQualifies(recommendation, detail.currency),
      unpriced,
      free,
      priced.length ? [plot, h("ul", { class: "legend", "aria-hidden": "true" }, h("li", { class: "median" }, "Pareto front"), h("li", { class: "others" }, "other configurations"), h("li", { class: "best" }, "recommended")), notDrawn(priced, drawn)] : null,
      ranked.length ? rankedTable(ranked.slice(0, SHOWN), use) : null,
      rejections(recommendation),
    );
    if (priced.length) {
      const qualified = recommendation.considered - recommendation.rejected_count;
      const some = `${drawn.length < qualified ? `${number(drawn.length)} of ` : ""}${plural(qualified, "configuration")}`;
      const text = `Cost against duration of ${some}, ${front.length} of them on the Pareto front; the best are in the table below.`;
      await draw(plot, text, (colours) => options(drawn, front, ranked[0], colours));
    }
  });
  const show = () => ask().catch((error) => fill(place, problemPanel(error)));
  const change = () => {
    isTouched = true;
    onChange();
    show();
  };
  form.onchange = change;
  form.oninput = debounced(change, 600);
  form.onsubmit = (event) => {
    event.preventDefault();
    show();
  };
  const search = (question, hasPrice) => {
    fields = question;
    if (question && !isTouched) form.elements.objective.value = hasPrice ? "cost" : "duration";
    return show();
  };
  // The objective follows the prices until one is chosen.
  const asked = () => (isTouched ? keptOf(form, SECTION, { ...usual, objective: null }) : {});
  return { search, asked };
}
