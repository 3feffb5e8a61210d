/** Draws with ECharts in the colours of the page; loads it when the first chart is needed. */

import { h } from "./dom.js";

let library = null;
const charts = new Map();

async function load() {
  library ??= import("../vendor/echarts/echarts.common.min.js").then(() => globalThis.echarts);
  return library;
}

/** Return the colours of the present scheme. */
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
export function axis(colours, options) {
  return {
    nameLocation: "middle",
    nameTextStyle: { color: colours.text },
    axisLabel: { color: colours.text, hideOverlap: true },
    axisLine: { lineStyle: { color: colours.grid } },
    axisTick: { lineStyle: { color: colours.grid } },
    splitLine: { lineStyle: { color: colours.grid, opacity: 0.6 } },
    minorSplitLine: { show: false },
    ...options,
  };
}

/** Return a tooltip whose text is `linesOf(parameters)`: elements, never markup. */
export function tooltip(colours, trigger, linesOf) {
  return {
    trigger,
    confine: true,
    backgroundColor: colours.surface,
    borderColor: colours.grid,
    textStyle: { color: colours.text, fontSize: 13 },
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

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const { redraw } of charts.values()) redraw();
});
