/** Dead letters: grouped by what went wrong, and retried or discarded, one group at a time. */

import { count } from "../lib/format.js";
import { listOf } from "../lib/list.js";
import { link, place, replaceQuery } from "../lib/router.js";
import { parseSearch, writeSearch } from "../lib/search.js";
import { operate } from "../lib/session.js";
import { cursorKeys, listCard, OPERATIONS, selectionOf } from "../lib/table.js";
import { momentOf } from "../lib/ui.js";
import { computed, html } from "../lib/view.js";
import { ALL_MOVES, bulkButtons, movesOf } from "./dead_letter_moves.js";
import { DISPOSITIONS, dispositionMark, policyReader } from "./disposition.js";
import { figures } from "./failures.js";
import { recovery } from "./recovery.js";

/** @typedef {import("../lib/types.js").Delivery} Delivery */
/** @typedef {import("../lib/types.js").DeadLetterGroup} Group */

const VIEWS = [
  ["", "by cause"],
  ["list", "one by one"],
  ["poison", "killed workers"],
  ["figures", "figures"],
  ["recovery", "recovery"],
];
/** @type {Record<string, (filter: { value: Record<string, string> }) => import("../lib/view.js").Template>} */
const VIEW_OF = { "": groups, figures, recovery };
const SEARCHED = new Set(["", "list"]);
const WORDS = ["reason", "fingerprint", "target", "stream", "schedule", "disposition", "tag"];

export function render() {
  const view = computed(() => place.value.query.view ?? "");
  const filter = computed(() => {
    const { q = "", disposition } = place.value.query;
    return { ...parseSearch(q, WORDS), ...(disposition ? { disposition } : {}) };
  });
  return html` <div class="head">
      <div>
        <h1>Dead letters</h1>
        <p>Deliveries that are not tried again by themselves, unless a recovery policy retries them.</p>
      </div>
    </div>
    <nav class="tabs" aria-label="Views">
      ${VIEWS.map(([value, word]) => html`<a href=${() => link(["dead_letters"], { ...place.value.query, view: value })} aria-current=${() => (view.value === value ? "page" : null)}>${word}</a>`)}
    </nav>
    ${() => (SEARCHED.has(view.value) ? html`${searchBox()}${dispositionChoice(filter)}` : null)}
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

/** Buttons that choose the disposition. @param {{ value: Record<string, string> }} filter */
const dispositionChoice = (filter) =>
  html`<div class="choice" role="group" aria-label="Disposition">
    ${DISPOSITIONS.map(
      ([value, word]) =>
        html`<button
          type="button"
          class="quiet small"
          aria-pressed=${() => String((filter.value.disposition ?? "") === value)}
          @click=${() => replaceQuery(chosenDisposition(value))}
        >
          ${word}
        </button>`,
    )}
  </div>`;

/** The query with this disposition, in place of a typed one. @param {string} disposition */
function chosenDisposition(disposition) {
  const { disposition: _, ...typed } = parseSearch(place.value.query.q ?? "", WORDS);
  return { ...place.value.query, q: writeSearch(typed), disposition };
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
      ["First", "wide-only narrow-hidden"],
      "Last",
      [OPERATIONS, ""],
    ],
    key: (each) => each.fingerprint,
    row: (row) => {
      const { fingerprint } = row.value;
      const chosen = () => ({ which: { ...filter.value, fingerprint }, load });
      return html`<tr>
        <td class="num"><b>${() => count(row.value.count)}</b></td>
        <td class="clip">
          <a
            href=${() => link(["dead_letters"], { view: "list", q: `fingerprint:${fingerprint}`, disposition: filter.value.disposition })}
            >${() => row.value.reason}</a
          >
          <span class="dim">${() => row.value.error}</span>
        </td>
        <td class="clip narrow-hidden">${() => row.value.targets.join(", ")}</td>
        <td class="fit wide-only narrow-hidden">${() => momentOf(row.value.first_at)}</td>
        <td class="fit">${() => momentOf(row.value.last_at)}</td>
        <td class="fit">${operate(() => bulkButtons(movesOf(filter.value.disposition), "small", chosen))}</td>
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
  const policies = policyReader().found;
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
      "Target",
      ["Reason", "narrow-hidden"],
      ["Error", "narrow-hidden"],
      ["Attempts", "num narrow-hidden"],
      "Disposition",
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
        <td class="fit narrow-hidden">${() => row.value.reason}</td>
        <td class="clip narrow-hidden" title=${() => row.value.error}>
          ${() => row.value.why ?? row.value.error}
        </td>
        <td class="num narrow-hidden">${() => row.value.attempt}</td>
        <td class="fit">${() => dispositionMark(row.value, policies.value)}</td>
        <td class="fit">${() => momentOf(row.value.dead_at)}</td>
      </tr>`,
    empty: () => ["Nothing here", "No dead letter matches."],
    below: chosen.bar(
      ["dead letter"],
      html`${bulkButtons(ALL_MOVES, "", () => ({ which: { ids: chosen.ids() }, load, begun: chosen.clear }))}`,
    ),
  });
}
