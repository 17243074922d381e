/** Endpoints: where webhooks go, and how each of them does. */

import { post } from "../lib/api.js";
import { count } from "../lib/format.js";
import { formDialog } from "../lib/form.js";
import { listOf } from "../lib/list.js";
import { link } from "../lib/router.js";
import { operate } from "../lib/session.js";
import { cursorKeys, listCard } from "../lib/table.js";
import { copyButton, dialog, stateMark } from "../lib/ui.js";
import { html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Endpoint} Endpoint */

export function render() {
  /** @type {ReturnType<typeof listOf<Endpoint>>} */
  const list = listOf("endpoints", () => ({}));
  const { items, load } = list;
  const current = cursorKeys(items, (each) => each.name, {
    open: (each) => (location.hash = link(["endpoints", each.name])),
  });
  return html` <div class="head">
      <div>
        <h1>Endpoints</h1>
        <p>Receivers of webhooks, each with its secret, limits and circuit.</p>
      </div>
      <span class="spring"></span>
      ${operate(() => html`<button type="button" class="primary" @click=${() => add(load)}>Add an endpoint</button>`)}
    </div>
    ${listCard({
      label: "Endpoints",
      list,
      heads: [
        ...["State", "Circuit", "Name"],
        ["Address", "narrow-hidden"],
        ["Waiting", "num"],
        ["Under way", "num narrow-hidden"],
        ["Rate", "num narrow-hidden"],
      ],
      key: (each) => each.name,
      row: (row) =>
        html`<tr ?data-current=${() => current.value === row.value.name}>
          <td class="fit">${() => stateMark(row.value.state)}</td>
          <td class="fit">${() => stateMark(row.value.circuit.state)}</td>
          <td class="clip"><a href=${link(["endpoints", row.value.name])}>${row.value.name}</a></td>
          <td class="clip narrow-hidden mono">${() => row.value.url}</td>
          <td class="num">${() => count(row.value.waiting)}</td>
          <td class="num narrow-hidden">${() => count(row.value.under_way)}</td>
          <td class="num narrow-hidden">${() => (row.value.rate ? `${row.value.rate}/s` : "")}</td>
        </tr>`,
      empty: () => [
        "No endpoints yet",
        "An endpoint gives a receiver a name, a secret and limits.",
        "duly endpoints add billing https://example.org/hook",
      ],
    })}`;
}

/** @param {() => Promise<void>} load */
function add(load) {
  formDialog({
    title: "Add an endpoint",
    verb: "Add",
    done: "Added",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "url", label: "Address", required: true, hint: "as in https://example.org/hook" },
      { name: "description", label: "Description" },
      { name: "rate", label: "At most this many per second", kind: "number", hint: "empty for no limit" },
      { name: "in_flight", label: "At most this many at once", kind: "number", hint: "empty for no limit" },
    ],
    work: async (values) => {
      const body = Object.fromEntries(
        Object.entries(values)
          .filter(([, value]) => value !== "")
          .map(([name, value]) => [name, name === "rate" || name === "in_flight" ? Number(value) : value]),
      );
      const made = /** @type {{ secret: string }} */ (await post("endpoints", body));
      await load();
      showSecret(made.secret);
    },
  });
}

/** A secret is shown once. @param {string} secret */
export function showSecret(secret) {
  dialog(
    "The secret of this endpoint",
    (close) =>
      html`<div class="stack">
        <p>Its receiver verifies webhooks with it. It is shown only now.</p>
        <span class="command"><code>${secret}</code>${copyButton(secret, "the secret")}</span>
        <footer><button type="button" class="primary" @click=${close}>Done</button></footer>
      </div>`,
  );
}
