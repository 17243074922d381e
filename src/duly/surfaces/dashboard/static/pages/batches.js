/** Batches: how far their members are, and what to do with those that are not finished. */

import { path, post } from "../lib/api.js";
import { count } from "../lib/format.js";
import { listOf } from "../lib/list.js";
import { link, place } from "../lib/router.js";
import { operate } from "../lib/session.js";
import { cursorKeys, listCard, OPERATIONS } from "../lib/table.js";
import { confirm, momentOf, stateMark } from "../lib/ui.js";
import { computed, html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Batch} Batch */

const STATES = ["", "open", "closed", "finished", "cancelled"];

/** The marks of the states, which are those of deliveries. @type {Record<string, string>} */
const MARKS = { open: "pending", closed: "processing", finished: "completed" };

export function render() {
  const state = computed(() => place.value.query.state ?? "");
  /** @type {ReturnType<typeof listOf<Batch>>} */
  const list = listOf("batches", () => ({ state: state.value }));
  const current = cursorKeys(list.items, (each) => each.id, {
    open: (each) => (location.hash = membersOf(each)),
  });
  return html` <div class="head">
      <div>
        <h1>Batches</h1>
        <p>Deliveries whose common end is announced by one more delivery.</p>
      </div>
    </div>
    <nav class="tabs" aria-label="States">
      ${STATES.map((each) => html`<a href=${link(["batches"], { state: each })} aria-current=${() => (state.value === each ? "page" : null)}>${each || "all"}</a>`)}
    </nav>
    ${listCard({
      label: "Batches",
      list,
      heads: [
        ...["State", "Name", "Progress"],
        ["Members", "num"],
        ["Dead", "num"],
        ["Opened", "narrow-hidden"],
        ["Finished", "narrow-hidden"],
        ["Then", "narrow-hidden"],
        [OPERATIONS, ""],
      ],
      key: (each) => each.id,
      row: (row) =>
        html`<tr ?data-current=${() => current.value === row.value.id}>
          <td class="fit">${() => stateMark(MARKS[row.value.state] ?? row.value.state, row.value.state)}</td>
          <td class="clip" title=${row.value.id}>
            <a href=${membersOf(row.value)}>${row.value.name ?? row.value.id.slice(0, 13)}</a>
          </td>
          <td class="fit">
            <progress
              aria-label=${`Progress of ${row.value.name ?? row.value.id}`}
              max=${() => row.value.members || 1}
              value=${() => ended(row.value) || (row.value.finished_at ? 1 : 0)}
            ></progress>
            <span class="dim">${() => count(ended(row.value))} ended</span>
          </td>
          <td class="num">${() => count(row.value.members)}</td>
          <td class="num">${() => count(row.value.dead)}</td>
          <td class="fit narrow-hidden">${() => momentOf(row.value.opened_at)}</td>
          <td class="fit narrow-hidden">${() => momentOf(row.value.finished_at)}</td>
          <td class="clip narrow-hidden">${() => completion(row.value)}</td>
          <td class="fit">${operate(() => moves(row.value, list.load))}</td>
        </tr>`,
      empty: () =>
        state.value
          ? [`No batch is ${state.value}`, ""]
          : [
              "No batches yet",
              "Open one, add deliveries to it, and close it.",
              "duly batches open HANDLER '{}'",
            ],
    })}`;
}

/** The address of the list of its members. @param {Batch} batch */
const membersOf = (batch) => link(["deliveries"], { q: `batch:${batch.id}` });

/** @param {Batch} batch */
const ended = (batch) => batch.completed + batch.dead + batch.cancelled;

/** The delivery that was sent, or where it will go. @param {Batch} batch */
const completion = (batch) =>
  batch.completion
    ? html`<a href=${link(["deliveries", batch.completion])}>${batch.then}</a>`
    : (batch.problem ?? batch.then);

/** @param {Batch} batch @param {() => Promise<void>} load */
function moves(batch, load) {
  const name = batch.name ?? batch.id.slice(0, 13);
  const ask = (/** @type {string} */ verb, /** @type {string} */ text, /** @type {string} */ done) => () =>
    confirm({
      title: `${verb} ${name}?`,
      text,
      verb: `${verb} it`,
      kind: verb === "Cancel" ? "danger" : "primary",
      done,
      work: async () => {
        await post(path("batches", batch.id, verb.toLowerCase()));
        await load();
      },
    });
  const close = ask(
    "Close",
    "It takes no more members, and finishes when those that it has have ended.",
    "Closed",
  );
  const cancel = ask("Cancel", "Members that wait are cancelled, and no completion is sent.", "Cancelled");
  const isOver = batch.finished_at !== null || batch.state === "cancelled";
  return html`${batch.state === "open" ? html`<button type="button" class="small" @click=${close}>Close</button>` : null}${isOver ? null : html`<button type="button" class="small danger" @click=${cancel}>Cancel</button>`}`;
}
