/** One schedule: its rule in words, its next runs, what it made, and what can be done with it. */

import { get, path, post, remove, send } from "../lib/api.js";
import { absolute, count, duration } from "../lib/format.js";
import { formDialog } from "../lib/form.js";
import { icon } from "../lib/icons.js";
import { member, pretty } from "../lib/json.js";
import { documentOf } from "../lib/list.js";
import { outcomeCard } from "../lib/outcomes.js";
import { go, link } from "../lib/router.js";
import { operate } from "../lib/session.js";
import {
  attempt,
  confirm,
  factList,
  fullMoment,
  longText,
  momentOf,
  stateMark,
  troubleOf,
} from "../lib/ui.js";
import { computed, html, signal, when } from "../lib/view.js";
import { edit } from "./schedule_form.js";
import { leftOut, notes, wall } from "./schedule_runs.js";

/** @typedef {import("../lib/types.js").Schedule} Schedule */
/** @typedef {import("../lib/types.js").UpcomingRun} UpcomingRun */
/** @typedef {import("../lib/types.js").Delivery} Delivery */

/** @param {import("../lib/router.js").Place} place */
export function render(place) {
  const name = place.parts[1];
  const read = documentOf(async () => {
    const [text, next, page] = await Promise.all([
      send("GET", path("schedules", name)),
      get(path("schedules", name, "preview"), { n: 8 }),
      get("deliveries", { schedule: name, limit: 12 }),
    ]);
    const { items } = /** @type {{ items: Delivery[] }} */ (page);
    return { text, next: /** @type {UpcomingRun[]} */ (next), made: items };
  }, 5);
  const { load } = read;
  const text = computed(() => read.found.value?.text ?? "");
  const schedule = computed(() => (text.value ? /** @type {Schedule} */ (JSON.parse(text.value)) : null));
  const payload = computed(() => (text.value ? pretty(member(text.value, "payload") ?? "null") : ""));
  const next = computed(() => read.found.value?.next ?? []);
  const made = computed(() => read.found.value?.made ?? []);
  return html` <nav aria-label="Breadcrumb"><a href="#/schedules">Schedules</a></nav>
    ${troubleOf(read)}
    ${when(
      () => schedule.value,
      () => {
        const found = () => /** @type {Schedule} */ (schedule.value);
        return html` <div class="head">
            <div>
              <h1>${name}</h1>
              <p class="row">${() => stateMark(found().state)}<span>${() => found().description}</span></p>
            </div>
            <span class="spring"></span>${operate(() => moves(found(), payload.value, load))}
          </div>
          ${() => (found().paused_at ? html`<div class="banner warn">${icon("paused")}<span>Paused ${momentOf(found().paused_at)}${found().pause_reason ? `: ${found().pause_reason}` : ""}</span></div>` : null)}
          ${outcomeCard({ schedule: name })}
          <div class="columns">
            <section class="card">
              <header><h2>Next runs</h2></header>
              <div class="table-wrap">
                <table>
                  <thead>
                    <tr>
                      <th>In its zone</th>
                      <th>Here</th>
                      <th>From now</th>
                    </tr>
                  </thead>
                  <tbody>
                    ${() =>
                      next.value.map(
                        (each) =>
                          html`${each.left_out.map(
                              (left) =>
                                html`<tr>
                                  <td class="dim" colspan="3">${leftOut(left)}</td>
                                </tr>`,
                            )}
                            <tr>
                              <td class="fit">${wall(each.local)}</td>
                              <td>${absolute(each.at)} ${notes(each)}</td>
                              <td class="fit dim">${momentOf(each.at)}</td>
                            </tr>`,
                      )}
                  </tbody>
                </table>
              </div>
            </section>
            <section class="card">
              <header>
                <h2>Last deliveries</h2>
                <span class="spring"></span><a href=${link(["deliveries"], { q: `schedule:${name}` })}>all</a>
              </header>
              <div class="table-wrap">
                <table>
                  <thead>
                    <tr>
                      <th>State</th>
                      <th>For</th>
                      <th>Late by</th>
                    </tr>
                  </thead>
                  <tbody>
                    ${() =>
                      made.value.map(
                        (each) =>
                          html`<tr>
                            <td class="fit">
                              <a href=${link(["deliveries", each.id])}>${stateMark(each.state)}</a>
                            </td>
                            <td class="fit">
                              ${momentOf(each.scheduled_for ?? each.due_at)}${each.merged ? html` <span class="dim">and ${each.merged} merged</span>` : null}
                            </td>
                            <td class="fit">
                              ${each.late_seconds === null || each.late_seconds === undefined ? "" : duration(each.late_seconds)}
                            </td>
                          </tr>`,
                      )}
                  </tbody>
                </table>
              </div>
            </section>
            <section class="card">
              <header><h2>Facts</h2></header>
              <div class="inside">${() => facts(found())}</div>
            </section>
            <section class="card">
              <header><h2>Payload</h2></header>
              <div class="inside">${longText(() => payload.value, "Payload")}</div>
            </section>
          </div>`;
      },
    )}`;
}

