/** The fit button and the progress of a fit. */

import { get, post, request, workloadPath } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { number, percent, plural, timeNode } from "./format.js";
import { problemPanel } from "./problem.js";

const PAUSE_MS = 700;
const ACTIVE = ["queued", "running"];
const PATIENCE = 20;
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Return the state of a fit; a request without an answer is repeated for a while, since a phone that was locked loses those on their way, and so is one that is refused for the moment. */
async function look(path) {
  for (let missed = 0; ; missed += 1) {
    try {
      return await get(path);
    } catch (error) {
      if (!error.isPassing || missed === PATIENCE) throw error;
      await pause(Math.max(PAUSE_MS, error.retryAfter * 1000));
    }
  }
}

/** Runs one fit at a time for a workload, shows one that is active or failed, and calls `whenPublished` after a new regressor. */
export class Fitting {
  constructor(detail, whenPublished) {
    this.place = byId("fit");
    this.path = workloadPath(detail.workload);
    this.whenPublished = whenPublished;
    this.isFitted = Boolean(detail.regressor);
    const last = detail.last_fit;
    if (last && (ACTIVE.includes(last.state) || last.state === "failed")) this.follow(last.fit_id);
    else this.offer();
  }

  offer(...notes) {
    const text = this.isFitted ? "Fit again" : "Fit a regressor";
    const button = h("button", { type: "button", class: this.isFitted ? "secondary outline" : null, onclick: () => this.start() }, text);
    fill(this.place, button, ...notes);
  }

  async start() {
    fill(this.place, h("button", { type: "button", "aria-busy": "true", disabled: true }, "Asking …"));
    try {
      const fit = await post(`${this.path}/fits`, {});
      await this.follow(fit.fit_id);
    } catch (error) {
      this.offer(problemPanel(error));
    }
  }

  async follow(fitId) {
    const path = `/v1/fits/${encodeURIComponent(fitId)}`;
    const bar = h("progress", { max: "1", "aria-label": "Progress of the fit" });
    // Screen readers have the share from the bar: told here, each of its changes would be read out.
    const share = h("span", { class: "step", "aria-hidden": "true" });
    const step = h("span", { class: "step", role: "status" });
    const cancel = h("button", { type: "button", class: "link", onclick: () => this.cancel(path, cancel) }, "Cancel");
    fill(this.place, h("div", { class: "progress" }, bar, share, step, cancel));
    try {
      let fit = await look(path);
      while (ACTIVE.includes(fit.state)) {
        if (fit.state === "running") {
          bar.value = fit.progress;
          share.textContent = percent(fit.progress);
        }
        const told = fit.cancel_requested ? "ending …" : fit.step ?? (fit.state === "queued" ? "waiting for a fitter" : "fitting");
        if (step.textContent !== told) step.textContent = told;
        await pause(PAUSE_MS);
        fit = await look(path);
      }
      this.end(fit);
    } catch (error) {
      this.offer(problemPanel(error));
    }
  }

  async cancel(path, button) {
    button.disabled = true;
    try {
      await request(`${path}:cancel`, { method: "POST" });
    } catch (error) {
      button.replaceWith(problemPanel(error));
    }
  }

  end(fit) {
    if (fit.state === "succeeded") {
      this.isFitted ||= fit.published !== false;
      const seconds = (Date.parse(fit.ended_at) - Date.parse(fit.started_at)) / 1000;
      // The last step says why: it was not to be, the published one is better, or another was published meanwhile.
      const reason = fit.step?.split("not published: ")[1] ?? "another one is";
      const what = fit.published === false ? `was fitted but not published: ${reason}` : "is published";
      this.offer(h("span", { class: "note", role: "status" }, `Version ${fit.regressor_version} ${what}; ${plural(fit.candidates.length, "candidate")} in ${number(Number(seconds.toPrecision(2)))} s, `, timeNode(fit.ended_at), "."));
      this.whenPublished();
      return;
    }
    const note = fit.state === "failed"
      ? problemPanel({ document: { title: "The fit failed", detail: fit.problem?.detail } })
      : h("span", { class: "note", role: "status" }, "The fit was cancelled.");
    this.offer(note);
  }
}
