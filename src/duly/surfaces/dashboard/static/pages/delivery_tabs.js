/** The tabs of the deliveries: one for each state, with the number of deliveries that match. */

import { get } from "../lib/api.js";
import { count } from "../lib/format.js";
import { keepFresh } from "../lib/live.js";
import { link } from "../lib/router.js";
import { writeSearch } from "../lib/search.js";
import { effect, html, signal, untracked } from "../lib/view.js";

/** @typedef {import("../lib/types.js").DeliveryCounts} DeliveryCounts */
/** @typedef {Record<string, string>} Filter */

/** Counting costs the store far more than the list does, so it is read less often. */
const EVERY = 10;
const STATES = ["", "pending", "processing", "completed", "dead", "cancelled"];

/**
 * Tabs that choose the state, and what reads their counts again after deliveries were moved.
 * @param {{ value: Filter }} filter @param {{ isLoaded: { value: boolean } }} list
 */
export function stateTabs(filter, list) {
  const counts = signal(/** @type {DeliveryCounts | null} */ (null));
  const read = async () => {
    const wanted = filter.value;
    const found = await get("deliveries/counts", { ...wanted, state: null }).catch(() => null);
    if (filter.value === wanted) counts.value = /** @type {DeliveryCounts | null} */ (found);
  };
  effect(() => {
    if (list.isLoaded.value) untracked(() => void read());
  });
  keepFresh(() => list.isLoaded.value && read(), EVERY);
  const tabs = html`<nav class="tabs" aria-label="States">
    ${STATES.map(
      (state) =>
        html`<a
          href=${() => link(["deliveries"], { q: writeSearch(wordsOf(filter.value)), state })}
          aria-current=${() => ((filter.value.state ?? "") === state ? "page" : null)}
          >${state || "all"} ${() => badge(counts.value, state)}</a
        >`,
    )}
  </nav>`;
  return { tabs, read };
}

/** What was typed, without the state. @param {Filter} filter @returns {Filter} */
const wordsOf = ({ state: _, ...words }) => words;

/** @param {DeliveryCounts | null} counts @param {string} state */
function badge(counts, state) {
  if (counts === null) return null;
  const all = Object.values(counts.states).reduce((sum, each) => sum + each, 0);
  const isCapped = state ? counts.capped.includes(state) : counts.capped.length > 0;
  const found = Math.min(state ? counts.states[state] : all, counts.counted_up_to);
  return html`<span class="badge">${count(found)}${isCapped ? "+" : ""}</span>`;
}
