/** Refuses form values that are not numbers or not in range. */

import { Problem } from "./api.js";
import { number } from "./format.js";

const DIGITS = "Write digits, such as 8 or 2.5, or leave it empty.";

/** Controls from which the browser has dropped a comma: the value since, and the digits before the comma. */
const shortened = new WeakMap();
const told = new WeakSet();
const THOUSANDS = 3;

/** Note a comma that the browser drops: Chromium in English makes 25 of 2,5. In other languages it is the decimal sign. */
function noteComma({ target, data }) {
  if (target.type !== "number") return;
  if (told.delete(target)) shortened.delete(target);
  if (!data?.includes(",")) return;
  const before = `${target.value}${data.slice(0, data.lastIndexOf(","))}`.replaceAll(",", "").length;
  // Further keys may come first.
  setTimeout(() => {
    const { value, validity } = target;
    if (!validity.badInput && !value.includes(".")) shortened.set(target, { value, before });
  });
}

function noteEdit({ target }) {
  const entry = shortened.get(target);
  if (entry) entry.value = target.value;
}

document.addEventListener("beforeinput", noteComma);
document.addEventListener("input", noteEdit, { capture: true });

/** Tell whether a control's number was typed with a comma that it lacks, which did not set off thousands. */
function lacksComma(control) {
  const { value } = control;
  const entry = shortened.get(control);
  // Another value was not typed, as that of a run which is asked about.
  if (!value || value.includes(".") || entry?.value !== value || value.length - entry.before === THOUSANDS) return false;
  told.add(control);
  return true;
}

/** Return what is wrong with a control's value, and the remedy; null if it can be sent. */
function faultOf(control) {
  const { validity, validationMessage, min, max } = control;
  if (lacksComma(control)) return [`was typed with a comma, which this browser leaves out, and became ${number(Number(control.value))}`, "Write decimals with a point, such as 2.5, and thousands without a sign."];
  if (!validity || validity.valid) return null;
  if (validity.customError) return [`was set to “${validationMessage}”, which is not a number`, DIGITS];
  if (validity.badInput) return ["is not a number", DIGITS];
  if (validity.rangeUnderflow) return ["is too small", `Write ${number(Number(min))} or more.`];
  if (validity.rangeOverflow) return ["is too large", `Write at most ${number(Number(max))}.`];
  return validity.stepMismatch ? ["is not a whole number", "Write a number without decimals."] : null;
}

/** Record a value from the address that is not a number: the browser leaves its control empty, so the default would be sent. */
export function withAddressValue(control, value) {
  if (value !== "" && control.value === "") control.setCustomValidity(String(value));
  return control;
}

/** Throw a problem that names the first control whose number cannot be sent as it stands. */
export function checkNumbers(form) {
  for (const control of form.elements) {
    const fault = faultOf(control);
    if (!fault) continue;
    // Reported once; after that the control's own value counts.
    control.setCustomValidity("");
    const [wrong, remedy] = fault;
    throw new Problem({ title: "Invalid request", detail: `The value of “${control.labels[0].textContent}” ${wrong}.`, remedy });
  }
}
