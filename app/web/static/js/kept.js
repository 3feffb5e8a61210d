/** Keeps what the forms of the sections ask in the page's address, as `section.field`. */

/** Write a section's fields of an address into its form; tells whether there were any. */
export function writeKept(form, section, address) {
  const controls = Object.entries(address)
    .filter(([name]) => name.startsWith(`${section}.`))
    .map(([name, value]) => [form.elements.namedItem(name.slice(section.length + 1)), value]);
  const known = controls.filter(([control, value]) => control && (!control.options || [...control.options].some((option) => option.value === value)));
  for (const [control, value] of known) {
    if (control.type === "checkbox") control.checked = value === "on";
    else control.value = value;
  }
  return known.length > 0;
}

/** Return a section's fields for the address: those which are not as usual. */
export function keptOf(form, section, usual) {
  const isOwn = ([name, value]) => value !== (usual[name] ?? "");
  return Object.fromEntries([...new FormData(form)].filter(isOwn).map(([name, value]) => [`${section}.${name}`, value]));
}

/** Tells whether a field of an address belongs to a section. */
export const isKept = (name) => /^(?:curve|search)\./.test(name);
