/** What is read of the API, now and again while it is shown: a document, or a list page by page. */

import { get } from "./api.js";
import { keepFresh, update } from "./live.js";
import { effect, signal, untracked } from "./view.js";

/** @typedef {import("./api.js").Query} Query */

/**
 * A document, or several; null until they were read.
 * @template T @param {() => Promise<T>} read @param {number} every seconds
 */
export function documentOf(read, every) {
  const found = signal(/** @type {T | null} */ (null));
  const error = signal(/** @type {unknown} */ (null));
  const load = async () => {
    try {
      update(found, await read());
      error.value = null;
    } catch (problem) {
      error.value = problem;
    }
  };
  keepFresh(load, every);
  return { found, error, load };
}

const PAGE = 50;
const MOST = 200;

/**
 * A list: its first pages, and more of them on demand.
 * @template T
 * @param {string} path @param {() => Query} query the list is emptied when it changes
 * @param {{ every?: number }} [options]
 */
export function listOf(path, query, { every = 3 } = {}) {
  const items = signal(/** @type {T[]} */ ([]));
  const next = signal(/** @type {string | number | null} */ (null));
  const error = signal(/** @type {unknown} */ (null));
  const isLoaded = signal(false);
  let turn = 0;

  const read = async (/** @type {number} */ limit, /** @type {string | number | null} */ cursor) => {
    const mine = (turn += 1);
    try {
      const page = /** @type {import("./api.js").Page<T>} */ (await get(path, { ...query(), limit, cursor }));
      if (mine !== turn) return;
      items.value = cursor === null ? unchanged(items.value, page.items) : [...items.value, ...page.items];
      next.value = page.next ?? null;
      error.value = null;
    } catch (problem) {
      if (mine === turn) error.value = problem;
    }
    isLoaded.value = true;
  };
  const load = () => read(Math.max(PAGE, Math.min(items.value.length, MOST)), null);
  const more = () => read(PAGE, next.value);
  effect(() => {
    void query();
    untracked(() => {
      items.value = [];
      next.value = null;
      isLoaded.value = false;
      void load();
    });
  });
  keepFresh(() => isLoaded.value && load(), every);
  return { items, next, error, isLoaded, load, more };
}

/**
 * The rows that were found; those that are as before are the same objects, so that nothing of them
 * is rendered again. @template T @param {T[]} before @param {T[]} found
 */
function unchanged(before, found) {
  const known = new Map(before.map((each) => [JSON.stringify(each), each]));
  return found.map((each) => known.get(JSON.stringify(each)) ?? each);
}
