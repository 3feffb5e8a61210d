/** The what-if form: its fields come from the workload's measured features. */

import { get, latest } from "./api.js";
import { NONE, VERBATIM, field, fill, h, offer, select } from "./dom.js";
import { label, number, percent } from "./format.js";
import { checkNumbers, withAddressValue } from "./numbers.js";

const WORK = ["dataset_size", "batch_size", "epochs"];
const PURCHASES = [["", "on demand"], ["spot", "spot"], ["reserved", "reserved"], ["owned", "owned"]];
const CONFIDENCES = [0.5, 0.8, 0.9, 0.95, 0.99];
const PRICING = ["provider", "region", "price_per_hour", "currency"];
const HARDWARE = ["gpu_type", "instance_type", "provider", "region", "purchase", "nodes"];
// The service accepts only digits here, browsers also 1e3.
const COUNTS = ["workers", "nodes"];
const isFilledIn = (name) => ["gpu_type", "workers", ...WORK].includes(name) || name.startsWith("param.");
const HOUR = 3600;

/** Hours that no deadline reaches: the limit of the field. */
export const MAX_HOURS = 1e8;

const measured = (feature, unit) => {
  if (!feature) return null;
  const range = feature.min === feature.max ? number(feature.min) : `${number(feature.min)} to ${number(feature.max)}`;
  return `measured: ${range}${unit ? ` ${unit}` : ""}`;
};

const numberInput = (name, value, attributes = {}) =>
  withAddressValue(h("input", { type: "number", name, min: "0", step: "any", inputmode: "decimal", ...attributes, value: value ?? "" }), value ?? "");

const count = (name, value, attributes = {}) => numberInput(name, value, { min: "1", step: "1", inputmode: "numeric", ...attributes });

// The decimal keys of an iPhone have no minus.
const SIGNED = { min: null, inputmode: null };

/** Return the option to leave a category open, if measured runs do so too. */
const openChoice = (feature, all) => (feature && feature.runs < all ? [["", NONE]] : []);

function gpuField(feature, all, gpus, chosen) {
  if (!feature && !chosen) return null;
  const values = feature?.values ?? [];
  const known = gpus.filter((name) => !values.includes(name));
  const groups = [{ label: "Measured", options: [...values.map((name) => [name, name]), ...openChoice(feature, all)] }];
  if (known.length) groups.push({ label: "Known by data sheet", options: known.map((name) => [name, name]) });
  return field("GPU", select("gpu_type", groups, chosen ?? values[0]), null, "wide");
}

function instanceField(feature, chosen) {
  const input = h("input", { name: "instance_type", list: "instances", autocomplete: "off", ...VERBATIM, placeholder: "any", value: chosen ?? "" });
  const options = (feature?.values ?? []).map((value) => h("option", { value }));
  return [field("Instance type", input, null, "wide"), h("datalist", { id: "instances" }, options)];
}

function parameterField(name, feature, all, chosen, unit) {
  if (feature.type === "number") return field(label(name), numberInput(name, chosen ?? feature.max, SIGNED), measured(feature, unit));
  return field(label(name), select(name, [...feature.values.map((value) => [value, value]), ...openChoice(feature, all)], chosen ?? feature.values[0]));
}

/** Return the choice of a confidence, also of another one that the address asks for. */
function confidenceField(asked) {
  const levels = new Set([...CONFIDENCES, ...(Number(asked) ? [Number(asked)] : [])]);
  return field("Confidence", select("confidence", [...levels].map((level) => [level, percent(level)]), Number(asked) || asked));
}

/** Return seconds in hours; anything that is not a number is returned unchanged. */
const hoursOf = (seconds) => (Number(seconds) ? Number(seconds) / HOUR : seconds);

function priceFields(currency, chosen) {
  const text = (name, list) => h("input", { name, list, autocomplete: "off", ...VERBATIM, placeholder: "any", value: chosen[name] ?? "" });
  const own = numberInput("price_per_hour", chosen.price_per_hour, { placeholder: "from the price list" });
  return h(
    "details",
    { open: Boolean(chosen.price_per_hour || chosen.provider || chosen.region || chosen.deadline_s || chosen.budget) },
    h("summary", {}, "Price, limits, confidence"),
    h(
      "div",
      { class: "grid-fields" },
      field("Purchase", select("purchase", PURCHASES, chosen.purchase === "on_demand" ? "" : chosen.purchase)),
      confidenceField(chosen.confidence ?? 0.9),
      field("Provider", text("provider", "providers")),
      field("Region", text("region", "regions")),
      field(`Own price per hour (${currency})`, own, "of one instance where one is named, else of one worker", "wide"),
      field("Deadline (hours)", numberInput("deadline_h", hoursOf(chosen.deadline_s), { max: MAX_HOURS })),
      field(`Budget (${currency})`, numberInput("budget", chosen.budget)),
    ),
    h("datalist", { id: "providers" }),
    h("datalist", { id: "regions" }),
  );
}

