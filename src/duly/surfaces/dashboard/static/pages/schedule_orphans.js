/** Schedules that left the code: a notice above the list of schedules, with a way to remove them. */

import { post } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { listOf } from "../lib/list.js";
import { link } from "../lib/router.js";
import { operate } from "../lib/session.js";
import { confirm } from "../lib/ui.js";
import { html, keyed, when } from "../lib/view.js";

/** @typedef {import("../lib/types.js").OrphanedSchedule} Orphan */

/** The notice, while there are any. @param {() => Promise<void>} reload called after a removal */
export function orphanNotice(reload) {
  /** @type {ReturnType<typeof listOf<Orphan>>} */
  const list = listOf("orphaned-schedules", () => ({}), { every: 30 });
  const { items, next, load } = list;
  const remove = () =>
    ask(items.value, async () => {
      await load();
      await reload();
    });
  return html`${when(
    () => items.value.length,
    () =>
      html`<section class="banner warn" aria-label="Schedules that left the code">
        ${icon("warning")}
        <span>
          The code no longer declares
          ${() => plural(items.value.length, "schedule")}${() => (next.value ? " or more" : "")}, and
          ${() => (items.value.length === 1 ? "it still delivers:" : "they still deliver:")}
          ${keyed(
            () => items.value,
            (each) => each.name,
            (each) =>
              html`<span>
                <a href=${link(["schedules", each.value.name])}>${each.value.name}</a>
                <span class="dim">(${() => each.value.declared_in})</span>
              </span>`,
          )}
        </span>
        ${operate(() => html`<button type="button" @click=${remove}>Remove…</button>`)}
      </section>`,
  )}`;
}

/** Ask, and remove those that were shown. @param {Orphan[]} orphans @param {() => Promise<void>} removed */
function ask(orphans, removed) {
  const many = plural(orphans.length, "schedule");
  const names = orphans.map((each) => each.name);
  confirm({
    title: `Remove ${many}`,
    text: html`Their pending deliveries are cancelled; attempts in progress continue: ${names.join(", ")}`,
    verb: "Remove",
    kind: "danger",
    done: `${many} removed`,
    work: async () => {
      await post("orphaned-schedules/remove", { names });
      await removed();
    },
  });
}
