/** The scaling curve: median, band, measured runs and cost along one axis. */

import { basisBadge, bandText, unanswered } from "./answer.js";
import { get, latest, workloadPath } from "./api.js";
import { axis, draw, linearScale, scaleOf, tooltip, widthOf } from "./chart.js";
import { byId, debounced, field, fill, h, select, table } from "./dom.js";
import { duration, durationTick, label, money, moneyNode, moneyTick, number, percent, plural, short } from "./format.js";
import { keptOf, writeKept } from "./kept.js";
import { checkNumbers } from "./numbers.js";
import { problemPanel } from "./problem.js";
import { queryOf } from "./question.js";

const WHOLE = ["workers", "nodes"];
const BEYOND = 4;
const TICKS = 12;
/** Pixels beside the plots, and between a label and its axis. */
const MIN_LEFT = 66;
const MIN_RIGHT = 16;
const LABEL_GAP = 12;
/** What the curve is called in the page's address. */
const SECTION = "curve";

/** Return a workload's axes: numeric features with several measured values. None may be negative, since the API draws only values above 0. */
function axesOf(detail) {
  const isUseful = ([name, { min, max }]) => name === "workers" || (min >= 0 && min < max);
  const useful = Object.entries(detail.features).filter(([, feature]) => feature.type === "number").filter(isUseful);
  const names = useful.map(([name]) => name).sort((a, b) => (b === "workers") - (a === "workers"));
  return names.includes("workers") ? names : ["workers", ...names];
}

/** Return the most nodes that the workers of a question can be on; runs that do not tell their workers tell no limit. */
function mostNodes({ features }, fields) {
  if (features.nodes.max > features.workers.max) return Infinity;
  return Math.max(Number(fields.workers ?? 1), Number(fields.nodes) || 1);
}

/** Return the range to draw, the number of points, and whether the axis is linear from 0, which it is if 0 was measured. Nodes begin where the API finds a GPU for each worker. */
function rangeOf(detail, over, fields) {
  const questionValue = fields[over];
  const feature = detail.features[over] ?? { min: 1, max: 1 };
  const highest = Math.max(feature.max, Number(questionValue) || 0);
  if (WHOLE.includes(over)) {
    const to = 2 ** Math.ceil(Math.log2(Math.max(highest * 2, feature.max * BEYOND, 8)));
    const most = over === "nodes" ? mostNodes(detail, fields) : Infinity;
    return { from: over === "nodes" ? null : 1, to: Math.min(to, most), points: 64, isLinear: false };
  }
  const to = highest * BEYOND;
  // The points have constant ratios, so many are needed for a curve that is even on a linear axis.
  if (feature.min === 0) return { from: highest / 1000, to, points: 160, isLinear: true };
  const lowest = questionValue > 0 ? Math.min(feature.min, Number(questionValue)) : feature.min;
  return { from: lowest / 2, to, points: 40, isLinear: false };
}

function seriesOf(curve, colours, questionValue) {
  const at = (member) => curve.points.map((point) => [point.value, point.forecast.duration_seconds[member]]);
  const lower = at("lower");
  const width = curve.points.map(({ value, forecast: { duration_seconds: band } }) => [value, band.upper - band.lower]);
  const bound = { type: "line", symbol: "none", lineStyle: { opacity: 0 }, stack: "band", silent: true, tooltip: { show: false } };
  const mark = questionValue === null ? undefined : {
    symbol: "none", silent: true, label: { show: false },
    lineStyle: { color: colours.accent, type: "dashed" }, data: [{ xAxis: questionValue }],
  };
  return [
    { ...bound, name: "lower", data: lower },
    { ...bound, name: "band", data: width, areaStyle: { color: colours.band, opacity: 1 } },
    { name: "median", type: "line", symbol: "circle", symbolSize: 4, showSymbol: curve.points.length < 20, data: at("median"), lineStyle: { color: colours.main, width: 2.5 }, itemStyle: { color: colours.main }, markLine: mark },
    { name: "measured", type: "scatter", data: curve.measured.map((run) => [run.value, run.duration_seconds]), symbolSize: 9, z: 4, itemStyle: { color: colours.points, opacity: 0.75, borderColor: colours.surface, borderWidth: 1 } },
  ];
}

