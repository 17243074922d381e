/** One delivery: what happened to it, what it waits for, and what can be done with it. */

import { path, post, send } from "../lib/api.js";
import { duration } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { member, pretty } from "../lib/json.js";
import { documentOf } from "../lib/list.js";
import { go, link } from "../lib/router.js";
import { operate } from "../lib/session.js";
import {
  attempt,
  copyButton,
  dialog,
  factList,
  fullMoment,
  longText,
  messageOf,
  prose,
  troubleOf,
} from "../lib/ui.js";
import { computed, html, signal, when } from "../lib/view.js";
import { deliveryMark } from "./deliveries.js";
import { steps, timeline } from "./delivery_history.js";
import { cancel, running } from "./delivery_running.js";
import { buttonsOfOne } from "./dead_letter_moves.js";
import { dispositionBanner, policyReader, recoveryFacts } from "./disposition.js";

/** @typedef {import("../lib/types.js").DeliveryDetail} DeliveryDetail */
/** @typedef {import("../lib/types.js").Attempt} Attempt */

/** What an address has in the place of a credential, which no page knows. */
const HIDDEN = "…";

/** @param {import("../lib/router.js").Place} place */
export function render(place) {
  const id = place.parts[1];
  const read = documentOf(() => send("GET", path("deliveries", id)), 2);
  const { load } = read;
  const policies = policyReader().found;
  const text = computed(() => read.found.value ?? "");
  const delivery = computed(() =>
    text.value ? /** @type {DeliveryDetail} */ (JSON.parse(text.value)) : null,
  );
  const payload = computed(() => (text.value ? pretty(member(text.value, "payload") ?? "null") : ""));
  const result = computed(() => (text.value ? pretty(member(text.value, "result") ?? "null") : "null"));
  return html` <nav aria-label="Breadcrumb"><a href="#/deliveries">Deliveries</a></nav>
    ${troubleOf(read)}
    ${when(
      () => delivery.value,
      () => {
        const found = () => /** @type {DeliveryDetail} */ (delivery.value);
        return html` <div class="head">
            <div>
              <h1>${() => found().target}</h1>
              <p class="row">${() => deliveryMark(found())}<code>${id}</code>${copyButton(id, "the id")}</p>
            </div>
            <span class="spring"></span>${operate(() => moves(found(), payload.value, load))}
          </div>
          ${() => waiting(found())}${() => dispositionBanner(found(), policies.value)}${() => running(found())}
          <div class="columns">
            <section class="card">
              <header><h2>What happened</h2></header>
              <div class="inside">${() => timeline(found())}</div>
            </section>
            <div class="stack">
              <section class="card">
                <header><h2>Facts</h2></header>
                <div class="inside">${() => facts(found())}</div>
              </section>
              ${jsonCard("Payload", () => payload.value)}
              ${when(
                () => result.value !== "null",
                () => jsonCard("Result", () => result.value),
              )}
              ${() => steps(found())}
            </div>
          </div>`;
      },
    )}`;
}

/** @param {string} title @param {() => string} text */
const jsonCard = (title, text) =>
  html`<section class="card">
    <header>
      <h2>${title}</h2>
      <span class="spring"></span>${() => copyButton(text(), `the ${title.toLowerCase()}`)}
    </header>
    <div class="inside stack">${longText(text, title)}</div>
  </section>`;

/** @param {DeliveryDetail} delivery @param {string} payload @param {() => Promise<void>} load */
function moves(delivery, payload, load) {
  const { id, state } = delivery;
  const isGivenUp = state === "dead" && delivery.disposition === "given_up";
  const isOver = state === "completed" || state === "cancelled" || isGivenUp;
  const move = (/** @type {string} */ verb, /** @type {string} */ done) => async () => {
    if (await attempt(done, () => post(path("deliveries", id, verb)))) await load();
  };
  return html`<div class="row">
    ${state === "dead" && !isGivenUp ? html`<button type="button" class="primary" @click=${move("retry", "It is due again, with all its attempts")}>Retry</button><button type="button" @click=${() => edit(id, payload, load)}>Edit and retry</button>` : null}
    ${state === "dead" ? buttonsOfOne(delivery, load) : null}
    ${state === "pending" ? html`<button type="button" class="primary" @click=${move("retry", "It is due now")}>Retry now</button>` : null}
    ${state === "pending" || state === "processing" ? html`<button type="button" class="danger" @click=${() => cancel(delivery, load)}>Cancel</button>` : null}
    ${isOver && !delivery.url?.includes(HIDDEN) ? html`<button type="button" @click=${() => again(delivery, payload)}>Deliver again</button>` : null}
  </div>`;
}

/** @param {string} id @param {string} payload @param {() => Promise<void>} load */
function edit(id, payload, load) {
  payloadDialog("Edit and retry", payload, "Retry with this payload", "", async (text) => {
    await send("POST", path("dead-letters", id, "edit"), { raw: `{"payload": ${text}}` });
    await load();
  });
}

