/** Notices that the browser shows this page again as it was left. */

/** Call `action` whenever the page comes back by Back or Forward: since then the service has moved on, and requests on their way were lost. */
export function whenShownAgain(action) {
  addEventListener("pageshow", (event) => {
    if (event.persisted) action();
  });
}
