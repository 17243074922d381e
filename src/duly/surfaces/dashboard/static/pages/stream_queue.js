/** The queue of a stream: its head, those behind it, and which of them are released. */

import { path, post } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { link } from "../lib/router.js";
import { selectionOf } from "../lib/table.js";
import { confirm, kindOf, momentOf, stateMark } from "../lib/ui.js";
import { computed, html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Stream} Stream */
/** @typedef {import("../lib/types.js").Delivery} Delivery */

const SHOWN = 20;
/** The states in which the head has failed, so that those behind it can be released. */
const FAILED = new Set(["blocked", "retrying"]);

/** @param {() => Stream} stream @param {{ value: Delivery[] | null }} members @param {() => Promise<void>} load */
export function queue(stream, members, load) {
  // One that has left the queue runs by itself, so it has a moment of its own.
  const behind = computed(() =>
    (members.value ?? []).filter((each) => each.id !== stream().head?.id && each.next_at === null),
  );
  const chosen = selectionOf(behind, (each) => each.id);
  const canRelease = computed(() => FAILED.has(stream().state));
  return html`${() => {
    const { head } = stream();
    if (!members.value) return "Loading…";
    if (!head && !behind.value.length) return html`<p class="dim">Nothing waits.</p>`;
    return html`<ol class="timeline">
      ${head ? first(head) : null}
      ${behind.value.slice(0, SHOWN).map((each) => follower(each, canRelease.value ? chosen : null))}
      ${behind.value.length > SHOWN ? html`<li><span></span><a href=${link(["deliveries"], { q: `stream:${stream().name}`, state: "pending" })}>and more</a></li>` : null}
    </ol>`;
  }}
  ${chosen.bar(
    ["delivery", "deliveries"],
    html`<button type="button" class="primary" @click=${() => release(stream(), "only", chosen, load)}>
        Release these</button
      ><button type="button" @click=${() => release(stream(), "keep", chosen, load)}>
        Keep these, release the others
      </button>`,
  )}`;
}

/** @param {NonNullable<Stream["head"]>} head */
const first = (head) =>
  html`<li>
    <span class=${kindOf(head.state)}>${icon(head.state)}</span>
    <div class="stack">
      <div>
        <b>Head</b>
        <a href=${link(["deliveries", head.id])} class="mono">${head.id.slice(0, 13)}</a>
        ${stateMark(head.state)}
      </div>
      <div class="dim">
        position ${head.position}, attempt
        ${head.attempt}${head.next_at ? html`, next ${momentOf(head.next_at)}` : null}
      </div>
      ${head.error ? html`<p class="bad"><b>${head.reason}</b> ${head.error}</p>` : null}
    </div>
  </li>`;

/** @param {Delivery} each @param {ReturnType<typeof selectionOf> | null} chosen */
const follower = (each, chosen) =>
  html`<li>
    <span class="idle">${icon("pending")}</span>
    <div>
      ${chosen?.box(each.id, `Select ${each.id}`)}
      <a href=${link(["deliveries", each.id])} class="mono">${each.id.slice(0, 13)}</a>
      <span class="dim">${each.target}, position ${each.position}, due</span> ${momentOf(each.due_at)}
    </div>
  </li>`;

/** @param {Stream} stream @param {"only" | "keep"} field @param {ReturnType<typeof selectionOf>} chosen @param {() => Promise<void>} load */
function release(stream, field, chosen, load) {
  const number = plural(chosen.size(), "delivery", "deliveries");
  confirm({
    title: field === "only" ? `Release ${number}?` : `Release all except ${number}?`,
    text: "They leave the queue and run beside the head, not in order. The head and the others stay where they are.",
    verb: "Release",
    done: "Released",
    work: async () => {
      await post(path("streams", stream.name, "release"), { [field]: chosen.ids() });
      chosen.clear();
      await load();
    },
  });
}
