/** Figures about failures: attempts, reasons, waiting retries, and what looks like poison. */

import { get } from "../lib/api.js";
import { count, plural } from "../lib/format.js";
import { keepFresh, update } from "../lib/live.js";
import { PERIODS, period, periodChoice } from "../lib/outcomes.js";
import { link } from "../lib/router.js";
import { errorBanner, momentOf } from "../lib/ui.js";
import { effect, html, signal } from "../lib/view.js";

/** @typedef {import("../lib/types.js").FailureStats} FailureStats */

/** The figures, as one view of the dead letters. */
export function figures() {
  const stats = signal(/** @type {FailureStats | null} */ (null));
  const error = signal(/** @type {unknown} */ (null));
  const load = async () => {
    try {
      update(stats, await get("stats/failures", { span: PERIODS[period.value].span }));
      error.value = null;
    } catch (problem) {
      error.value = problem;
    }
  };
  effect(() => {
    void period.value;
    keepFresh(load, 10);
  });
  return html` ${() => (error.value ? errorBanner(error.value, load) : null)} ${periodChoice()}
  ${() => (stats.value ? shown(stats.value) : html`<p class="dim">Loading…</p>`)}`;
}

/** @param {FailureStats} stats */
const shown = (stats) =>
  html`<div class="columns">
      ${distribution("Failed attempts by reason", "Reason", stats.reasons, isCapped(stats, "reasons"))}
      ${distribution("Deliveries by attempts", "Attempts", stats.attempts, isCapped(stats, "attempts"))}
    </div>
    <div class="columns">${retries(stats)} ${poison(stats)}</div>`;

/** @param {FailureStats} stats @param {string} name */
const isCapped = (stats, name) => (stats.capped.includes(name) ? stats.counted_up_to : Infinity);

/**
 * Counts by name, the largest first, each with a bar.
 * @param {string} title @param {string} column @param {Record<string, number>} counts @param {number} looked
 */
function distribution(title, column, counts, looked) {
  const rows = Object.entries(counts);
  if (column === "Reason") rows.sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...rows.map(([, many]) => many));
  const note = looked === Infinity ? "" : `of the newest ${count(looked)}`;
  return html`<section class="card" aria-label=${title}>
    <header>
      <h2>${title}</h2>
      <span class="dim">${note}</span>
    </header>
    ${rows.length ? bars(column, rows, most) : html`<div class="empty"><p>None in this period.</p></div>`}
  </section>`;
}

/** @param {string} column @param {[string, number][]} rows @param {number} most */
const bars = (column, rows, most) =>
  html`<div class="table-wrap">
    <table>
      <thead>
        <tr>
          <th>${column}</th>
          <th class="num">Count</th>
          <th class="narrow-hidden" aria-hidden="true"></th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ([name, many]) =>
            html`<tr>
              <td class="clip">${name}</td>
              <td class="num">${count(many)}</td>
              <td class="narrow-hidden" aria-hidden="true">
                <progress max=${most} value=${many}></progress>
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;

/** @param {FailureStats} stats */
const retries = ({ retries }) =>
  html`<section class="card" aria-label="Waiting retries">
    <header><h2>Waiting retries</h2></header>
    <div class="inside">
      <p>${plural(retries.count, "delivery waits", "deliveries wait")} for another attempt.</p>
      ${retries.count ? html`<p class="dim">The first is due ${momentOf(retries.next_at)}, the last ${momentOf(retries.last_at)}.</p>` : null}
    </div>
  </section>`;

/** @param {FailureStats} stats */
const poison = ({ poison }) =>
  html`<section class="card" aria-label="Likely poison">
    <header><h2>Likely poison</h2></header>
    <div class="inside">
      <p>${plural(poison.count, "delivery has", "deliveries have")} killed a worker.</p>
      ${poison.first.map(
        (each) =>
          html`<p>
            <a href=${link(["deliveries", each.id])}>${each.target}</a>
            <span class="dim">${plural(each.crashes, "crash", "crashes")}</span>
          </p>`,
      )}
    </div>
  </section>`;
