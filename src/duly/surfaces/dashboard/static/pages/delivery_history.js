/** What happened to a delivery: attempts with their answers, changes of state, and steps. */

import { absolute, duration, relative } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { pretty } from "../lib/json.js";
import { kindOf, shapeOf } from "../lib/ui.js";
import { html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").DeliveryDetail} DeliveryDetail */
/** @typedef {import("../lib/types.js").Attempt} Attempt */
/** @typedef {import("../lib/types.js").Transition} Transition */

/** Attempts and changes of state, latest first. @param {DeliveryDetail} delivery */
export function timeline(delivery) {
  const tries = delivery.attempts.map((each) => ({ at: each.finished_at, node: attemptItem(each) }));
  const known = new Set(delivery.attempts.map((each) => each.finished_at));
  const changes = delivery.transitions
    .filter((each) => !known.has(each.at))
    .map((each) => ({
      at: each.at,
      node: changeItem(each),
    }));
  const all = [...tries, ...changes].sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
  return html`<ol class="timeline">
    ${all.map((each) => each.node)}
  </ol>`;
}

/** Changes that leave the state as it is have words of their own. @type {Record<string, string>} */
const WORDS = {
  given_up: "given up for good",
  hold_released: "released",
  replaced: "contents replaced by a later delivery",
  superseded: "superseded by a later delivery",
};

/** @param {Transition} each */
function changeItem(each) {
  const isMove = each.before !== each.after;
  const states = each.before ? `${each.before} to ${each.after}` : each.after;
  const facts = [isMove && states, causeOf(each), each.worker && `worker ${each.worker}`];
  const note = each.reason === "generation" ? null : each.note;
  return html`<li>
    ${mark(isMove ? each.after : each.by)}
    <div>
      <b>${WORDS[each.by] ?? each.by.replaceAll("_", " ")}</b>
      <span class="dim">${facts.filter(Boolean).join(", ")}</span>
      ${note ? html`<p>${note}</p>` : null}
      <div class="dim" title=${absolute(each.at)}>${() => relative(each.at)}</div>
    </div>
  </li>`;
}

/** What made a change, in words. @param {Transition} change */
function causeOf({ reason, note }) {
  if (reason === "recovery") return "by a recovery policy";
  if (reason === "generation") return `in generation ${note}`;
  if (reason === "superseded") return "a later one with its key waits";
  return reason === "operator" ? "by an operator" : null;
}

/** @param {string} state */
const mark = (state) => html`<span class=${kindOf(state)}>${icon(shapeOf(state))}</span>`;

/** @param {Attempt} each */
function attemptItem(each) {
  const took = each.started_at
    ? duration((Date.parse(each.finished_at) - Date.parse(each.started_at)) / 1000)
    : null;
  return html`<li>
    ${mark(each.outcome)}
    <div class="stack">
      <div>
        <b>Attempt ${each.attempt}: ${each.outcome}</b>
        <span class="dim"
          >${took ? `took ${took}` : "its worker died"}${each.worker ? `, worker ${each.worker}` : ""}</span
        >
        <div class="dim" title=${absolute(each.finished_at)}>
          ${() => relative(each.finished_at)}${each.next_at ? `, the next at ${absolute(each.next_at)}` : ""}
        </div>
      </div>
      ${each.error ? html`<p class=${each.outcome === "dead" ? "bad" : "warn"}><b>${each.reason}</b> ${each.error}</p>` : null}
      ${
        each.answer
          ? html`<details>
              <summary>Answer</summary>
              <pre tabindex="0">${pretty(JSON.stringify(each.answer))}</pre>
            </details>`
          : null
      }
      ${
        each.traceback
          ? html`<details>
              <summary>Traceback${each.exception ? ` of ${each.exception}` : ""}</summary>
              <pre tabindex="0">${each.traceback}</pre>
            </details>`
          : null
      }
    </div>
  </li>`;
}

/** @param {DeliveryDetail} delivery */
export function steps(delivery) {
  if (!delivery.steps.length) return null;
  return html`<section class="card">
    <header><h2>Steps</h2></header>
    <div class="table-wrap">
      <table>
        <thead>
          <tr>
            <th>Name</th>
            <th class="num">Attempt</th>
            <th>Done</th>
            <th>Result</th>
          </tr>
        </thead>
        <tbody>
          ${delivery.steps.map(
            (each) =>
              html`<tr>
                <td>${each.name}</td>
                <td class="num">${each.attempt}</td>
                <td class="fit">${() => relative(each.done_at)}</td>
                <td class="clip mono">${JSON.stringify(each.result)}</td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}
