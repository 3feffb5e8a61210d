/** Refuses form values that are not numbers or not in range. */

import { Problem } from "./api.js";
import { number } from "./format.js";

const DIGITS = "Write digits, such as 8 or 2.5, or leave it empty.";

/** Return what is wrong with a control's value, and the remedy; null if it can be sent. */
function faultOf({ validity, validationMessage, min, max }) {
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
