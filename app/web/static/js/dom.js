/** Builds elements; text is always inserted as text. */

/** Return an element. Functions become listeners, `true` becomes an empty attribute, null is ignored. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Replace the content of an element; what the reader had opened in it is open in the new content too. */
export function fill(element, ...children) {
  const wasOpen = [...element.querySelectorAll("details")].map((each) => each.open);
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  for (const [index, each] of element.querySelectorAll("details").entries()) each.open ||= wasOpen[index] ?? false;
  element.removeAttribute("aria-busy");
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Return a table that scrolls by itself on a narrow page; headings are {text, number, keep, hidden}: `keep` prevents wrapping, `hidden` is for screen readers only. */
export function table(caption, headings, rows) {
  const classOf = ({ number = false, keep = false }) => (number ? "number" : keep ? "keep" : null);
  const head = headings.map((heading) =>
    h("th", { scope: "col", class: classOf(heading), title: heading.title }, heading.hidden ? h("span", { class: "sr-only" }, heading.text) : heading.text),
  );
  const body = rows.map((cells) => {
    const { attributes = {}, cells: inner = cells } = Array.isArray(cells) ? {} : cells;
    return h(
      "tr",
      attributes,
      inner.map((cell, index) => h("td", { class: classOf(headings[index]) }, cell)),
    );
  });
  return h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "sr-only" }, caption),
      h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, body),
    ),
  );
}

let counter = 0;

/** Return a labelled control; the hint is tied to it. */
export function field(text, control, hint = null, className = null) {
  counter += 1;
  control.id ||= `field-${counter}`;
  const note = hint ? h("small", { id: `${control.id}-hint` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: `field ${className ?? ""}` }, h("label", { for: control.id }, text), control, note);
}

/** For controls that take names: a phone would write them with capitals or as words that it knows. */
export const VERBATIM = { autocapitalize: "none", autocorrect: "off", spellcheck: "false" };

/** What a select shows for an empty value. */
export const NONE = "(none)";

/** Add a value to a select's options if it is missing. */
export function offer(control, value) {
  if ([...control.options].some((option) => option.value === String(value))) return;
  control.append(h("option", { value }, String(value) || NONE));
}

/** Return a select of [value, text] pairs or {label, options} groups; a chosen value that is not among them is added. */
export function select(name, choices, chosen = null) {
  const option = ([value, text]) => h("option", { value }, text);
  const control = h(
    "select",
    { name },
    choices.map((choice) =>
      Array.isArray(choice)
        ? option(choice)
        : h("optgroup", { label: choice.label }, choice.options.map(option)),
    ),
  );
  if (chosen === null || chosen === undefined) return control;
  offer(control, chosen);
  control.value = chosen;
  return control;
}

/** Return a debounced function: only the last call of a burst runs. */
export function debounced(action, pause = 250) {
  let timer = null;
  return (...parameters) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...parameters), pause);
  };
}
