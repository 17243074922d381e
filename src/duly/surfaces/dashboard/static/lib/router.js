/** The address: `#/deliveries/ID?state=dead` is a page, its names and its query. */

import { signal } from "./view.js";

/** @typedef {{ parts: string[], query: Record<string, string> }} Place */

/** Where the user is. */
export const place = signal(read());

/** @returns {Place} */
function read() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    parts: path.split("/").filter(Boolean).map(decode),
    query: Object.fromEntries(new URLSearchParams(search ?? "")),
  };
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a page. @param {string[]} parts @param {Record<string, string | null | undefined>} [query] */
export function link(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value);
  const search = new URLSearchParams(/** @type {[string, string][]} */ (given)).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** Go to a page. @param {string[]} parts @param {Record<string, string | null | undefined>} [query] */
export function go(parts, query) {
  location.hash = link(parts, query);
}

/** Change the query of the present page, without a new entry in the history. @param {Record<string, string | null | undefined>} query */
export function replaceQuery(query) {
  history.replaceState(null, "", link(place.value.parts, query));
  place.value = read();
}

addEventListener("hashchange", () => {
  place.value = read();
});
