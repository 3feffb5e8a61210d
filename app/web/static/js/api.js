/** Talks to the API of this service: JSON in, JSON out, problems as exceptions. */

import { askForKey, currentKey } from "./key.js";
import { noteResponse } from "./readiness.js";

/** Statuses that pass by themselves: too many requests, a service that starts or is behind a proxy that has lost it. */
const PASSING = [429, 502, 503, 504];

/** A refusal in the form of RFC 9457; `isPassing` if the same request may be answered later, after `retryAfter` seconds if that is known. */
export class Problem extends Error {
  constructor(document, { isPassing = false, retryAfter = 0 } = {}) {
    super(document.detail || document.title);
    this.document = document;
    this.code = document.code;
    this.isPassing = isPassing;
    this.retryAfter = retryAfter;
  }
}

const foreign = ({ status }) => `HTTP ${status} came with no document, perhaps from a proxy between this page and the service.`;

async function problemOf(response) {
  const patience = { isPassing: PASSING.includes(response.status), retryAfter: Number(response.headers.get("Retry-After")) || 0 };
  try {
    const document = await response.json();
    if (document.code) return new Problem(document, patience);
  } catch {
    // Something between us and the service answered; the status is all there is.
  }
  // HTTP/2 has no texts for statuses.
  return new Problem({ title: `HTTP ${response.status} ${response.statusText}`, detail: foreign(response), code: "http" }, patience);
}

const unreachable = () =>
  new Problem(
    {
      code: "unreachable",
      title: "The service does not answer",
      detail: "The request could not be sent, or its answer was lost.",
      remedy: "Check that the service is running, then try again.",
    },
    { isPassing: true },
  );

async function send(path, options, key) {
  const headers = { Accept: "application/json", ...options.headers };
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    const response = await fetch(path, { ...options, headers });
    noteResponse(response);
    return response;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    noteResponse(null);
    throw unreachable();
  }
}

/** Return the response to a request; asks for a key if the service requires one. */
export async function request(path, options = {}) {
  let key = currentKey();
  let response = await send(path, options, key);
  while (response.status === 401) {
    const reason = key ? "The service did not accept the key. Enter another one." : null;
    // While this request was on its way, another one may have asked for a key.
    if (currentKey() === key && !(await askForKey(reason))) break;
    key = currentKey();
    response = await send(path, options, key);
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** Return the JSON document of a response; throws if there is none, as in a proxy's login page. */
export async function documentIn(response) {
  let document = null;
  try {
    document = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    // Safari's error of this name is a DOMException instead of a SyntaxError.
    if (error.name !== "SyntaxError") throw unreachable();
  }
  if (document && typeof document === "object" && !Array.isArray(document)) return document;
  throw new Problem({
    code: "stranger",
    title: "Something other than the service answered",
    detail: foreign(response),
    remedy: "Load the page again; if a login has expired, it is then asked for.",
  });
}

/** Return the document at a path; empty values in `query` are left out. */
export async function get(path, query = {}, options = {}) {
  const entries = Object.entries(query).filter(([, value]) => value !== null && value !== "");
  const search = new URLSearchParams(entries).toString();
  const response = await request(search ? `${path}?${search}` : path, options);
  return documentIn(response);
}

/** Post a document and return the answer. */
export async function post(path, document, options = {}) {
  const response = await request(path, {
    method: "POST",
    body: JSON.stringify(document),
    ...options,
    headers: { "Content-Type": "application/json", ...options.headers },
  });
  return documentIn(response);
}

/** Return a function whose every call aborts the previous one; aborted calls are ignored. */
export function latest(action) {
  let controller = null;
  return async (...parameters) => {
    controller?.abort();
    const own = new AbortController();
    controller = own;
    try {
      return await action(own.signal, ...parameters);
    } catch (error) {
      if (error.name === "AbortError" || own.signal.aborted) return undefined;
      throw error;
    }
  };
}

export const workloadPath = (workload) => `/v1/workloads/${encodeURIComponent(workload)}`;
