/** How runs are shown: their local time, why one is moved, and what a calendar leaves out. */

import { html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").UpcomingRun} UpcomingRun */
/** @typedef {import("../lib/types.js").LeftOut} LeftOut */

/** A local time to the minute. @param {string} local */
export const wall = (local) => local.slice(0, 16).replace("T", " ");

/** Why a run is not at the time that its rule names. @param {UpcomingRun} run */
export const notes = (run) => [
  run.moved_from ? html`<span class="warn">moved from ${wall(run.moved_from)}: ${run.reason}</span>` : null,
  run.shifted ? html`<span class="warn">moved by a clock change</span>` : null,
];

/** @param {LeftOut} left */
export const leftOut = (left) =>
  `${wall(left.local)}${left.more ? ` and ${left.more} more of that day` : ""} left out: ${left.reason}`;
