/** Schedules: what runs when, found by typing, and paused or triggered from the list. */

import { path, post } from "../lib/api.js";
import { bulkDialog } from "../lib/bulk.js";
import { count, plural } from "../lib/format.js";
import { listOf } from "../lib/list.js";
import { sparkReader } from "../lib/outcomes.js";
import { link, place, replaceQuery } from "../lib/router.js";
import { operate } from "../lib/session.js";
import { cursorKeys, listCard, selectionOf } from "../lib/table.js";
import { attempt, momentOf, stateMark } from "../lib/ui.js";
import { computed, html, signal } from "../lib/view.js";
import { add } from "./schedule_form.js";
import { orphanNotice } from "./schedule_orphans.js";

/** @typedef {import("../lib/types.js").ScheduleSummary} Summary */
/** @typedef {"pause" | "resume"} Verb */

export function render() {
  const wanted = computed(() => place.value.query.q ?? "");
  /** @type {ReturnType<typeof listOf<Summary>>} */
  const list = listOf("schedules", () => ({ text: wanted.value }), { every: 5 });
  const { items, load } = list;
  const hasItems = computed(() => items.value.length > 0);
  const chosen = selectionOf(items, (each) => each.name);
  const current = cursorKeys(items, (each) => each.name, {
    open: (each) => (location.hash = link(["schedules", each.name])),
    select: (each) => chosen.toggle(each.name),
  });
  const sparkOf = sparkReader();
  const type = (/** @type {Event} */ event) =>
    replaceQuery({ q: /** @type {HTMLInputElement} */ (event.target).value });
  const trigger = async () => {
    const names = chosen.ids();
    const work = async () => {
      for (const name of names) await post(path("schedules", name, "trigger"));
    };
    await attempt(`${plural(names.length, "schedule")} triggered`, work);
    chosen.clear();
    await load();
  };
  const moveChosen = (/** @type {Verb} */ verb) => move(verb, { names: chosen.ids() }, load, chosen.clear);
  const moveMatching = (/** @type {Verb} */ verb) =>
    move(verb, wanted.value ? { text: wanted.value } : { all: true }, load);
  return html` <div class="head">
      <div>
        <h1>Schedules</h1>
        <p>What runs when: cron, intervals, single moments and days of the year.</p>
      </div>
      <span class="spring"></span>
      <div class="row">
        ${operate(() => (hasItems.value ? matchingMoves(wanted, moveMatching) : null))}
        ${operate(() => html`<button type="button" class="primary" @click=${() => add(load)}>Add a schedule</button>`)}
      </div>
    </div>
    ${orphanNotice(load)}
    <input
      type="search"
      data-search
      .value=${wanted.value}
      @input=${type}
      aria-label="Search schedules"
      placeholder="Part of a name"
    />
    ${listCard({
      label: "Schedules",
      list,
      heads: [
        [chosen.all(), "check"],
        ...["State", "Name"],
        ["Rule", "narrow-hidden"],
        ["Target", "wide-only"],
        "Next",
        ["Last", "narrow-hidden"],
        ["Last day", "narrow-hidden"],
        ["Runs", "num narrow-hidden"],
      ],
      key: (each) => each.name,
      row: (row) =>
        html`<tr
          aria-selected=${() => String(chosen.has(row.value.name))}
          ?data-current=${() => current.value === row.value.name}
        >
          <td class="check">${chosen.box(row.value.name, `Select ${row.value.name}`)}</td>
          <td class="fit">${() => stateMark(row.value.state)}</td>
          <td class="clip"><a href=${link(["schedules", row.value.name])}>${row.value.name}</a></td>
          <td class="clip narrow-hidden">${() => row.value.problem ?? row.value.description}</td>
          <td class="clip wide-only" title=${() => row.value.target}>${() => row.value.target}</td>
          <td class="fit">${() => momentOf(row.value.next_at)}</td>
          <td class="fit narrow-hidden">${() => momentOf(row.value.last_fired_at)}</td>
          <td class="fit narrow-hidden">${sparkOf({ schedule: row.value.name })}</td>
          <td class="num fit narrow-hidden">${() => runsOf(row.value)}</td>
        </tr>`,
      empty: () =>
        wanted.value
          ? ["No schedule matches", `No name contains “${wanted.value}”.`]
          : [
              "No schedules yet",
              "Add one here, in Python, or on the command line.",
              "duly schedules add report https://example.org/report --cron '0 9 * * MON'",
            ],
      below: chosen.bar(
        ["schedule"],
        html`<button type="button" @click=${() => moveChosen("pause")}>Pause</button
          ><button type="button" @click=${() => moveChosen("resume")}>Resume</button
          ><button type="button" @click=${trigger}>Trigger now</button>`,
      ),
    })}`;
}

/** How often it has run, and what was merged or skipped. @param {Summary} schedule */
function runsOf({ runs, merged, skipped }) {
  const left = /** @type {[number | null, string][]} */ ([
    [merged, "merged"],
    [skipped, "skipped"],
  ]).filter(([number]) => number);
  const notes = left.map(([number, word]) => html` <span class="warn">${count(number ?? 0)} ${word}</span>`);
  return html`${notes} ${count(runs ?? 0)}`;
}

/** @param {{ value: string }} wanted @param {(verb: Verb) => void} move */
const matchingMoves = (wanted, move) => {
  const which = () => (wanted.value ? "all that match" : "all");
  return html`<button type="button" @click=${() => move("pause")}>Pause ${which}…</button>
    <button type="button" @click=${() => move("resume")}>Resume ${which}…</button>`;
};

/**
 * Pause or resume many; those that are so already are not counted.
 * @param {Verb} verb @param {Record<string, unknown>} which @param {() => Promise<void>} load @param {() => void} [begun]
 */
function move(verb, which, load, begun) {
  const isPause = verb === "pause";
  const reason = signal("");
  const fromPause = signal(false);
  bulkDialog({
    title: isPause ? "Pause schedules" : "Resume schedules",
    verb: isPause ? "Pause" : "Resume",
    doing: isPause ? "Pausing schedules" : "Resuming schedules",
    noun: ["schedule", "schedules"],
    path: `schedules/${verb}`,
    which,
    load,
    begun,
    body: () => (isPause ? { reason: reason.value || null } : { from_pause: fromPause.value }),
    fields: isPause
      ? html`<label
          >Why (optional)<input
            type="text"
            @input=${(/** @type {Event} */ event) => (reason.value = /** @type {HTMLInputElement} */ (event.target).value)}
        /></label>`
      : html`<label class="row"
          ><input
            type="checkbox"
            @change=${(/** @type {Event} */ event) => (fromPause.value = /** @type {HTMLInputElement} */ (event.target).checked)}
          />Deliver what was missed, by the catch-up rule of each</label
        >`,
  });
}
