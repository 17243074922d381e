/** Settings: keys, alerts, the audit log, and what runs here. */

import { get } from "../lib/api.js";
import { documentOf, listOf } from "../lib/list.js";
import { link } from "../lib/router.js";
import { canAdminister } from "../lib/session.js";
import { listCard } from "../lib/table.js";
import { momentOf, prose, stateMark, troubleOf } from "../lib/ui.js";
import { html } from "../lib/view.js";
import { keys } from "./keys.js";

/** @typedef {import("../lib/types.js").Alert} Alert */
/** @typedef {import("../lib/types.js").AuditEntry} AuditEntry */

const PARTS = [
  ["keys", "Keys"],
  ["alerts", "Alerts"],
  ["audit", "Audit log"],
  ["about", "About"],
];
const FOR_ADMINS = ["keys", "audit"];

/** @param {import("../lib/router.js").Place} place */
export function render(place) {
  const parts = PARTS.filter(([name]) => canAdminister.value || !FOR_ADMINS.includes(name));
  const part = place.parts[1] ?? parts[0][0];
  const views = /** @type {Record<string, () => unknown>} */ ({ keys, alerts, audit, about });
  return html` <div class="head">
      <div>
        <h1>Settings</h1>
        <p>Who may do what, what was noticed, and what was changed.</p>
      </div>
    </div>
    <nav class="tabs" aria-label="Parts">
      ${parts.map(([name, title]) => html`<a href=${link(["settings", name])} aria-current=${name === part ? "page" : null}>${title}</a>`)}
    </nav>
    ${views[parts.some(([name]) => name === part) ? part : parts[0][0]]()}`;
}

function alerts() {
  /** @type {ReturnType<typeof listOf<Alert>>} */
  const list = listOf("alerts", () => ({}), { every: 5 });
  return listCard({
    label: "Alerts",
    list,
    heads: ["State", "Alert", "Raised", "Cleared"],
    key: (each) => each.id,
    row: (row) =>
      html`<tr>
        <td class="fit">${() => stateMark(row.value.cleared_at ? "cleared" : "raised")}</td>
        <td class="clip" title=${() => row.value.detail}>
          <b>${row.value.kind.replaceAll("_", " ")}</b> ${row.value.subject}
          <span class="dim">${() => prose(row.value.detail)}</span>
        </td>
        <td class="fit">${() => momentOf(row.value.raised_at)}</td>
        <td class="fit">${() => momentOf(row.value.cleared_at)}</td>
      </tr>`,
    empty: () => ["No alerts", "Nothing was noticed that would need you."],
  });
}

function audit() {
  /** @type {ReturnType<typeof listOf<AuditEntry>>} */
  const list = listOf("audit", () => ({}), { every: 10 });
  return listCard({
    label: "Audit log",
    list,
    heads: ["When", "Who", "What", "Subject", ["Detail", "narrow-hidden"]],
    key: (each) => each.id,
    row: (row) =>
      html`<tr>
        <td class="fit">${momentOf(row.value.done_at)}</td>
        <td class="fit">${row.value.actor}</td>
        <td class="fit">${row.value.action}</td>
        <td class="clip">${row.value.subject}</td>
        <td class="clip narrow-hidden mono">${row.value.detail ? JSON.stringify(row.value.detail) : ""}</td>
      </tr>`,
    empty: () => ["Nothing was changed yet", "Operations of people and programs appear here."],
  });
}

function about() {
  const status = documentOf(
    async () => /** @type {import("../lib/types.js").Status} */ (await get("status")),
    10,
  );
  const found = () => status.found.value;
  return html`${troubleOf(status)}
    <section class="card" aria-label="About">
      <div class="inside">
        <dl class="facts">
          <dt>Store</dt>
          <dd>${() => found()?.store}</dd>
          <dt>Workers</dt>
          <dd>${() => found()?.workers}</dd>
          <dt>Time zones</dt>
          <dd>${() => found()?.zones}</dd>
          <dt>Planned next</dt>
          <dd>${() => momentOf(found()?.next_planned_at)}</dd>
          <dt>API</dt>
          <dd><a href="docs">documentation</a></dd>
        </dl>
      </div>
    </section>`;
}