/** @param {DeliveryDetail} delivery @param {string} payload */
function again(delivery, payload) {
  const target = delivery.endpoint
    ? JSON.stringify({ endpoint: delivery.endpoint.name })
    : JSON.stringify(delivery.url ? { url: delivery.url } : delivery.target);
  const note = delivery.url ? `It is sent to ${delivery.url} by POST, without the headers of this one.` : "";
  payloadDialog("Deliver again", payload, "Deliver", note, async (text) => {
    const accepted = JSON.parse(
      await send("POST", "deliveries", { raw: `{"target": ${target}, "payload": ${text}}` }),
    );
    go(["deliveries", accepted.id]);
  });
}

/** Ask for a payload; it is sent as it is typed. @param {string} title @param {string} payload @param {string} verb @param {string} note @param {(text: string) => Promise<void>} work */
function payloadDialog(title, payload, verb, note, work) {
  const problem = signal("");
  dialog(title, (close) => {
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      const text = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("payload"));
      try {
        JSON.parse(text);
        await work(text);
        close();
      } catch (error) {
        problem.value =
          error instanceof SyntaxError ? `This is not JSON: ${error.message}` : messageOf(error);
      }
    };
    return html`<form class="stack" @submit=${submit}>
      ${note ? html`<p>${note}</p>` : null}
      <label
        >Payload<textarea name="payload" rows="12" spellcheck="false" .value=${payload}></textarea>
      </label>
      ${() => (problem.value ? html`<p class="field-error" role="alert">${problem.value}</p>` : null)}
      <footer>
        <button type="button" @click=${close}>Back</button><button class="primary">${verb}</button>
      </footer>
    </form>`;
  });
}

/** @param {DeliveryDetail} delivery */
function waiting(delivery) {
  if (delivery.waits)
    return html`<div class="banner warn">
      ${icon("paused")}<span>It waits: ${prose(delivery.waits)}</span>
    </div>`;
  if (delivery.reason === "superseded")
    return html`<div class="banner">
      ${icon("cancelled")}<span><b>Superseded:</b> ${prose(delivery.error ?? "")}</span>
    </div>`;
  if (delivery.error && delivery.state === "dead")
    return html`<div class="banner bad">
      ${icon("dead")}<span><b>${delivery.reason}:</b> ${delivery.error}</span>
    </div>`;
  return null;
}

/** @param {DeliveryDetail} delivery */
function facts(delivery) {
  return factList([
    ["Due", fullMoment(delivery.due_at)],
    ["Accepted", fullMoment(delivery.accepted_at)],
    ["Next attempt", delivery.next_at && fullMoment(delivery.next_at)],
    ["Comes back", delivery.revive_at && fullMoment(delivery.revive_at)],
    ["Attempts", `${delivery.attempt}${delivery.attempts_allowed ? ` of ${delivery.attempts_allowed}` : ""}`],
    [
      "Late by",
      delivery.late_seconds === null || delivery.late_seconds === undefined
        ? null
        : duration(delivery.late_seconds),
    ],
    [
      "Endpoint",
      delivery.endpoint &&
        html`<a href=${link(["endpoints", delivery.endpoint.name])}>${delivery.endpoint.name}</a>`,
    ],
    ["Address", delivery.url],
    [
      "Stream",
      delivery.stream &&
        html`<a href=${link(["streams", delivery.stream])}>${delivery.stream}</a>
          <span class="dim">position ${delivery.position}</span>`,
    ],
    [
      "Batch",
      delivery.batch &&
        html`<a href=${link(["deliveries"], { q: `batch:${delivery.batch}` })}>${delivery.batch}</a>`,
    ],
    [
      "Schedule",
      delivery.schedule && html`<a href=${link(["schedules", delivery.schedule])}>${delivery.schedule}</a>`,
    ],
    ["Scheduled for", delivery.scheduled_for && fullMoment(delivery.scheduled_for)],
    ["Merged", delivery.merged || null],
    [
      "Key",
      delivery.unique ? html`${delivery.key} <span class="dim">only one with it waits</span>` : delivery.key,
    ],
    [
      "Replaced",
      delivery.replaced
        ? html`${delivery.replaced} times
            <span class="dim">last</span> ${fullMoment(delivery.replaced_at ?? "")}`
        : null,
    ],
    ["Fair key", delivery.fair_key],
    ["Limit key", delivery.limit_key],
    [
      "Tags",
      delivery.tags?.length
        ? delivery.tags.map(
            (tag) => html`<a href=${link(["deliveries"], { q: `tag:${tag}` })} class="badge">${tag}</a> `,
          )
        : null,
    ],
    ["Priority", delivery.priority],
    ["Expires", delivery.expires_at && fullMoment(delivery.expires_at)],
    ["Crashes", delivery.crashes || null],
    ...recoveryFacts(delivery),
    ["Worker", delivery.worker],
  ]);
}
