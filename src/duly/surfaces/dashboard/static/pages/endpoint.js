/** One endpoint: its circuit, its limits, and how to test, pause, rotate, recover or remove it. */

import { get, path } from "../lib/api.js";
import { count, duration } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { documentOf } from "../lib/list.js";
import { outcomeCard } from "../lib/outcomes.js";
import { link } from "../lib/router.js";
import { operate } from "../lib/session.js";
import { fullMoment, momentOf, stateMark, troubleOf } from "../lib/ui.js";
import { html, when } from "../lib/view.js";
import { edit, moves } from "./endpoint_operations.js";
import { keyWords } from "./limits.js";

/** @typedef {import("../lib/types.js").Endpoint} Endpoint */
/** @typedef {{ ok: boolean, status: number | null, timing: Record<string, number>, excerpt: string, note: string, reason: string | null, error: string | null }} Test */

/** @param {import("../lib/router.js").Place} place */
export function render(place) {
  const name = place.parts[1];
  const endpoint = documentOf(async () => /** @type {Endpoint} */ (await get(path("endpoints", name))), 2);
  const { load } = endpoint;
  return html` <nav aria-label="Breadcrumb"><a href="#/endpoints">Endpoints</a></nav>
    ${troubleOf(endpoint)}
    ${when(
      () => endpoint.found.value,
      () => {
        const found = () => /** @type {Endpoint} */ (endpoint.found.value);
        return html` <div class="head">
            <div>
              <h1>${name}</h1>
              <p class="mono">${() => found().url}</p>
            </div>
            <span class="spring"></span>${operate(() => moves(found(), load))}
          </div>
          ${() => trouble(found())} ${outcomeCard({ target: `endpoint:${name}` })}
          <div class="columns">
            <section class="card">
              <header><h2>Health</h2></header>
              <div class="inside">
                <dl class="facts">
                  <dt>State</dt>
                  <dd>
                    ${() => stateMark(found().state)} ${() => found().state_reason ?? ""}
                    <span class="dim">since</span> ${() => momentOf(found().state_at)}
                  </dd>
                  <dt>Circuit</dt>
                  <dd>
                    ${() => stateMark(found().circuit.state)}${() => (found().circuit.probe_at ? html` <span class="dim">next probe</span> ${momentOf(found().circuit.probe_at)}` : null)}
                  </dd>
                  <dt>Failures in a row</dt>
                  <dd>${() => count(found().circuit.failures)}</dd>
                  <dt>Failing since</dt>
                  <dd>${() => fullMoment(found().circuit.failing_since)}</dd>
                  <dt>Waiting</dt>
                  <dd>
                    <a href=${link(["deliveries"], { q: `target:endpoint:${name}`, state: "pending" })}
                      >${() => count(found().waiting)}</a
                    >
                  </dd>
                  <dt>Under way</dt>
                  <dd>${() => count(found().under_way)}</dd>
                </dl>
              </div>
            </section>
            <section class="card">
              <header>
                <h2>Settings</h2>
                <span class="spring"></span
                >${operate(() => html`<button type="button" class="small" @click=${() => edit(found(), load)}>Edit</button>`)}
              </header>
              <div class="inside">
                <dl class="facts">
                  <dt>Description</dt>
                  <dd>${() => found().description || "–"}</dd>
                  <dt>Method</dt>
                  <dd>${() => found().method}</dd>
                  <dt>Timeout</dt>
                  <dd>${() => duration(found().timeout)}</dd>
                  <dt>Rate</dt>
                  <dd>${() => (found().rate ? `${found().rate} per second` : "no limit")}</dd>
                  <dt>At once</dt>
                  <dd>${() => found().in_flight ?? "no limit"}</dd>
                  <dt>For each key</dt>
                  <dd>${() => keyWords(found().limits) ?? "no limit"}</dd>
                  <dt>Secrets</dt>
                  <dd>
                    ${() => found().secrets.map((each) => html`<div>${each.signs_until ? html`signs until ${fullMoment(each.signs_until)}` : "signs"} <span class="dim">${each.sealed_with ? `sealed with ${each.sealed_with}` : ""}</span></div>`)}
                  </dd>
                  <dt>Added</dt>
                  <dd>${() => fullMoment(found().created_at)}</dd>
                </dl>
              </div>
            </section>
          </div>`;
      },
    )}`;
}

/** @param {Endpoint} endpoint */
function trouble(endpoint) {
  if (endpoint.circuit.state === "open")
    return html`<div class="banner bad">
      ${icon("warning")}<span
        >Its circuit is open: it fails too often, so deliveries wait until a probe succeeds. Test it, then
        resume.</span
      >
    </div>`;
  if (endpoint.state !== "active")
    return html`<div class="banner warn">
      ${icon("paused")}<span>It is ${endpoint.state}: deliveries wait until it is resumed.</span>
    </div>`;
  return null;
}
