/** Deliveries: found by state and by words, and moved one by one or many at once. */

import { path, post } from "../lib/api.js";
import { bulkDialog } from "../lib/bulk.js";
import { count, plural } from "../lib/format.js";
import { listOf } from "../lib/list.js";
import { link, place, replaceQuery } from "../lib/router.js";
import { parseSearch, writeSearch } from "../lib/search.js";
import { operate } from "../lib/session.js";
import { cursorKeys, listCard, selectionOf } from "../lib/table.js";
import { confirm, momentOf, stateMark } from "../lib/ui.js";
import { computed, html } from "../lib/view.js";
import { percent } from "./delivery_running.js";
import { stateTabs } from "./delivery_tabs.js";

/** @typedef {import("../lib/types.js").Delivery} Delivery */

const WORDS = ["state", "target", "stream", "batch", "schedule", "tag", "reason", "key", "id", "late_over"];

export function render() {
  const query = computed(() => place.value.query);
  const filter = computed(() => ({
    ...parseSearch(query.value.q ?? "", WORDS),
    ...(query.value.state ? { state: query.value.state } : {}),
  }));
  /** @type {ReturnType<typeof listOf<Delivery>>} */
  const list = listOf("deliveries", () => ({ ...filter.value, payloads: false }));
  const { items } = list;
  const { tabs, read } = stateTabs(filter, list);
  const load = async () => void (await Promise.all([list.load(), read()]));
  const chosen = selectionOf(items, (each) => each.id);
  const search = (/** @type {Event} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    replaceQuery({ ...query.value, q: String(new FormData(form).get("q") ?? "").trim() });
  };
  const open = (/** @type {Delivery} */ each) => (location.hash = link(["deliveries", each.id]));
  const current = cursorKeys(items, (each) => each.id, { open, select: (each) => chosen.toggle(each.id) });
  const move = (/** @type {string} */ verb) => moveMany(verb, chosen, load);
  return html` <div class="head">
      <div>
        <h1>Deliveries</h1>
        <p>Every delivery that was accepted, newest first.</p>
      </div>
      <span class="spring"></span>
      ${operate(() => (isMovable(filter.value, "pending") ? html`<button type="button" @click=${() => moveMatching("retry", filter.value, load)}>Retry all that match…</button>` : null))}
      ${operate(() => (isMovable(filter.value, "pending", "processing") ? html`<button type="button" class="danger" @click=${() => moveMatching("cancel", filter.value, load)}>Cancel all that match…</button>` : null))}
    </div>
    <form role="search" @submit=${search}>
      <input
        type="search"
        name="q"
        data-search
        .value=${() => query.value.q ?? ""}
        aria-label="Search deliveries"
        placeholder="target:email stream:orders tag:vip reason:timeout late_over:5m, or any text in the payload or error"
      />
    </form>
    ${tabs}
    ${listCard({
      label: "Deliveries",
      list,
      heads: [
        [chosen.all(), "check"],
        ...["State", "Target"],
        ["Id", "narrow-hidden"],
        ["Stream or schedule", "narrow-hidden"],
        ["Attempt", "num narrow-hidden"],
        "Due",
        ["Reason", "narrow-hidden"],
      ],
      key: (each) => each.id,
      row: (row) => deliveryRow(row, chosen, current),
      empty: () => nothing(filter.value),
      below: chosen.bar(
        ["delivery", "deliveries"],
        html`<button type="button" @click=${() => move("retry")}>Retry now</button>
          <button type="button" class="danger" @click=${() => move("cancel")}>Cancel</button>`,
      ),
    })}`;
}

/** @param {{ value: Delivery }} row @param {ReturnType<typeof selectionOf>} chosen @param {{ value: string | null }} current */
function deliveryRow(row, chosen, current) {
  const id = row.value.id;
  const each = () => row.value;
  return html`<tr aria-selected=${() => String(chosen.has(id))} ?data-current=${() => current.value === id}>
    <td class="check">${chosen.box(id, `Select delivery ${id}`)}</td>
    <td class="fit">
      ${() => deliveryMark(each())}
      ${() => (typeof each().progress === "number" ? html`<span class="dim">${percent(each().progress ?? 0)}</span>` : null)}
    </td>
    <td class="clip"><a href=${link(["deliveries", id])}>${() => each().target}</a></td>
    <td class="mono clip narrow-hidden" title=${id}>${id.slice(0, 13)}</td>
    <td class="clip narrow-hidden">${() => each().stream ?? each().schedule ?? ""}</td>
    <td class="num narrow-hidden">${() => each().attempt}</td>
    <td class="fit">${() => momentOf(each().next_at ?? each().due_at)}</td>
    <td class="clip narrow-hidden" title=${() => each().error}>${() => each().reason ?? ""}</td>
  </tr>`;
}

/** A pending delivery that was tried already waits for a retry. @param {Delivery} delivery */
const shownState = (delivery) =>
  delivery.state === "pending" && delivery.attempt > 0 ? "retry" : delivery.state;

/** The state, with the disposition of a dead letter. @param {Delivery} delivery */
export const deliveryMark = (delivery) =>
  delivery.state === "dead" && delivery.disposition
    ? stateMark("dead", `dead, ${delivery.disposition.replaceAll("_", " ")}`)
    : stateMark(shownState(delivery));

/** @param {Record<string, string>} filter @returns {[string, string, string?]} */
const nothing = (filter) =>
  Object.keys(filter).length
    ? ["No delivery matches", `Nothing was found for ${writeSearch(filter)}.`]
    : [
        "No deliveries yet",
        "Accept the first one; it appears here at once.",
        `duly send https://example.org/hook --data '{"hello": "world"}'`,
      ];

/** All that match can be moved in these states, if something selects them. @param {Record<string, string>} filter @param {string[]} states */
const isMovable = (filter, ...states) => states.includes(filter.state) && Object.keys(filter).length > 1;

/** @param {string} verb @param {Record<string, string>} filter @param {() => Promise<void>} load */
function moveMatching(verb, filter, load) {
  const isRetry = verb === "retry";
  bulkDialog({
    title: isRetry ? "Make all that match due now" : "Cancel all that match",
    verb: isRetry ? "Retry now" : "Cancel them",
    doing: isRetry ? "Making deliveries due" : "Cancelling deliveries",
    noun: ["delivery", "deliveries"],
    kind: isRetry ? "primary" : "danger",
    path: `deliveries/${verb}`,
    which: filter,
    load,
  });
}

/** @param {string} verb @param {ReturnType<typeof selectionOf>} chosen @param {() => Promise<void>} load */
function moveMany(verb, chosen, load) {
  const ids = chosen.ids();
  const failed = /** @type {string[]} */ ([]);
  confirm({
    title: `${verb === "retry" ? "Retry" : "Cancel"} ${plural(ids.length, "delivery", "deliveries")}?`,
    text:
      verb === "retry"
        ? "They are due at once, with the attempts that they have left; dead letters get all of them again."
        : "They are not delivered. Those that run are asked to cancel, and end if their handlers obey.",
    verb: verb === "retry" ? "Retry now" : "Cancel them",
    kind: verb === "retry" ? "primary" : "danger",
    done: `${count(ids.length)} asked to ${verb}`,
    work: async () => {
      for (const id of ids) {
        await post(path("deliveries", id, verb)).catch((error) =>
          failed.push(`${id.slice(0, 8)}: ${error.message}`),
        );
      }
      chosen.clear();
      await load();
      if (failed.length)
        throw new Error(
          `${count(ids.length - failed.length)} done; refused: ${failed.slice(0, 3).join("; ")}`,
        );
    },
  });
}
