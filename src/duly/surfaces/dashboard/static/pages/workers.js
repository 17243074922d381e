/** Workers: which are alive, how busy they are, and how to drain one. */

import { path, post } from "../lib/api.js";
import { duration, now, plural } from "../lib/format.js";
import { listOf } from "../lib/list.js";
import { operate } from "../lib/session.js";
import { listCard, OPERATIONS } from "../lib/table.js";
import { attempt, momentOf, stateMark } from "../lib/ui.js";
import { computed, html } from "../lib/view.js";
import { outageCard } from "./outages.js";

/** @typedef {import("../lib/types.js").Worker} Worker */

export function render() {
  /** @type {ReturnType<typeof listOf<Worker>>} */
  const list = listOf("workers", () => ({}), { every: 2 });
  return html` <div class="head">
      <div>
        <h1>Workers</h1>
        <p>The processes that carry out deliveries, live ones first.</p>
      </div>
    </div>
    ${listCard({
      label: "Workers",
      list,
      heads: [
        ...["State", "Worker", "Heartbeat", "Load"],
        ["Handlers", "narrow-hidden"],
        ["Version", "narrow-hidden"],
        ["Generation", "narrow-hidden"],
        ["Started", "narrow-hidden"],
        [OPERATIONS, ""],
      ],
      key: (each) => each.id,
      row: (row) => workerRow(row, list.load),
      empty: () => [
        "No worker has run yet",
        "Start one: it takes deliveries as soon as it runs.",
        "duly serve",
      ],
    })}
    ${outageCard()}`;
}

/** @param {Worker} worker */
const stateOf = (worker) => {
  if (!worker.alive) return "stopped";
  return worker.draining_at ? "draining" : "alive";
};

/** @param {{ value: Worker }} row @param {() => Promise<void>} load */
function workerRow(row, load) {
  const each = () => row.value;
  const move = async (/** @type {string} */ verb, /** @type {string} */ done) => {
    if (await attempt(done, () => post(path("workers", each().id, verb)))) await load();
  };
  const state = computed(() => stateOf(each())); // the button stays while only the heartbeat changes
  const silent = () => (now.value - Date.parse(each().beat_at)) / 1000;
  return html`<tr>
    <td class="fit">
      ${() => stateMark(stateOf(each()), each().alive ? undefined : (each().ended_how ?? "dead"))}
    </td>
    <td class="clip"><b>${each().id}</b> <span class="dim">${each().name}</span></td>
    <td class="fit">
      ${() => (each().alive && silent() > each().lease ? html`<span class="bad">silent for ${duration(silent())}</span>` : momentOf(each().beat_at))}
    </td>
    <td class="fit">
      <progress
        max=${() => each().concurrency}
        value=${() => each().holding}
        aria-label="Slots in use"
      ></progress>
      ${() => each().holding} <span class="dim">of ${() => each().concurrency}</span>
    </td>
    <td class="clip narrow-hidden" title=${() => each().handlers.join(", ")}>
      ${() => each().handlers.join(", ")}
    </td>
    <td class="fit narrow-hidden">${() => each().version}</td>
    <td class="fit narrow-hidden">${() => each().generation ?? html`<span class="dim">–</span>`}</td>
    <td class="fit narrow-hidden">${() => momentOf(each().started_at)}</td>
    <td class="fit">
      ${operate(() =>
        state.value !== "stopped"
          ? state.value === "draining"
            ? html`<button
                type="button"
                class="small"
                @click=${() => move("resume", `Worker ${each().id} takes new deliveries`)}
              >
                Resume
              </button>`
            : html`<button
                type="button"
                class="small"
                @click=${() => move("drain", `Worker ${each().id} finishes ${plural(each().holding, "delivery", "deliveries")} and takes no more`)}
              >
                Drain
              </button>`
          : null,
      )}
    </td>
  </tr>`;
}
