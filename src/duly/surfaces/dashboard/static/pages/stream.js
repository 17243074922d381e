/** One stream: its head, those behind it, and the operations that let it move again. */

import { get, patch, path, post } from "../lib/api.js";
import { count, duration } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { documentOf } from "../lib/list.js";
import { canOperate, operate } from "../lib/session.js";
import { attempt, confirm, fullMoment, kindOf, momentOf, stateMark, troubleOf } from "../lib/ui.js";
import { html, when } from "../lib/view.js";
import { queue } from "./stream_queue.js";

/** @typedef {import("../lib/types.js").Stream} Stream */
/** @typedef {import("../lib/types.js").Delivery} Delivery */

/** What an operator can do in each state that needs something. @type {Record<string, string>} */
const ADVICE = {
  blocked: "Its head is dead, so those behind it wait. Retry the head, release it, or release some of them.",
  paused: "It is paused: nothing of it runs until it is resumed.",
  retrying: "Its head failed and is tried again by itself. Those behind it wait until it is done.",
};

/** @param {import("../lib/router.js").Place} place */
export function render(place) {
  const name = place.parts[1];
  const stream = documentOf(async () => /** @type {Stream} */ (await get(path("streams", name))), 2);
  const members = documentOf(() => waitingIn(name), 2);
  const load = async () => void (await Promise.all([stream.load(), members.load()]));
  return html` <nav aria-label="Breadcrumb"><a href="#/streams">Streams</a></nav>
    ${troubleOf(stream)}
    ${when(
      () => stream.found.value,
      () => {
        const found = () => /** @type {Stream} */ (stream.found.value);
        return html` <div class="head">
            <div>
              <h1>${name}</h1>
              <p class="row">
                ${() => stateMark(found().state)}${() => (found().since ? html`<span class="dim">${momentOf(found().since)}</span>` : null)}
              </p>
            </div>
            <span class="spring"></span>${operate(() => moves(found(), load))}
          </div>
          ${() => (ADVICE[found().state] ? html`<div class=${`banner ${kindOf(found().state)}`}>${icon("warning")}<span>${ADVICE[found().state]}</span></div>` : null)}
          <div class="columns">
            <section class="card">
              <header>
                <h2>In the queue</h2>
                <span class="dim">${() => count(found().waiting)} wait</span>
              </header>
              <div class="inside">${queue(found, members.found, load)}</div>
            </section>
            <section class="card">
              <header><h2>Facts</h2></header>
              <div class="inside">
                <dl class="facts">
                  <dt>On failure</dt>
                  <dd>${() => (canOperate.value ? policy(found(), load) : found().on_failure)}</dd>
                  <dt>Blocks for</dt>
                  <dd>${() => (canOperate.value ? limit(found(), load) : limitOf(found()))}</dd>
                  <dt>Blocked until</dt>
                  <dd>${() => fullMoment(found().blocked_until)}</dd>
                  <dt>Waiting</dt>
                  <dd>${() => count(found().waiting)}</dd>
                  <dt>Oldest</dt>
                  <dd>${() => fullMoment(found().oldest_at)}</dd>
                  <dt>Paused</dt>
                  <dd>
                    ${() => (found().paused_at ? html`${fullMoment(found().paused_at)} ${found().pause_reason ?? ""}` : "no")}
                  </dd>
                </dl>
              </div>
            </section>
          </div>`;
      },
    )}`;
}

/** The deliveries that wait in a stream, in its order. @param {string} name */
async function waitingIn(name) {
  const page = await get("deliveries", { stream: name, state: "pending", limit: 200 });
  const { items } = /** @type {{ items: Delivery[] }} */ (page);
  return items.sort((a, b) => (a.position ?? 0) - (b.position ?? 0));
}

/** @param {Stream} stream @param {() => Promise<void>} load */
function moves(stream, load) {
  const call = (/** @type {string} */ verb) => post(path("streams", stream.name, verb));
  const move = (/** @type {string} */ verb, /** @type {string} */ done) => async () => {
    if (await attempt(done, () => call(verb))) await load();
  };
  const ask = (/** @type {string} */ verb, /** @type {string} */ title, /** @type {string} */ text) => () =>
    confirm({
      title,
      text,
      verb: title.replace("?", ""),
      kind: "danger",
      done: "Done",
      work: async () => {
        await call(verb);
        await load();
      },
    });
  const head = stream.head;
  return html`<div class="row">
    ${head ? html`<button type="button" class="primary" @click=${move("retry", "The head is due now")}>Retry the head</button>` : null}
    ${head ? html`<button type="button" @click=${ask("release", "Release the head?", "It leaves the queue, and those behind it go on.")}>Release</button>` : null}
    ${head && head.state !== "dead" ? html`<button type="button" class="danger" @click=${ask("cancel", "Cancel the head?", "It is not delivered, and those behind it go on. If it runs, it ends when its handler obeys.")}>Cancel the head</button>` : null}
    ${head && head.state !== "dead" ? html`<button type="button" class="danger" @click=${ask("dead-letter", "Make the head a dead letter?", "It is not tried again by itself, and leaves the queue.")}>Dead-letter</button>` : null}
    ${stream.paused_at ? html`<button type="button" @click=${move("resume", "The stream goes on")}>Resume</button>` : html`<button type="button" @click=${move("pause", "The stream is paused")}>Pause</button>`}
  </div>`;
}

/** @param {Stream} stream @param {() => Promise<void>} load */
function policy(stream, load) {
  const change = async (/** @type {Event} */ event) => {
    const value = /** @type {HTMLSelectElement} */ (event.target).value;
    if (await attempt("Changed", () => patch(path("streams", stream.name), { on_failure: value })))
      await load();
  };
  return html`<select aria-label="On failure" @change=${change}>
    ${["block", "release"].map((each) => html`<option value=${each} ?selected=${each === stream.on_failure}>${each === "block" ? "block: those behind it wait" : "release: those behind it go on"}</option>`)}
  </select>`;
}

/** For how long a failed head blocks. @param {Stream} stream */
const limitOf = (stream) => (stream.block_for === null ? "without a limit" : duration(stream.block_for));

/** @param {Stream} stream @param {() => Promise<void>} load */
function limit(stream, load) {
  if (stream.on_failure !== "block") return "it does not block";
  const change = async (/** @type {Event} */ event) => {
    const minutes = /** @type {HTMLInputElement} */ (event.target).value;
    const body = { block_for: minutes === "" ? null : Number(minutes) * 60 };
    if (await attempt("Changed", () => patch(path("streams", stream.name), body))) await load();
  };
  return html`<label class="row"
    ><input
      type="number"
      min="0"
      step="any"
      aria-label="Blocks for, in minutes"
      placeholder="without a limit"
      .value=${stream.block_for === null ? "" : String(stream.block_for / 60)}
      @change=${change}
    />
    minutes</label
  >`;
}
