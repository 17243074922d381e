/** Dead letters: grouped by what went wrong, and retried or discarded, one group at a time. */

import { bulkDialog } from "../lib/bulk.js";
import { count } from "../lib/format.js";
import { listOf } from "../lib/list.js";
import { link, place, replaceQuery } from "../lib/router.js";
import { parseSearch } from "../lib/search.js";
import { operate } from "../lib/session.js";
import { cursorKeys, listCard, OPERATIONS, selectionOf } from "../lib/table.js";
import { momentOf } from "../lib/ui.js";
import { computed, html, signal } from "../lib/view.js";
import { figures } from "./failures.js";

/** @typedef {import("../lib/types.js").Delivery} Delivery */
/** @typedef {import("../lib/types.js").DeadLetterGroup} Group */
/** @typedef {Record<string, unknown>} Which */

const VIEWS = [
  ["", "by cause"],
  ["list", "one by one"],
  ["poison", "killed workers"],
  ["figures", "figures"],
];
/** @type {Record<string, (filter: { value: Record<string, string> }) => import("../lib/view.js").Template>} */
const VIEW_OF = { "": groups, figures };
const SEARCHED = new Set(["", "list"]);
const WORDS = ["reason", "fingerprint", "target", "stream", "schedule", "tag"];

export function render() {
  const view = computed(() => place.value.query.view ?? "");
  const filter = computed(() => parseSearch(place.value.query.q ?? "", WORDS));
  return html` <div class="head">
      <div>
        <h1>Dead letters</h1>
        <p>Deliveries that failed for good. Retry them, edit them, or discard them.</p>
      </div>
    </div>
    <nav class="tabs" aria-label="Views">
      ${VIEWS.map(([value, word]) => html`<a href=${() => link(["dead_letters"], { ...place.value.query, view: value })} aria-current=${() => (view.value === value ? "page" : null)}>${word}</a>`)}
    </nav>
    ${() => (SEARCHED.has(view.value) ? searchBox() : null)}
    ${() => VIEW_OF[view.value]?.(filter) ?? letters(view.value, filter)}`;
}

function searchBox() {
  const search = (/** @type {Event} */ event) => {
    event.preventDefault();
    replaceQuery({
      ...place.value.query,
      q: String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("q") ?? "").trim(),
    });
  };
  return html`<form role="search" @submit=${search}>
    <input
      type="search"
      name="q"
      data-search
      .value=${() => place.value.query.q ?? ""}
      aria-label="Search dead letters"
      placeholder="reason:timeout_exceeded target:email tag:vip, or any text in the error or payload"
    />
  </form>`;
}

/** @param {{ value: Record<string, string> }} filter */
function groups(filter) {
  /** @type {ReturnType<typeof listOf<Group>>} */
  const list = listOf("dead-letters/groups", () => filter.value, { every: 5 });
  const { load } = list;
  return listCard({
    label: "Causes",
    list,
    heads: [
      ["Count", "num"],
      "Cause",
      ["Targets", "narrow-hidden"],
      ["First", "narrow-hidden"],
      "Last",
      [OPERATIONS, ""],
    ],
    key: (each) => each.fingerprint,
    row: (row) => {
      const which = { fingerprint: row.value.fingerprint };
      return html`<tr>
        <td class="num"><b>${() => count(row.value.count)}</b></td>
        <td class="clip">
          <a href=${link(["dead_letters"], { view: "list", q: `fingerprint:${row.value.fingerprint}` })}
            >${() => row.value.reason}</a
          >
          <span class="dim">${() => row.value.error}</span>
        </td>
        <td class="clip narrow-hidden">${() => row.value.targets.join(", ")}</td>
        <td class="fit narrow-hidden">${() => momentOf(row.value.first_at)}</td>
        <td class="fit">${() => momentOf(row.value.last_at)}</td>
        <td class="fit">
          ${operate(() => html`<button type="button" class="small" @click=${() => retry(which, load)}>Retry</button> <button type="button" class="small danger" @click=${() => discard(which, load)}>Discard</button>`)}
        </td>
      </tr>`;
    },
    empty: () => ["No dead letters", "Everything that was tried was delivered, or is tried again by itself."],
  });
}

