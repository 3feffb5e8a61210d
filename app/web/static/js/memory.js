/** Remembers texts as long as the tab; where the browser refuses to, as Safari does when it blocks all cookies, as long as the page. */

const refused = new Map();

/** Return a remembered text, null if there is none. */
export function recall(name) {
  if (refused.has(name)) return refused.get(name);
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Remember a text. */
export function remember(name, text) {
  refused.delete(name);
  try {
    sessionStorage.setItem(name, text);
  } catch {
    refused.set(name, text);
  }
}

/** Forget all texts. */
export function forgetAll() {
  refused.clear();
  try {
    sessionStorage.clear();
  } catch {
    // Nothing was remembered there.
  }
}
