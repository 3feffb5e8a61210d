/** Draws with ECharts in the colours of the page; loads it for the first chart. */

import { h } from "./dom.js";

let library = null;
const charts = new Map();

async function load() {
  library ??= import("../vendor/echarts/echarts.common.min.js").then(() => globalThis.echarts);
  return library;
}

/** Return the colours of the current scheme. */
export function palette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    main: colour("--chart-main"),
    band: colour("--chart-band"),
    accent: colour("--chart-accent"),
    points: colour("--chart-points"),
    text: colour("--chart-text"),
    grid: colour("--chart-grid"),
    surface: colour("--chart-surface"),
  };
}

/** Return an axis in the style of the page. */
export function axis(colours, { ticks, axisLabel, ...options }) {
  return {
    nameLocation: "middle",
    nameTextStyle: { color: colours.text },
    axisLabel: { color: colours.text, hideOverlap: true, customValues: ticks, ...axisLabel },
    axisLine: { lineStyle: { color: colours.grid } },
    axisTick: { lineStyle: { color: colours.grid }, customValues: ticks },
    splitLine: { lineStyle: { color: colours.grid, opacity: 0.6 } },
    minorSplitLine: { show: false },
    ...options,
  };
}

const DAY = 86400;
const DURATIONS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 57600, DAY, 2 * DAY, 5 * DAY, 10 * DAY, 20 * DAY, 50 * DAY, 100 * DAY, 200 * DAY];
const YEAR = 365 * DAY;
const MAX_TICKS = 9;
const MIN_TICKS = 4;
/** Between the ticks of a narrow range, and its least width, as a share of its values. */
const MAX_INTERVALS = 6;
const MIN_SPAN = 0.2;
/** Steps of a linear scale. */
const MAX_STEPS = 3;
/** The font of the library's labels. */
const LABEL_FONT = "12px sans-serif";

/** Return 1, 2, 5, 10, ... from at most `low` to at least `high`. */
function decades(low, high) {
  const values = [];
  for (let exponent = Math.floor(Math.log10(low)); exponent <= Math.ceil(Math.log10(high)); exponent += 1) {
    values.push(...[1, 2, 5].map((digit) => Number(`${digit}e${exponent}`)));
  }
  return values;
}

/** Return round values that cover a range: 1, 2, 5, ..., or for durations those of clock and calendar. */
function roundValues(low, high, isDuration) {
  if (!isDuration) return decades(low, high);
  const short = decades(low, high).filter((value) => value < DURATIONS[0]);
  return [...short, ...DURATIONS, ...decades(1, Math.max(high / YEAR, 1)).map((years) => years * YEAR)];
}

/** Return the multiples of a round step, of two digits, that cover a range of less than a decade; a narrower one than a fifth is widened. */
function evenTicks(low, high, isDuration) {
  const margin = Math.max((MIN_SPAN * low - (high - low)) / 2, 0);
  const [from, to] = [low - margin, high + margin];
  const indices = (step) => [Math.floor(from / step), Math.ceil(to / step)];
  const finest = 10 ** (Math.floor(Math.log10(to)) - 1);
  const step = roundValues(finest, to, isDuration).find((value) => value >= finest * 0.99 && indices(value)[1] - indices(value)[0] <= MAX_INTERVALS);
  const [first, last] = indices(step);
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(6)));
}

/** Return a linear scale from 0 with round ticks; if no value is above 0, it is the only tick. */
export function linearScale(values) {
  const high = Math.max(...values);
  if (high <= 0) return { type: "value", min: 0, max: 1, ticks: [0] };
  const step = decades(high / MAX_STEPS, high).find((value) => value >= high / MAX_STEPS);
  const ticks = Array.from({ length: Math.ceil(high / step) + 1 }, (_, index) => Number((index * step).toPrecision(6)));
  return { type: "value", min: 0, max: ticks.at(-1), ticks };
}

/** Return a scale that fits the values, with round ticks: logarithmic, or linear if a value is 0, which has no logarithm. */
export function scaleOf(values, isDuration) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (low <= 0) return linearScale(values);
  const coarse = [...new Set(roundValues(low, high, isDuration))];
  const below = coarse.filter((value) => value <= low).at(-1) ?? low;
  const above = coarse.find((value) => value >= high && value > below) ?? high * 2;
  const inside = coarse.filter((value) => value >= below && value <= above);
  if (inside.length < MIN_TICKS) {
    const ticks = evenTicks(low, high, isDuration);
    return { type: "log", min: ticks[0], max: ticks.at(-1), ticks };
  }
  const step = Math.ceil(inside.length / MAX_TICKS);
  const ticks = inside.filter((_, index) => index % step === 0);
  return { type: "log", min: below, max: above, ticks };
}

/** Return the pixels across the widest of some labels. */
export function widthOf(labels) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = LABEL_FONT;
  return Math.ceil(Math.max(...labels.map((text) => context.measureText(text).width)));
}

/** Return a tooltip whose text is `linesOf(parameters)`: elements, never markup. */
export function tooltip(colours, trigger, linesOf) {
  return {
    trigger,
    confine: true,
    backgroundColor: colours.surface,
    borderColor: colours.grid,
    textStyle: { color: colours.text, fontSize: 13 },
    // Long names would leave the chart.
    extraCssText: "max-width: 100%; white-space: normal; overflow-wrap: anywhere;",
    axisPointer: { lineStyle: { color: colours.grid } },
    formatter: (parameters) => {
      const lines = linesOf(parameters);
      return lines ? h("div", {}, lines.map((line) => h("div", {}, line))) : "";
    },
  };
}

/** Draw into an element; `optionsFor(colours)` is asked again when the scheme changes. */
export async function draw(place, description, optionsFor) {
  const echarts = await load();
  const old = charts.get(place);
  const chart = old?.chart ?? echarts.init(place, null, { renderer: "svg" });
  const redraw = () => chart.setOption({ animation: false, ...optionsFor(palette()) }, { notMerge: true });
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", description);
  if (!old) new ResizeObserver(() => chart.resize()).observe(place);
  charts.set(place, { chart, redraw });
  redraw();
  return chart;
}

function redrawAll() {
  for (const { redraw } of charts.values()) redraw();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);

/** Pixels across a sheet of A4 or letter paper, upright, between common margins. */
const PRINTED_WIDTH = 640;

/** Set the colours and the width of the charts for paper, or for the screen. */
function drawFor({ theme, width }) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  for (const { chart } of charts.values()) chart.resize({ width });
  redrawAll();
}

addEventListener("beforeprint", () => drawFor({ theme: "light", width: PRINTED_WIDTH }));
addEventListener("afterprint", () => drawFor({ theme: null, width: "auto" }));
