/** Requests to the API: the same that curl can send. Errors have the problem's own text. */

import { signal } from "./view.js";

const ROOT = new URL("../../v1/", import.meta.url);
const SECONDS = 15;

/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */
/** @template T @typedef {{ items: T[], next: string | number | null }} Page */

/** What the server, or the way to it, has refused; `status` is 0 without an answer. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message @param {string} [field] */
  constructor(status, message, field) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

/** Whether the server has answered that a key has to be given first. */
export const isLoginNeeded = signal(false);

/** The address of a resource. @param {string} path @param {Query} [query] */
export function address(path, query = {}) {
  const found = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") found.searchParams.set(name, String(value));
  }
  return found;
}

/** A path of names, each escaped. @param {...(string | number)} parts */
export const path = (...parts) => parts.map((each) => encodeURIComponent(each)).join("/");

/**
 * The text of an answer. @param {string} method @param {string} where
 * @param {{ query?: Query, body?: unknown, raw?: string, media?: string, version?: number, signal?: AbortSignal, isRepeatable?: boolean }} [options]
 * @returns {Promise<string>}
 */
export async function send(method, where, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { accept: "application/json" };
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (body !== undefined) headers["content-type"] = options.media ?? "application/json";
  if (method === "POST" && options.isRepeatable !== false)
    headers["idempotency-key"] = crypto.randomUUID?.() ?? String(Math.random());
  if (options.version !== undefined) headers["if-match"] = `"${options.version}"`;
  const limit = AbortSignal.timeout(SECONDS * 1000);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  let answer;
  try {
    answer = await fetch(address(where, options.query), {
      method,
      headers,
      body,
      signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    const reason = limit.aborted ? `has not answered within ${SECONDS} seconds` : "cannot be reached";
    throw new ApiError(0, `The server ${reason}.`);
  }
  const text = await answer.text();
  if (answer.status === 401) isLoginNeeded.value = true;
  if (!answer.ok) throw problem(answer, text);
  return text;
}

/** @param {Response} answer @param {string} text */
function problem(answer, text) {
  /** @type {{ detail?: string, title?: string, field?: string, error?: { message: string, details?: { field?: string, reason?: string }[] } }} */
  let found = {};
  try {
    found = JSON.parse(text);
  } catch {
    // A proxy may answer in its own words.
  }
  const [first] = found.error?.details ?? []; // of a service
  const after = answer.headers.get("retry-after");
  const said =
    found.detail ??
    first?.reason ??
    found.error?.message ??
    found.title ??
    `The server answered ${answer.status}.`;
  const message = after ? `${said} Try again in ${after} s.` : said;
  return new ApiError(answer.status, message, found.field ?? first?.field);
}

/** @template T @param {string} where @param {Query} [query] @param {AbortSignal} [signal] @returns {Promise<T>} */
export const get = async (where, query, signal) => JSON.parse(await send("GET", where, { query, signal }));

/** @template T @param {string} where @param {unknown} [body] @returns {Promise<T>} */
export const post = async (where, body) => JSON.parse((await send("POST", where, { body })) || "null");

/** @template T @param {string} where @param {unknown} body @param {number} [version] @returns {Promise<T>} */
export const patch = async (where, body, version) =>
  JSON.parse(await send("PATCH", where, { body, version }));

/** @template T @param {string} where @param {unknown} body @param {number} [version] @returns {Promise<T>} */
export const put = async (where, body, version) => JSON.parse(await send("PUT", where, { body, version }));

/** @param {string} where @param {Query} [query] */
export const remove = async (where, query) => void (await send("DELETE", where, { query }));