function costSeries(curve, colours) {
  const costs = curve.points.filter((point) => point.forecast.cost);
  return {
    name: "cost", type: "line", xAxisIndex: 1, yAxisIndex: 1, symbol: "none",
    data: costs.map((point) => [point.value, Number(point.forecast.cost.median)]),
    lineStyle: { color: colours.accent, width: 2.5 }, itemStyle: { color: colours.accent },
  };
}

function tipLines(curve, parameters) {
  const value = parameters.find((parameter) => parameter.seriesName !== "measured")?.value?.[0] ?? parameters[0]?.value?.[0];
  const point = curve.points.find((candidate) => candidate.value === value);
  if (!point) return null;
  const { duration_seconds: band, cost } = point.forecast;
  const lines = [`${label(curve.over)} ${number(value)}`, `${duration(band.median)} (${bandText(band)})`];
  if (cost) lines.push(money(cost.median, cost.currency));
  if (point.efficiency !== null) lines.push(`speed-up ${number(Number(point.speed_up.toPrecision(3)))}, efficiency ${percent(point.efficiency)}`);
  const runs = curve.measured.filter((run) => run.value === value).map((run) => duration(run.duration_seconds));
  if (runs.length) lines.push(`measured: ${runs.slice(0, 5).join(", ")}${runs.length > 5 ? ", …" : ""}`);
  return lines;
}

function options(curve, questionValue, isLinear, colours) {
  const costs = curve.points.filter((point) => point.forecast.cost);
  const hasCost = costs.length > 0;
  const name = label(curve.over);
  const kind = isLinear ? { type: "value", min: 0 } : { type: "log", logBase: WHOLE.includes(curve.over) ? 2 : 10, min: curve.points[0].value };
  const scale = { ...kind, max: curve.points.at(-1).value };
  const currency = costs[0]?.forecast.cost.currency;
  const x = (last, index) => axis(colours, { ...scale, gridIndex: index, name: last ? name : "", nameGap: 28, axisLabel: { show: last, formatter: short } });
  const bounds = curve.points.flatMap(({ forecast: { duration_seconds: band } }) => [band.lower, band.upper]);
  const durations = scaleOf([...bounds, ...curve.measured.map((run) => run.duration_seconds)], true);
  const amounts = hasCost ? linearScale(costs.map((point) => Number(point.forecast.cost.median))) : null;
  const amountText = (value) => moneyTick(value, currency);
  const y = (measure, formatter, index, title) => axis(colours, { ...measure, gridIndex: index, name: title, nameLocation: "end", nameGap: 12, nameTextStyle: { color: colours.text, align: "right" }, axisLabel: { formatter } });
  // One above the other, both plots need the same room beside them for the labels of either.
  const besides = widthOf([...durations.ticks.map(durationTick), ...(amounts?.ticks ?? []).map(amountText)]);
  const place = { left: Math.max(MIN_LEFT, besides + LABEL_GAP), right: Math.max(MIN_RIGHT, widthOf([short(scale.max)]) / 2), outerBoundsMode: "none" };
  return {
    grid: hasCost ? [{ ...place, top: 34, height: "50%" }, { ...place, top: "71%", bottom: 46 }] : [{ ...place, top: 34, bottom: 46 }],
    xAxis: hasCost ? [x(false, 0), x(true, 1)] : [x(true, 0)],
    yAxis: [y(durations, durationTick, 0, "duration"), hasCost ? y(amounts, amountText, 1, "cost") : null].filter(Boolean),
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    tooltip: tooltip(colours, "axis", (parameters) => tipLines(curve, parameters)),
    series: hasCost ? [...seriesOf(curve, colours, questionValue), costSeries(curve, colours)] : seriesOf(curve, colours, questionValue),
  };
}

