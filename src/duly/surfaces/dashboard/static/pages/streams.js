/** Streams: deliveries that run in order, and what to do with those that do not move. */

import { link, place } from "../lib/router.js";
import { listOf } from "../lib/list.js";
import { count } from "../lib/format.js";
import { cursorKeys, listCard } from "../lib/table.js";
import { momentOf, prose, stateMark } from "../lib/ui.js";
import { computed, html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Stream} Stream */

const STATES = [
  ["", "all"],
  ["blocked", "blocked"],
  ["paused", "paused"],
];

export function render() {
  const state = computed(() => place.value.query.state ?? "");
  /** @type {ReturnType<typeof listOf<Stream>>} */
  const list = listOf("streams", () => ({ state: state.value }));
  /** @type {ReturnType<typeof listOf<Stream>>} */
  const blocked = listOf("streams", () => ({ state: "blocked" }));
  const items = computed(() =>
    state.value ? list.items.value : blockedFirst(blocked.items.value, list.items.value),
  );
  const current = cursorKeys(items, (each) => each.name, {
    open: (each) => (location.hash = link(["streams", each.name])),
  });
  return html` <div class="head">
      <div>
        <h1>Streams</h1>
        <p>Deliveries of one stream run in order, one at a time.</p>
      </div>
    </div>
    <nav class="tabs" aria-label="States">
      ${STATES.map(([value, word]) => html`<a href=${link(["streams"], { state: value })} aria-current=${() => (state.value === value ? "page" : null)}>${word}</a>`)}
    </nav>
    ${listCard({
      label: "Streams",
      list: { ...list, items },
      heads: [
        ...["State", "Name"],
        ["Waiting", "num"],
        ["Oldest", "narrow-hidden"],
        ["On failure", "narrow-hidden"],
        ["What to do", "narrow-hidden"],
      ],
      key: (each) => each.name,
      row: (row) =>
        html`<tr ?data-current=${() => current.value === row.value.name}>
          <td class="fit">${() => stateMark(row.value.state)}</td>
          <td class="clip"><a href=${link(["streams", row.value.name])}>${row.value.name}</a></td>
          <td class="num">${() => count(row.value.waiting)}</td>
          <td class="fit narrow-hidden">${() => momentOf(row.value.oldest_at)}</td>
          <td class="fit narrow-hidden">${() => row.value.on_failure}</td>
          <td class="clip narrow-hidden" title=${() => row.value.to_do}>${() => prose(row.value.to_do)}</td>
        </tr>`,
      empty: () =>
        state.value
          ? [`No stream is ${state.value}`, "All of them move."]
          : [
              "No streams yet",
              "Give deliveries a stream, and they run in the order in which they were accepted.",
              "duly deliver HANDLER '{}' --stream orders-17",
            ],
    })}`;
}

/** Blocked streams before the others, even if they are on a later page. @param {Stream[]} blocked @param {Stream[]} all */
function blockedFirst(blocked, all) {
  const names = new Set(blocked.map((each) => each.name));
  return [...blocked, ...all.filter((each) => !names.has(each.name))];
}
