/** Keys: created, listed and revoked. */

import { path, post } from "../lib/api.js";
import { formDialog } from "../lib/form.js";
import { listOf } from "../lib/list.js";
import { listCard, OPERATIONS } from "../lib/table.js";
import { confirm, copyButton, dialog, momentOf, stateMark } from "../lib/ui.js";
import { html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Key} Key */

export function keys() {
  /** @type {ReturnType<typeof listOf<Key>>} */
  const list = listOf("keys", () => ({}), { every: 10 });
  const { load } = list;
  const add = () =>
    formDialog({
      title: "Create a key",
      verb: "Create",
      done: "Created",
      fields: [
        { name: "name", label: "Name", required: true, hint: "whose it is" },
        {
          name: "scope",
          label: "Scope",
          kind: "select",
          value: "read",
          options: [
            ["read", "read: sees everything"],
            ["operate", "operate: delivers, retries, pauses"],
            ["admin", "admin: also keys and the audit log"],
          ],
        },
      ],
      work: async (values) => {
        const made = /** @type {{ token: string }} */ (
          await post("keys", { name: values.name, scope: values.scope })
        );
        await load();
        dialog(
          "The new key",
          (close) =>
            html`<div class="stack">
              <p>It is shown only now.</p>
              <span class="command"><code>${made.token}</code>${copyButton(made.token, "the key")}</span>
              <footer><button type="button" class="primary" @click=${close}>Done</button></footer>
            </div>`,
        );
      },
    });
  const revoke = (/** @type {Key} */ key) =>
    confirm({
      title: `Revoke ${key.name}?`,
      text: "Requests with it are refused from now on.",
      verb: "Revoke it",
      kind: "danger",
      done: "Revoked",
      work: async () => {
        await post(path("keys", key.id, "revoke"));
        await load();
      },
    });
  return listCard({
    label: "Keys",
    list,
    title: html`<header>
      <h2>Keys</h2>
      <span class="spring"></span><button type="button" @click=${add}>Create a key</button>
    </header>`,
    heads: [
      ...["State", "Name", "Scope"],
      ["Created", "narrow-hidden"],
      ["Last used", "narrow-hidden"],
      "Expires",
      [OPERATIONS, ""],
    ],
    key: (each) => each.id,
    row: (row) =>
      html`<tr>
        <td class="fit">${() => stateMark(row.value.state)}</td>
        <td class="clip">${() => row.value.name} <span class="dim mono">${row.value.id}</span></td>
        <td class="fit">${() => row.value.scope}</td>
        <td class="fit narrow-hidden">${() => momentOf(row.value.created_at)}</td>
        <td class="fit narrow-hidden">${() => momentOf(row.value.last_used_at)}</td>
        <td class="fit">${() => momentOf(row.value.expires_at)}</td>
        <td class="fit">
          ${() => (row.value.state === "active" ? html`<button type="button" class="small danger" @click=${() => revoke(row.value)}>Revoke</button>` : null)}
        </td>
      </tr>`,
    empty: () => [
      "No keys yet",
      "Callers on this machine need none. Others do.",
      "duly keys create ops --scope operate",
    ],
  });
}