/** Fill the form; `chosen` holds the initial flat fields, `onChange` is called for each change. */
export function buildQuestion(form, detail, gpus, chosen, onChange) {
  const features = detail.features;
  const all = features.workers?.runs ?? 0;
  const nodes = (features.nodes?.max ?? 1) > 1 || !["", "1"].includes(String(chosen.nodes ?? ""));
  fill(
    form,
    h(
      "div",
      { class: "grid-fields" },
      gpuField(features.gpu_type, all, gpus, chosen.gpu_type),
      features.gpu_type || features.instance_type ? instanceField(features.instance_type, chosen.instance_type) : null,
      field("Workers", count("workers", chosen.workers ?? features.workers?.max ?? 1), measured(features.workers)),
      nodes ? field("Nodes", count("nodes", chosen.nodes, { placeholder: "as measured" }), measured(features.nodes)) : null,
      ...WORK.filter((name) => features[name]).map((name) =>
        field(label(name), numberInput(name, chosen[name] ?? features[name].max), measured(features[name], name === "dataset_size" ? detail.dataset_unit : null)),
      ),
      ...Object.keys(features).filter((name) => name.startsWith("param.")).map((name) =>
        parameterField(name, features[name], all, chosen[name], detail.parameters[name.slice(6)]?.unit),
      ),
    ),
    priceFields(detail.currency, chosen),
    h("div", { class: "actions" }, h("button", { type: "submit" }, "Forecast")),
  );
  form.dataset.currency = chosen.currency ?? "";
  form.dataset.money = detail.currency;
  form.onsubmit = (event) => {
    event.preventDefault();
    onChange();
  };
  form.onchange = (event) => {
    if (event.target.name === "gpu_type") suggestPrices(form, detail);
    // They belonged to another number of workers: left open, they are filled in as measured.
    if (event.target.name === "workers") writeFields(form, { nodes: "" });
    onChange();
  };
  suggestPrices(form, detail);
}

/** Offer the instances, providers and regions of the price list for the chosen GPU, and the measured instances. */
const suggestPrices = latest(async (signal, form, detail) => {
  const gpu = form.elements.gpu_type?.value;
  if (!gpu) return;
  try {
    const { prices } = await get("/v1/prices", { gpu_type: gpu, page_size: 200 }, { signal });
    const measured = { instance_type: detail.features.instance_type?.values ?? [] };
    const names = (member) => [...new Set([...(measured[member] ?? []), ...prices.map((price) => price[member]).filter(Boolean)])].sort();
    for (const [list, member] of [["instances", "instance_type"], ["providers", "provider"], ["regions", "region"]]) {
      const place = form.querySelector(`#${list}`);
      if (place) fill(place, names(member).map((value) => h("option", { value })));
    }
  } catch {
    // These are only suggestions: the question works without them.
  }
});

/** Return the flat fields of the form; a number that cannot be sent is refused. */
export function readFields(form) {
  checkNumbers(form);
  const fields = {};
  for (const [name, value] of new FormData(form)) if (value !== "") fields[name] = COUNTS.includes(name) ? String(Number(value)) : value;
  if (fields.deadline_h) fields.deadline_s = String(Number(fields.deadline_h) * HOUR);
  delete fields.deadline_h;
  const currency = form.dataset.currency || (fields.price_per_hour && form.dataset.money);
  if (currency) fields.currency = currency;
  return fields;
}

/** Return the query of the page's address; what was left open is empty in it, or the page would fill it in. */
export function addressOf(form, fields) {
  const open = [...new FormData(form).keys()].filter((name) => isFilledIn(name) && !(name in fields));
  return `?${new URLSearchParams([...Object.entries(fields), ...open.map((name) => [name, ""])])}`;
}

const LISTED = /,|^\s*".*"\s*$/s;

/** Return flat fields for a query: a value that would be read as a list is quoted, like a CSV cell. */
export function queryOf(fields) {
  const quoted = (value) => (LISTED.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, quoted(value)]));
}

/** Write flat fields into the form; other fields are unchanged. */
export function writeFields(form, fields) {
  for (const [name, value] of Object.entries(fields)) {
    const control = form.elements[name];
    if (!control) continue;
    if (control.tagName === "SELECT") offer(control, value);
    control.value = value;
  }
}

/** Return the flat fields of a run or a forecast. */
export function fieldsOf({ configuration, work, parameters }) {
  const named = Object.entries(parameters ?? {}).map(([name, value]) => [`param.${name}`, value]);
  const all = { ...configuration, ...work, ...Object.fromEntries(named) };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null && value !== undefined));
}

/** Return the flat fields that describe a run or forecast completely: absent ones are empty. */
export function questionOf(detail, scenario) {
  const parameters = Object.keys(detail.features).filter((name) => name.startsWith("param."));
  const empty = [...HARDWARE, ...WORK, ...parameters].map((name) => [name, ""]);
  const fields = { ...Object.fromEntries(empty), ...fieldsOf(scenario) };
  return { ...fields, purchase: fields.purchase === "on_demand" ? "" : fields.purchase };
}

/** Return the body of a request about the same work, for the routes that take documents. */
export function documentOf(detail, fields) {
  const document = { workload: detail.workload, work: {}, pricing: {} };
  const parameters = new Map();
  for (const [name, value] of Object.entries(fields)) {
    if (WORK.includes(name)) document.work[name] = Number(value);
    else if (name.startsWith("param.")) {
      const isNumber = detail.features[name]?.type === "number";
      parameters.set(name.slice(6), isNumber ? Number(value) : value);
    } else if (PRICING.includes(name)) document.pricing[name] = value;
  }
  // Assigned one by one, a parameter called __proto__ would be lost.
  return { ...document, parameters: Object.fromEntries(parameters) };
}
