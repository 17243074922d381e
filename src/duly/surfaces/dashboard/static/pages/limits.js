/** Limits: how many deliveries of a target run at once and start a second, and what waits. */

import { count } from "../lib/format.js";
import { listOf } from "../lib/list.js";
import { link } from "../lib/router.js";
import { listCard } from "../lib/table.js";
import { momentOf } from "../lib/ui.js";
import { html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Limit} Limit */
/** @typedef {import("../lib/types.js").PerKey} PerKey */

const none = () => html`<span class="dim">–</span>`;
const ENDPOINT = "endpoint:";

export function render() {
  /** @type {ReturnType<typeof listOf<Limit>>} */
  const list = listOf("limits", () => ({}), { every: 2 });
  return html` <div class="head">
      <div>
        <h1>Limits</h1>
        <p>
          What all workers together keep to: deliveries of a target at once, and a second. Code declares those
          of handlers.
        </p>
      </div>
    </div>
    ${listCard({
      label: "Limits",
      list,
      heads: [
        "Target",
        "At once",
        ["Rate", "num"],
        ["For each key", "narrow-hidden"],
        ["Waiting", "num"],
        ["Next start", "narrow-hidden"],
      ],
      key: (each) => each.target,
      row: limitRow,
      empty: () => [
        "No target has limits",
        "Give a handler a limit in its code, or edit an endpoint.",
        '@app.handler("report", in_flight=20)',
      ],
    })}`;
}

/** @param {{ value: Limit }} row */
function limitRow(row) {
  const each = () => row.value;
  return html`<tr>
    <td class="clip"><a href=${placeOf(each().target)}>${each().target}</a></td>
    <td class="fit">${() => running(each())}</td>
    <td class="num">${() => (each().rate === null ? none() : `${each().rate} per second`)}</td>
    <td class="clip narrow-hidden">${() => keysOf(each())}</td>
    <td class="num">
      <a href=${link(["deliveries"], { q: `target:${each().target}`, state: "pending" })}
        >${() => count(each().waiting)}</a
      >
    </td>
    <td class="fit narrow-hidden">${() => momentOf(each().next_at)}</td>
  </tr>`;
}

/** @param {Limit} limit */
function keysOf(limit) {
  const words = keyWords(limit.per_key);
  return words ? html`<a href=${link(["limits", limit.target])}>${words}</a>` : none();
}

/** @param {Limit} limit */
function running(limit) {
  if (limit.in_flight === null) return `${limit.in_flight_now}`;
  return html`<progress max=${limit.in_flight} value=${limit.in_flight_now} aria-label="In flight"></progress>
    ${limit.in_flight_now} <span class="dim">of ${limit.in_flight}</span>`;
}

/** @param {string} target */
const placeOf = (target) =>
  target.startsWith(ENDPOINT)
    ? link(["endpoints", target.slice(ENDPOINT.length)])
    : link(["deliveries"], { q: `target:${target}` });

/** Limits for each key in words. @param {PerKey | null} found */
export function keyWords(found) {
  if (!found) return null;
  const parts = [
    found.in_flight === null ? "" : `${found.in_flight} at once`,
    found.rate === null ? "" : `${found.rate} per second`,
  ];
  return `${found.name}: ${parts.filter(Boolean).join(", ")}`;
}
