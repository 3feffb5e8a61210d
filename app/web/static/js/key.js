/** Keeps the API key of this tab, and asks for one if the service requires it. */

import { byId } from "./dom.js";
import { forgetAll, recall, remember } from "./memory.js";
import { whenShownAgain } from "./returning.js";

const STORE = "trainfare.key";
const KEY = /^[\x21-\x7e]+$/;
let pendingKey = null;

export const currentKey = () => recall(STORE);

/** The key by which the shown data were read. */
let usedKey = currentKey();

function showForget() {
  const place = byId("change-key");
  place.hidden = currentKey() === null;
  place.querySelector("button").onclick = () => {
    forgetAll();
    location.reload();
  };
}

/** Ask for a key once, however many requests wait; resolves to whether there is a new one. */
export function askForKey(reason) {
  pendingKey ??= new Promise((resolve) => {
    const dialog = byId("key-dialog");
    const input = byId("key-input");
    if (reason) byId("key-note").textContent = reason;
    const finish = (key) => {
      pendingKey = null;
      dialog.close();
      if (key) remember(STORE, key);
      usedKey = currentKey();
      showForget();
      resolve(Boolean(key));
    };
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      const key = input.value.trim();
      input.value = "";
      // Other characters cannot be sent in a header.
      if (KEY.test(key)) finish(key);
      else byId("key-note").textContent = "That is not a key: one is a single word of plain letters, digits and signs.";
    };
    byId("key-cancel").onclick = () => finish("");
    dialog.oncancel = (event) => {
      event.preventDefault();
      finish("");
    };
    dialog.showModal();
  });
  return pendingKey;
}

// What a key that was forgotten since has shown must not come back with the page.
whenShownAgain(() => {
  if (currentKey() !== usedKey) location.reload();
});
showForget();
