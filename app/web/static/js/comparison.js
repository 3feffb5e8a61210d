/** What-ifs side by side; they are kept as long as the tab. */

import { basisBadge, bandText, carbonText } from "./answer.js";
import { fill, h, table } from "./dom.js";
import { durationNode, hardware, isolated, label, money, moneyNode, number, percent } from "./format.js";
import { recall, remember } from "./memory.js";
import { fieldsOf } from "./question.js";

const HEADINGS = [
  { text: "What if", keep: true },
  { text: "Duration", number: true },
  { text: "Band for a new run", keep: true },
  { text: "Cost", number: true },
  { text: "Against the first", number: true },
  { text: "Basis" },
  { text: "Remove", hidden: true },
];

/** Return all by which entries may differ: the bands also by their confidence, the forecasts by the regressor's version. */
const toldOf = (entry) => ({ ...fieldsOf(entry), confidence: percent(entry.duration_seconds.confidence), version: entry.regressor_version });

/** Return the ways in which entries differ beyond the hardware, for short labels. */
function differing(entries) {
  const all = entries.map(toldOf);
  const names = [...new Set(all.flatMap((fields) => Object.keys(fields)))];
  const hardwareFields = ["gpu_type", "instance_type", "workers"];
  return names.filter((name) => !hardwareFields.includes(name) && new Set(all.map((fields) => String(fields[name] ?? ""))).size > 1);
}

function relation(entry, first) {
  if (entry === first) return "–";
  const faster = first.duration_seconds.median / entry.duration_seconds.median;
  const factor = Number(Math.max(faster, 1 / faster).toPrecision(3));
  const speed = factor === 1 ? "as fast" : `${number(factor)}× ${faster > 1 ? "faster" : "slower"}`;
  if (!entry.cost || !first.cost || entry.cost.currency !== first.cost.currency) return speed;
  const extra = Number(entry.cost.median) - Number(first.cost.median);
  const amount = money(Math.abs(extra), entry.cost.currency);
  const price = extra === 0 ? "costs the same" : extra < 0 ? `saves ${amount}` : `costs ${amount} more`;
  return h("span", {}, speed, h("br"), h("small", {}, price));
}

/** Return the lowest cost and its currency, or nothing if the entries have several currencies. */
function cheapest(entries) {
  const costs = entries.map((entry) => entry.cost).filter(Boolean);
  const currencies = new Set(costs.map((cost) => cost.currency));
  if (currencies.size !== 1) return {};
  return { cost: Math.min(...costs.map((cost) => Number(cost.median))), currency: [...currencies][0] };
}

const identityOf = (entry) => JSON.stringify([toldOf(entry), entry.cost?.price_per_hour]);

/** A table of forecasts that users add to and remove from. */
export class Comparison {
  constructor(place, workload) {
    this.place = place;
    this.store = `trainfare.comparison.${workload}`;
    try {
      this.entries = JSON.parse(recall(this.store)) ?? [];
    } catch {
      this.entries = [];
    }
    this.show();
  }

  add(forecast) {
    this.entries = [...this.entries.filter((entry) => identityOf(entry) !== identityOf(forecast)), forecast];
    this.keep();
  }

  remove(entry) {
    this.entries = this.entries.filter((other) => other !== entry);
    this.keep();
  }

  keep() {
    remember(this.store, JSON.stringify(this.entries));
    this.show();
  }

  price({ cost }, best) {
    if (!cost) return ["–"];
    const isBest = cost.currency === best.currency && Number(cost.median) === best.cost;
    return [moneyNode(cost.median, cost.currency), isBest ? h("small", { class: "mark" }, "cheapest") : null];
  }

  row(entry, names, best) {
    const fields = toldOf(entry);
    const details = names.map((name) => `${label(name)} ${isolated(fields[name] ?? "–")}`).join(", ");
    const mark = (isBest, text) => (isBest ? h("small", { class: "mark" }, text) : null);
    const seconds = entry.duration_seconds.median;
    const carbon = carbonText(entry.energy);
    const remove = h("button", { type: "button", class: "remove", "aria-label": `Remove ${hardware(entry.configuration)}`, onclick: () => this.remove(entry) }, "×");
    return [
      h("span", {}, hardware(entry.configuration), details ? h("small", { class: "description" }, details) : null),
      h("span", {}, durationNode(seconds), mark(seconds === best.seconds, "fastest")),
      bandText(entry.duration_seconds),
      h("span", {}, ...this.price(entry, best), carbon === "–" ? null : h("small", { class: "description" }, carbon)),
      relation(entry, this.entries[0]),
      basisBadge(entry.basis),
      remove,
    ];
  }

  show() {
    if (!this.entries.length) {
      fill(this.place);
      return;
    }
    const isAlone = this.entries.length === 1;
    const best = isAlone ? {} : { seconds: Math.min(...this.entries.map((entry) => entry.duration_seconds.median)), ...cheapest(this.entries) };
    const names = differing(this.entries);
    fill(
      this.place,
      h("div", { class: "section-head" }, h("h3", {}, "Side by side"), h("button", { type: "button", class: "link", onclick: () => { this.entries = []; this.keep(); } }, "Clear")),
      table("Comparison of what-ifs", HEADINGS, this.entries.map((entry) => this.row(entry, names, best))),
      isAlone ? h("p", { class: "quiet" }, "Change the question and add the next answer to compare.") : null,
    );
  }
}

