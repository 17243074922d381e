/** A delivery that runs: how far it is, and whether it was asked to cancel. */

import { post, path } from "../lib/api.js";
import { relative } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { confirm } from "../lib/ui.js";
import { html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Delivery} Delivery */

/** @param {number} share */
export const percent = (share) => `${Math.floor(share * 100)} %`;

/** What is known of its attempt while it runs. @param {Delivery} delivery */
export function running(delivery) {
  if (delivery.state !== "processing") return null;
  return html`${bar(delivery)}${notice(
    delivery.cancel_asked_at,
    "paused",
    "It was asked to cancel",
    "and ends when its handler obeys.",
  )}${notice(
    delivery.overran_at,
    "warning",
    "Its handler ran past its deadline",
    "and cannot be stopped. Nothing else of its stream, and no retry, runs until it ends.",
  )}`;
}

/** @param {Delivery} delivery */
function bar(delivery) {
  const share = delivery.progress;
  if (share === null || share === undefined) return null;
  return html`<div class="banner busy" role="status">
    <progress max="1" .value=${share} aria-label="Progress"></progress>
    <span>${percent(share)}${delivery.progress_note ? `, ${delivery.progress_note}` : ""}</span>
    <span class="dim">${() => relative(delivery.progress_at ?? "")}</span>
  </div>`;
}

/** @param {string | null | undefined} since @param {string} mark @param {string} what @param {string} then */
function notice(since, mark, what, then) {
  if (!since) return null;
  return html`<div class="banner warn">
    ${icon(mark)}<span>${what} ${() => relative(since)}, ${then}</span>
  </div>`;
}

/** Ask before it is cancelled. @param {Delivery} delivery @param {() => Promise<void>} load */
export function cancel(delivery, load) {
  const runs = delivery.state === "processing";
  confirm({
    title: "Cancel this delivery?",
    text: runs
      ? "Its worker is asked to cancel it. It ends within a second or two if its handler obeys; what completes first stays completed."
      : "It is not delivered.",
    verb: "Cancel it",
    kind: "danger",
    done: runs ? "Asked to cancel" : "Cancelled",
    work: async () => {
      await post(path("deliveries", delivery.id, "cancel"));
      await load();
    },
  });
}