/** @param {Schedule} schedule */
function facts(schedule) {
  return factList([
    ["Target", schedule.target],
    ["Time zone", schedule.rule.tz ?? schedule.rule.any_of?.find((each) => each.tz)?.tz ?? null],
    ["Calendar", schedule.rule.calendar ?? schedule.rule.any_of?.find((each) => each.calendar)?.calendar],
    ["Runs", count(schedule.runs ?? 0)],
    ["Merged", count(schedule.merged ?? 0)],
    ["Skipped", count(schedule.skipped ?? 0)],
    ["Last run", fullMoment(schedule.last_fired_at)],
    ["After an absence", schedule.catch_up],
    ["Overlap", schedule.overlap],
    ["Jitter", schedule.jitter ? duration(schedule.jitter) : null],
    ["Stream", schedule.stream],
    ["Tags", schedule.tags?.join(", ")],
    ["Starts", schedule.start && fullMoment(schedule.start)],
    ["Ends", schedule.end && fullMoment(schedule.end)],
    ["At most", schedule.max_runs],
    ["Priority", schedule.priority],
    ["Declared in", schedule.declared_in],
    ["Created", fullMoment(schedule.created_at)],
    ["Changed", fullMoment(schedule.updated_at)],
  ]);
}

/** @param {Schedule} schedule @param {string} payload @param {() => Promise<void>} load */
function moves(schedule, payload, load) {
  const where = (/** @type {string} */ verb) => path("schedules", schedule.name, verb);
  const move = (/** @type {string} */ verb, /** @type {string} */ done) => async () => {
    if (await attempt(done, () => post(where(verb)))) await load();
  };
  const drop = () =>
    confirm({
      title: `Remove ${schedule.name}?`,
      text: "Nothing more is made of it; what it has made stays.",
      verb: "Remove it",
      kind: "danger",
      done: "Removed",
      work: async () => {
        await remove(path("schedules", schedule.name));
        go(["schedules"]);
      },
    });
  return html`<div class="row">
    <button type="button" class="primary" @click=${move("trigger", "One delivery was made now")}>
      Trigger now
    </button>
    ${schedule.paused_at ? html`<button type="button" @click=${move("resume", "Resumed")}>Resume</button>` : html`<button type="button" @click=${move("pause", "Paused")}>Pause</button>`}
    <button type="button" @click=${() => edit(schedule, payload, load)}>Edit</button>
    <button type="button" @click=${() => backfill(schedule, load)}>Backfill…</button>
    <button type="button" class="danger" @click=${drop}>Remove</button>
  </div>`;
}

/** Make the deliveries of a past range; counted first. @param {Schedule} schedule @param {() => Promise<void>} load */
function backfill(schedule, load) {
  const yesterday = new Date(Date.now() - 86_400_000).toISOString().slice(0, 16);
  const rangeOf = (/** @type {Record<string, string>} */ values) => ({
    start: `${values.start}:00Z`,
    end: `${values.end}:00Z`,
  });
  formDialog({
    title: `Backfill ${schedule.name}`,
    verb: "Make them",
    done: "They are due now",
    fields: [
      { name: "start", label: "From (UTC)", value: yesterday },
      { name: "end", label: "To (UTC)", value: new Date().toISOString().slice(0, 16) },
    ],
    below: (values) => {
      const counted = signal("");
      const look = async () => {
        const found = await post(where(schedule), { ...rangeOf(values()), dry_run: true }).catch((error) => ({
          error,
        }));
        counted.value =
          "error" in found
            ? found.error.message
            : `${count(found.moments)} moments; those that were made already are left out.`;
      };
      return html`<div class="row">
        <button type="button" class="small" @click=${look}>Count them</button
        ><span role="status">${() => counted.value}</span>
      </div>`;
    },
    work: async (values) => {
      await post(where(schedule), rangeOf(values));
      await load();
    },
  });
}

/** @param {Schedule} schedule */
const where = (schedule) => path("schedules", schedule.name, "backfill");
