/** What can be done with an endpoint: test, pause, recover, rotate, edit and remove it. */

import { patch, path, post, remove } from "../lib/api.js";
import { count, duration } from "../lib/format.js";
import { formDialog } from "../lib/form.js";
import { pretty } from "../lib/json.js";
import { go } from "../lib/router.js";
import { attempt, confirm, dialog, errorBanner, stateMark } from "../lib/ui.js";
import { html, signal } from "../lib/view.js";
import { showSecret } from "./endpoints.js";

/** @typedef {import("../lib/types.js").Endpoint} Endpoint */
/** @typedef {{ ok: boolean, status: number | null, timing: Record<string, number>, excerpt: string, note: string, reason: string | null, error: string | null }} Test */

/** @param {Endpoint} endpoint @param {() => Promise<void>} load */
export function moves(endpoint, load) {
  const where = (/** @type {string} */ verb) => path("endpoints", endpoint.name, verb);
  const move = (/** @type {string} */ verb, /** @type {string} */ done) => async () => {
    if (await attempt(done, () => post(where(verb)))) await load();
  };
  const isStopped = endpoint.state !== "active" || endpoint.circuit.state !== "closed";
  const drop = () =>
    confirm({
      title: `Remove ${endpoint.name}?`,
      text: `${count(endpoint.waiting)} deliveries wait for it; they are cancelled.`,
      verb: "Remove it",
      kind: "danger",
      done: "Removed",
      work: async () => {
        await remove(path("endpoints", endpoint.name), { cancel_waiting: true });
        go(["endpoints"]);
      },
    });
  return html`<div class="row">
    <button type="button" class="primary" @click=${() => test(endpoint)}>Test</button>
    ${isStopped ? html`<button type="button" @click=${move("resume", "Resumed")}>Resume</button>` : html`<button type="button" @click=${move("pause", "Paused")}>Pause</button>`}
    <button type="button" @click=${() => recover(endpoint)}>Recover…</button>
    <button type="button" @click=${() => rotate(endpoint, load)}>Rotate the secret</button>
    <button type="button" class="danger" @click=${drop}>Remove</button>
  </div>`;
}

/** Send a test message, and show what came back. @param {Endpoint} endpoint */
function test(endpoint) {
  const result = signal(/** @type {Test | null} */ (null));
  const error = signal(/** @type {unknown} */ (null));
  post(path("endpoints", endpoint.name, "test")).then(
    (found) => (result.value = /** @type {Test} */ (found)),
    (problem) => (error.value = problem),
  );
  dialog(
    `Test of ${endpoint.name}`,
    (close) =>
      html`<div class="stack">
        ${() => (error.value ? errorBanner(error.value) : null)}
        ${() => {
          const found = result.value;
          if (!found) return error.value ? null : html`<p role="status">Sending a signed test message…</p>`;
          return html`<p>
              ${stateMark(found.ok ? "completed" : "dead", found.ok ? "accepted" : "refused")}
              ${found.status ? `status ${found.status}` : ""} ${found.reason ?? ""}
            </p>
            ${found.error ? html`<p class="bad">${found.error}</p>` : null}
            <dl class="facts">
              ${Object.entries(found.timing).map(
                ([name, seconds]) =>
                  html`<dt>${name}</dt>
                    <dd>${duration(Number(seconds))}</dd>`,
              )}
            </dl>
            ${found.excerpt ? html`<pre tabindex="0">${pretty(found.excerpt) || found.excerpt}</pre>` : null}`;
        }}
        <footer><button type="button" @click=${close}>Close</button></footer>
      </div>`,
  );
}

/** @param {Endpoint} endpoint */
function recover(endpoint) {
  formDialog({
    title: `Retry what ${endpoint.name} missed`,
    verb: "Retry them",
    done: "They are due again",
    fields: [
      { name: "hours", label: "Dead letters of the last hours", kind: "number", value: 24 },
      { name: "rate", label: "At most this many per second", kind: "number", value: 50 },
    ],
    work: (values) =>
      post(path("endpoints", endpoint.name, "recover"), {
        since: new Date(Date.now() - Number(values.hours) * 3_600_000).toISOString(),
        rate: Number(values.rate) || null,
      }),
  });
}

/** @param {Endpoint} endpoint @param {() => Promise<void>} load */
function rotate(endpoint, load) {
  formDialog({
    title: "Rotate the secret",
    verb: "Rotate",
    done: "A new secret signs now",
    fields: [{ name: "hours", label: "For this many hours both secrets sign", kind: "number", value: 24 }],
    work: async (values) => {
      const made = /** @type {{ secret: string }} */ (
        await post(path("endpoints", endpoint.name, "rotate"), {
          overlap_seconds: Number(values.hours) * 3600,
        })
      );
      await load();
      showSecret(made.secret);
    },
  });
}

/** @param {Endpoint} endpoint @param {() => Promise<void>} load */
export function edit(endpoint, load) {
  formDialog({
    title: `Edit ${endpoint.name}`,
    verb: "Save",
    done: "Saved",
    fields: [
      { name: "url", label: "Address", value: endpoint.url, required: true },
      { name: "description", label: "Description", value: endpoint.description },
      { name: "timeout", label: "Timeout in seconds", kind: "number", value: endpoint.timeout },
      { name: "rate", label: "At most this many per second", kind: "number", value: endpoint.rate },
      { name: "in_flight", label: "At most this many at once", kind: "number", value: endpoint.in_flight },
    ],
    work: async (values) => {
      const number = (/** @type {string} */ given) => (given === "" ? null : Number(given));
      // An address with credentials is shown masked: it is sent only if it was changed.
      const url = values.url === endpoint.url ? {} : { url: values.url };
      await patch(
        path("endpoints", endpoint.name),
        {
          ...url,
          description: values.description,
          timeout: Number(values.timeout),
          rate: number(values.rate),
          in_flight: number(values.in_flight),
        },
        endpoint.version,
      );
      await load();
    },
  });
}