/** @param {string} view @param {{ value: Record<string, string> }} filter */
function letters(view, filter) {
  /** @type {ReturnType<typeof listOf<Delivery & { why?: string }>>} */
  const list =
    view === "poison"
      ? listOf("dead-letters/poison", () => ({}), { every: 5 })
      : listOf("dead-letters", () => filter.value, { every: 5 });
  const { items, load } = list;
  const chosen = selectionOf(items, (each) => each.id);
  const current = cursorKeys(items, (each) => each.id, {
    open: (each) => (location.hash = link(["deliveries", each.id])),
    select: (each) => chosen.toggle(each.id),
  });
  return listCard({
    label: "Dead letters",
    list,
    heads: [
      [chosen.all(), "check"],
      ...["Target", "Reason"],
      ["Error", "narrow-hidden"],
      ["Attempts", "num narrow-hidden"],
      "Died",
    ],
    key: (each) => each.id,
    row: (row) =>
      html`<tr
        aria-selected=${() => String(chosen.has(row.value.id))}
        ?data-current=${() => current.value === row.value.id}
      >
        <td class="check">${chosen.box(row.value.id, `Select ${row.value.id}`)}</td>
        <td class="clip"><a href=${link(["deliveries", row.value.id])}>${row.value.target}</a></td>
        <td class="fit">${() => row.value.reason}</td>
        <td class="clip narrow-hidden" title=${() => row.value.error}>
          ${() => row.value.why ?? row.value.error}
        </td>
        <td class="num narrow-hidden">${() => row.value.attempt}</td>
        <td class="fit">${() => momentOf(row.value.dead_at)}</td>
      </tr>`,
    empty: () => ["Nothing here", "No dead letter matches."],
    below: chosen.bar(
      ["dead letter"],
      html`<button
          type="button"
          class="primary"
          @click=${() => retry({ ids: chosen.ids() }, load, chosen.clear)}
        >
          Retry</button
        ><button
          type="button"
          class="danger"
          @click=${() => discard({ ids: chosen.ids() }, load, chosen.clear)}
        >
          Discard
        </button>`,
    ),
  });
}

/** Retry many, at a rate, with progress. @param {Which} which @param {() => Promise<void>} load @param {() => void} [begun] */
function retry(which, load, begun) {
  const rate = signal("50");
  bulkDialog({
    title: "Retry dead letters",
    verb: "Retry",
    doing: "Retrying dead letters",
    noun: ["dead letter", "dead letters"],
    path: "dead-letters/retry",
    which,
    load,
    begun,
    body: () => ({ rate: Number(rate.value) || null }),
    fields: html`<label
      >At most this many per second<input
        type="number"
        min="0.1"
        step="any"
        .value=${rate.value}
        @input=${(/** @type {Event} */ event) => (rate.value = /** @type {HTMLInputElement} */ (event.target).value)}
    /></label>`,
  });
}

/** @param {Which} which @param {() => Promise<void>} load @param {() => void} [begun] */
function discard(which, load, begun) {
  const note = signal("");
  bulkDialog({
    title: "Discard dead letters",
    verb: "Discard",
    doing: "Discarding dead letters",
    noun: ["dead letter", "dead letters"],
    kind: "danger",
    path: "dead-letters/discard",
    counted: "dead-letters/retry",
    which,
    load,
    begun,
    body: () => ({ note: note.value }),
    fields: html`<label
      >Why<input
        type="text"
        required
        @input=${(/** @type {Event} */ event) => (note.value = /** @type {HTMLInputElement} */ (event.target).value)}
    /></label>`,
  });
}
