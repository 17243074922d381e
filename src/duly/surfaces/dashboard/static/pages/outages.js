/** Outages of the last week: when nothing was attempted although deliveries were due. */

import { get } from "../lib/api.js";
import { count, duration } from "../lib/format.js";
import { link } from "../lib/router.js";
import { messageOf, momentOf } from "../lib/ui.js";
import { html, signal } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Outage} Outage */

const WEEK = 7 * 86400;

/** A card with the outages, if there were any. It is read once: it examines many deliveries. */
export function outageCard() {
  const outages = signal(/** @type {Outage[]} */ ([]));
  const error = signal(/** @type {unknown} */ (null));
  const load = async () => {
    try {
      outages.value = (await get("stats/outages", { span: WEEK })).outages;
    } catch (problem) {
      error.value = problem;
    }
  };
  void load();
  return html`${() => (error.value ? html`<p class="dim">Outages are not known: ${messageOf(error.value)}</p>` : null)}
  ${() => (outages.value.length ? shown(outages.value) : null)}`;
}

/** @param {Outage[]} outages */
const shown = (outages) =>
  html`<section class="card" aria-label="Outages">
    <header>
      <h2>Outages</h2>
      <span class="dim">nothing was attempted although deliveries were due, in the last week</span>
      <span class="spring"></span>
      <a class="button" href=${link(["deliveries"], { q: "late_over:5m" })}>Late deliveries</a>
    </header>
    <div class="table-wrap">
      <table>
        <thead>
          <tr>
            <th>Began</th>
            <th>Ended</th>
            <th>Lasted</th>
            <th class="num">Late</th>
            <th class="narrow-hidden">Most late</th>
            <th class="narrow-hidden">Median</th>
            <th class="narrow-hidden">Worked off</th>
          </tr>
        </thead>
        <tbody>
          ${outages.map(
            (each) =>
              html`<tr>
                <td class="fit">${momentOf(each.began_at)}</td>
                <td class="fit">
                  ${each.ended_at ? momentOf(each.ended_at) : html`<span class="bad">it goes on</span>`}
                </td>
                <td class="fit">${duration(each.seconds)}</td>
                <td class="num">${count(each.late)}</td>
                <td class="fit narrow-hidden">${duration(each.largest_late_seconds)}</td>
                <td class="fit narrow-hidden">${duration(each.median_late_seconds)}</td>
                <td class="fit narrow-hidden">
                  ${each.worked_off_at ? momentOf(each.worked_off_at) : `${count(each.waiting)} wait`}
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