function legend(curve) {
  const entries = [["median", "median"], ["band", `${percent(curve.points[0].forecast.duration_seconds.confidence)} band for a new run`]];
  if (curve.measured.length) entries.push(["measured", "measured runs"]);
  if (curve.points.some((point) => point.forecast.cost)) entries.push(["cost", "cost"]);
  return h("ul", { class: "legend", "aria-hidden": "true" }, entries.map(([kind, text]) => h("li", { class: kind }, text)));
}

function figures(curve) {
  const step = Math.max(1, Math.floor(curve.points.length / TICKS));
  const some = curve.points.filter((point, index) => index % step === 0 || index === curve.points.length - 1 || Math.log2(point.value) % 1 === 0);
  const headings = [{ text: label(curve.over), number: true }, { text: "Duration", number: true }, { text: "Band", keep: true }, { text: "Cost", number: true }, { text: "Efficiency", number: true }, { text: "Saved per unit of money", number: true }, { text: "Basis" }];
  const rows = some.map(({ value, forecast, efficiency, seconds_saved_per_money: gain }) => [
    number(value),
    duration(forecast.duration_seconds.median),
    bandText(forecast.duration_seconds),
    forecast.cost ? moneyNode(forecast.cost.median, forecast.cost.currency) : "–",
    efficiency === null ? "–" : percent(efficiency),
    gain === null || gain <= 0 ? "–" : duration(gain),
    basisBadge(forecast.basis),
  ]);
  return h("details", {}, h("summary", {}, "The figures"), table("Figures of the curve", headings, rows));
}

function describe(curve) {
  const [first, last] = [curve.points[0], curve.points.at(-1)];
  const say = (point) => `${duration(point.forecast.duration_seconds.median)} at ${number(point.value)}`;
  return `Duration over ${label(curve.over)}: ${say(first)}, ${say(last)}; ${plural(curve.measured.length, "measured run")}. The figures are in the table below.`;
}

/** Prepare the section with the curve of an address. Returns `draw(question)`, whose question is null for one without an answer, and `asked()`, the fields of the curve for the address, of which `onChange` tells. */
export function installCurve(detail, address, onChange) {
  const form = byId("axis");
  const place = byId("curve");
  let fields = null;
  const over = select("over", axesOf(detail).map((name) => [name, label(name)]));
  const to = h("input", { type: "number", name: "to", inputmode: "decimal" });
  fill(form, field("Along", over), field("Up to", to));
  const usual = Object.fromEntries(new FormData(form));
  writeKept(form, SECTION, address);
  const plot = h("div", { class: "plot", id: "curve-plot" });

  const ask = latest(async (signal) => {
    if (!fields) {
      fill(place, unanswered());
      return;
    }
    const range = rangeOf(detail, over.value, fields);
    to.placeholder = String(Number(range.to.toPrecision(6)));
    to.min = range.from ?? 1;
    to.step = WHOLE.includes(over.value) ? 1 : "any";
    checkNumbers(form);
    const query = { ...queryOf(fields), over: over.value, from: range.from, to: to.value || range.to, points: range.points };
    delete query.deadline_s;
    delete query.budget;
    // The number of nodes must grow with the workers.
    if (over.value === "workers") delete query.nodes;
    const curve = await get(`${workloadPath(detail.workload)}/curve`, query, { signal });
    fill(place, plot, legend(curve), figures(curve));
    const value = Number(fields[over.value] || NaN);
    const questionValue = value > 0 || (value === 0 && range.isLinear) ? value : null;
    await draw(plot, describe(curve), (colours) => options(curve, questionValue, range.isLinear, colours));
  });
  const show = () => ask().catch((error) => fill(place, problemPanel(error)));
  const change = () => {
    onChange();
    show();
  };
  over.onchange = () => {
    to.value = "";
    change();
  };
  to.oninput = debounced(change, 600);
  form.onsubmit = (event) => {
    event.preventDefault();
    show();
  };
  const drawCurve = (question) => {
    fields = question;
    return show();
  };
  return { draw: drawCurve, asked: () => keptOf(form, SECTION, usual) };
}
