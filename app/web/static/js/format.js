/** Formats durations, money and numbers for people; the exact value is in the title. */

import { h } from "./dom.js";

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const YEAR = 365 * 86400;
const MINUTE_MS = 60_000;
const LARGE = 1e6;
const MIN_SHOWN_CHANCE = 1e-4;
const MAX_SHOWN_FRACTION = 9.995;
const MIN_SHORT_AMOUNT = 1e5;
const numbers = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
const wholes = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** Return a duration with its two leading units; `whole` rounds to the finer one. */
function inUnits(seconds, whole) {
  // Above these bounds, three digits of milliseconds or tenths of a second would round up to the next unit.
  if (seconds < 0.9995) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds >= YEAR) {
    const years = seconds / YEAR;
    return plural(whole === Math.ceil ? roundedUp(years) : Number(years.toPrecision(3)), "year");
  }
  const leading = (remaining) => UNITS.findIndex(([, size]) => remaining >= size);
  const finest = UNITS[Math.min(leading(whole(seconds)) + 1, 3)][1];
  let remaining = whole(seconds / finest) * finest;
  const first = leading(remaining);
  const parts = [];
  for (const [name, size] of UNITS.slice(first, first + 2)) {
    const count = Math.floor(remaining / size);
    remaining -= count * size;
    if (count) parts.push(`${count} ${name}`);
  }
  return parts.join(" ");
}

/** Return a duration to the nearest: 33120 -> "9 h 12 min". */
export const duration = (seconds) => inUnits(seconds, Math.round);

/** Return a duration that is no shorter: 33121 -> "9 h 13 min". */
export const durationRoundedUp = (seconds) => inUnits(seconds, Math.ceil);

/** Return a duration for an axis: without a decimal 0. */
export const durationTick = (seconds) => duration(seconds).replace(".0 ", " ");

const inCurrency = (shown, currency) => (currency === "USD" ? `$${shown}` : `${currency} ${shown}`);

/** Return an amount: "USD 301", "USD 3.02", "USD 0.00046". */
export function money(amount, currency) {
  const value = Number(amount);
  // Just below 100 and 0.1, the digits shown round up to these.
  const digits = value === 0 || Math.abs(value) >= 99.995 ? 0 : Math.abs(value) >= 0.0995 ? 2 : null;
  const shown =
    digits === null
      ? value.toLocaleString("en", { maximumSignificantDigits: 2 })
      : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return inCurrency(shown, currency);
}

/** Return an amount for an axis, a large one in short: "USD 3M". */
export const moneyTick = (amount, currency) => (amount >= MIN_SHORT_AMOUNT ? inCurrency(short(amount), currency) : money(amount, currency));

/** Return a number with six significant digits; a whole or large one in full. */
export const number = (value) => (Number.isInteger(value) || Math.abs(value) >= LARGE ? wholes : numbers).format(value);

/** Return a number rounded up to three significant digits. */
export function roundedUp(value) {
  const step = 10 ** (Math.floor(Math.log10(value)) - 2);
  return Number((Math.ceil(Number((value / step).toPrecision(9))) * step).toPrecision(6));
}

export const short = (value) => compact.format(value);

/** Return a fraction as a percentage with two significant digits; one beyond all use is not told in full. */
export function percent(fraction, digits = 2) {
  if (fraction >= MAX_SHOWN_FRACTION) return "over 999%";
  if (fraction > 0.99 && fraction < 1) return `${Number((fraction * 100).toPrecision(4))}%`;
  return `${Number((fraction * 100).toPrecision(fraction >= 1 ? 3 : digits))}%`;
}

/** Return a probability as a percentage: 0% is never, 100% always. */
export function chance(share) {
  if (share > 0 && share < MIN_SHOWN_CHANCE) return "under 0.01%";
  return share > 1 - MIN_SHOWN_CHANCE && share < 1 ? "over 99.99%" : percent(share);
}

/** Return how long ago an instant was, or its date. */
export function ago(instant) {
  const seconds = (Date.now() - Date.parse(instant)) / 1000;
  if (seconds < 60) return "just now";
  if (seconds < 14 * 86400) {
    const [name, size] = UNITS.find(([, size]) => seconds >= size);
    return `${Math.floor(seconds / size)} ${name} ago`;
  }
  return instant.slice(0, 10);
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** Return a text that leaves the order of those beside it: a number after an Arabic or Hebrew word would be shown before it. */
export const isolated = (text) => (RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : String(text));

/** Return a feature's name for people: "param.inner_modules" -> "inner modules". */
export const label = (name) => isolated(name.replace(/^param\./, "").replaceAll("_", " "));
export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

/** Name the first few and count the others: "a, b, c and 5 more workloads". */
export function someOf(names, word, shown = 3) {
  const rest = names.length - shown;
  if (rest < 2) return names.join(", ");
  return `${names.slice(0, shown).join(", ")} and ${number(rest)} more ${word}s`;
}

export const durationNode = (seconds, say = duration) =>
  h("span", { title: `${seconds} seconds` }, say(seconds));
export const moneyNode = (amount, currency, tag = "span") =>
  h(tag, { title: `${amount} ${currency}` }, money(amount, currency));
/** Return an instant that says how long ago it was, as long as the page is open; a screen reader is not told each minute. */
export const timeNode = (instant) => h("time", { datetime: instant, title: instant, "aria-live": "off" }, ago(instant));

function ageTimes() {
  for (const node of document.querySelectorAll("time[datetime]")) {
    const text = ago(node.dateTime);
    if (node.textContent !== text) node.textContent = text;
  }
}

setInterval(ageTimes, MINUTE_MS);

/** Return the hardware of a configuration: "8 × A100-40GB". */
export function hardware(configuration) {
  const workers = configuration.workers ?? 1;
  const kind = configuration.gpu_type ?? configuration.instance_type;
  if (!kind) return plural(workers, "worker");
  const instance = configuration.instance_type;
  return `${number(workers)} × ${isolated(kind)}${instance && instance !== kind ? ` (${isolated(instance)})` : ""}`;
}
