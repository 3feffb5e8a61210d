/** Shows problems: what is wrong, where, and what would help. */

import { h, table } from "./dom.js";
import { number, plural } from "./format.js";

const SHOWN = 50;

const isGiven = (value) => value !== null && value !== undefined;

/** Return the table of the errors in a problem or an upload. */
export function faultTable(faults, count = faults.length) {
  const shown = faults.slice(0, SHOWN);
  const rowsAreNamed = shown.some((fault) => isGiven(fault.row));
  const rows = shown.map((fault) => [
    ...(rowsAreNamed ? [isGiven(fault.row) ? number(fault.row) : ""] : []),
    h("span", {}, h("code", {}, fault.field ?? fault.pointer ?? ""), isGiven(fault.value) ? h("code", { class: "value" }, String(fault.value)) : null),
    h("span", {}, fault.message, fault.remedy ? h("small", { class: "remedy" }, fault.remedy) : null),
  ]);
  const headings = [...(rowsAreNamed ? [{ text: "Row", number: true }] : []), { text: "Field and value" }, { text: "What is wrong, what helps" }];
  const more = count > rows.length ? h("p", {}, `… and ${number(count - rows.length)} more.`) : null;
  return h("div", { class: "faults" }, table("What is wrong", headings, rows), more);
}

/** Return what would help; how long to wait is not in the document of a problem. */
function remedyOf({ retryAfter }, { remedy }) {
  return retryAfter && (!remedy || remedy.includes("Retry-After")) ? `Try again in ${plural(retryAfter, "second")}.` : remedy;
}

/** Return a panel that shows an error; problems of the API come with rows and remedies. */
export function problemPanel(error, ...actions) {
  const document = error.document ?? { title: "This page made a mistake", detail: error.message };
  if (!error.document) console.error(error);
  const faults = document.errors ?? [];
  const remedy = remedyOf(error, document);
  const title = document.type?.startsWith("/problems/")
    ? h("a", { href: document.type }, document.title)
    : document.title;
  const panel = h(
    "article",
    { class: "problem" },
    h("h2", { class: "panel-title" }, title),
    h("p", {}, document.detail ?? ""),
    remedy ? h("p", { class: "remedy" }, remedy) : null,
    faults.length ? faultTable(faults) : null,
    actions.length ? h("div", { class: "actions" }, actions) : null,
  );
  // An article element may not have the alert role itself.
  return h("div", { role: "alert" }, panel);
}
