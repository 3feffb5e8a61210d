/** Shows problems: what is wrong, where, and what would help. */

import { h, table } from "./dom.js";
import { number } from "./format.js";

const SHOWN = 50;

/** Return the table of the errors in a problem or an upload. */
export function faultTable(faults, count = faults.length) {
  const rows = faults.slice(0, SHOWN).map((fault) => [
    fault.row === null || fault.row === undefined ? "" : number(fault.row),
    h("code", {}, fault.field ?? fault.pointer ?? ""),
    fault.value === null || fault.value === undefined ? "" : h("code", {}, String(fault.value)),
    fault.message,
    fault.remedy ?? "",
  ]);
  const headings = [
    { text: "Row", number: true },
    { text: "Field" },
    { text: "Value" },
    { text: "What is wrong" },
    { text: "What helps" },
  ];
  const more = count > rows.length ? h("p", {}, `… and ${number(count - rows.length)} more.`) : null;
  return h("div", {}, table("What is wrong", headings, rows), more);
}

/** Return a panel that shows an error; problems of the API come with rows and remedies. */
export function problemPanel(error, ...actions) {
  const document = error.document ?? { title: "This page made a mistake", detail: error.message };
  if (!error.document) console.error(error);
  const faults = document.errors ?? [];
  const title = document.type?.startsWith("/problems/")
    ? h("a", { href: document.type }, document.title)
    : document.title;
  const panel = h(
    "article",
    { class: "problem" },
    h("h2", { class: "panel-title" }, title),
    h("p", {}, document.detail ?? ""),
    document.remedy ? h("p", { class: "remedy" }, document.remedy) : null,
    faults.length ? faultTable(faults) : null,
    actions.length ? h("div", { class: "actions" }, actions) : null,
  );
  // An article element may not have the alert role itself.
  return h("div", { role: "alert" }, panel);
}
