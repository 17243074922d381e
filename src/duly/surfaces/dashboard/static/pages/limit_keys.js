/** The keys of a target with limits for each key: what runs, and what waits. */

import { path } from "../lib/api.js";
import { count } from "../lib/format.js";
import { listOf } from "../lib/list.js";
import { listCard } from "../lib/table.js";
import { momentOf } from "../lib/ui.js";
import { html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").LimitKey} LimitKey */

/** @param {import("../lib/router.js").Place} place */
export function render(place) {
  const target = place.parts[1];
  /** @type {ReturnType<typeof listOf<LimitKey>>} */
  const list = listOf(path("limits", target, "keys"), () => ({}), { every: 2 });
  return html` <nav aria-label="Breadcrumb"><a href="#/limits">Limits</a></nav>
    <div class="head">
      <div>
        <h1>${target}</h1>
        <p>Limits for each key: the keys that were used lately.</p>
      </div>
    </div>
    ${listCard({
      label: "Keys",
      list,
      heads: ["Key", ["Running", "num"], ["Waiting", "num"], ["Next start", "narrow-hidden"]],
      key: (each) => each.key,
      row: keyRow,
      empty: () => [
        "No key was used lately",
        "Deliver with a limit key.",
        `duly deliver ${target} --limit-key customer:7`,
      ],
    })}`;
}

/** @param {{ value: LimitKey }} row */
function keyRow(row) {
  const each = () => row.value;
  return html`<tr>
    <td class="clip">${each().key}</td>
    <td class="num">${() => count(each().in_flight_now)}</td>
    <td class="num">${() => count(each().waiting)}</td>
    <td class="fit narrow-hidden">${() => momentOf(each().next_at)}</td>
  </tr>`;
}
