/** What needs attention, each with the page that solves it. */

import { count, duration, plural } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { link } from "../lib/router.js";
import { momentOf, prose } from "../lib/ui.js";
import { html, keyed } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Alert} Alert */
/** @typedef {import("../lib/types.js").NamespaceStatus} NamespaceStatus */
/** @typedef {{ id: string, kind: string, text: string, verb: string, href: string, since?: string | null }} Concern */

/** Seconds in which a planner notices that a schedule is due. */
const PLANNED_WITHIN = 60;

/** @param {{ value: Concern[] }} concerns */
export const concernList = (concerns) =>
  html`<ul class="attention">
    ${keyed(
      () => concerns.value,
      (each) => each.id,
      (each) =>
        html`<li>
          <span class=${() => `state ${each.value.kind}`}>${icon("warning")}</span
          ><span>${() => prose(each.value.text)}</span>
          <span class="dim">${() => (each.value.since ? momentOf(each.value.since) : null)}</span
          ><span class="spring"></span>
          <a class="button" href=${() => each.value.href}>${() => each.value.verb}</a>
        </li>`,
    )}
  </ul>`;

/** What needs attention, each with the page that mends it. @param {NamespaceStatus} now @param {Alert[]} alerts @returns {Concern[]} */
export function concernsOf(now, alerts) {
  const found = /** @type {Concern[]} */ ([]);
  const add = (/** @type {Concern} */ each) => found.push(each);
  if (!now.workers && now.due)
    add({
      id: "workers",
      kind: "bad",
      text: `No worker runs, and ${plural(now.due, "delivery is", "deliveries are")} due.`,
      verb: "Look at workers",
      href: link(["workers"]),
      since: now.last_beat_at,
    });
  if (now.planner_lag > PLANNED_WITHIN)
    add({
      id: "planner",
      kind: "bad",
      text: `Schedules miss their time: the first has waited ${duration(now.planner_lag)} to be planned.`,
      verb: "Look at workers",
      href: link(["workers"]),
    });
  if (now.undecided)
    add({
      id: "dead",
      kind: "bad",
      text:
        now.undecided === 1
          ? "1 dead letter needs a decision."
          : `${count(now.undecided, now.counted_up_to)} dead letters need a decision.`,
      verb: "Retry or discard",
      href: link(["dead_letters"]),
    });
  if (now.blocked_streams)
    add({
      id: "blocked",
      kind: "bad",
      text: `${plural(now.blocked_streams, "stream is", "streams are")} blocked by a dead head.`,
      verb: "Release",
      href: link(["streams"], { state: "blocked" }),
    });
  if (now.paused_streams)
    add({
      id: "paused",
      kind: "warn",
      text: `${plural(now.paused_streams, "stream is", "streams are")} paused.`,
      verb: "Resume",
      href: link(["streams"], { state: "paused" }),
    });
  for (const name of now.circuits_open)
    add({
      id: `open ${name}`,
      kind: "bad",
      text: `The circuit of ${name} is open: it fails too often.`,
      verb: "Look at it",
      href: link(["endpoints", name.replace(/^endpoint:/, "")]),
    });
  for (const name of now.endpoints_disabled)
    add({
      id: `disabled ${name}`,
      kind: "bad",
      text: `The endpoint ${name} is disabled.`,
      verb: "Resume",
      href: link(["endpoints", name]),
    });
  for (const name of now.endpoints_paused)
    add({
      id: `paused ${name}`,
      kind: "warn",
      text: `The endpoint ${name} is paused.`,
      verb: "Resume",
      href: link(["endpoints", name]),
    });
  if (now.poison)
    add({
      id: "poison",
      kind: "bad",
      text: `${plural(now.poison, "delivery has", "deliveries have")} killed workers.`,
      verb: "Look at them",
      href: link(["dead_letters"], { view: "poison" }),
    });
  for (const each of alerts.filter((alert) => !isShown(alert, found)))
    add({
      id: `alert ${each.id}`,
      kind: "warn",
      text: `${sentence(each.kind)}${each.subject ? ` (${each.subject})` : ""}: ${each.detail}`,
      ...remedy(each),
      since: each.raised_at,
    });
  return found;
}

/** Whether the figures show already what an alert is about. @param {Alert} alert @param {Concern[]} found */
function isShown({ kind, subject }, found) {
  const same = /** @type {Record<string, string>} */ ({
    workers_silent: "workers",
    planner_silent: "planner",
    dead_letters: "dead",
    circuit_open: `open ${subject}`,
    endpoint_disabled: `disabled ${subject}`,
  });
  return found.some((each) => each.id === same[kind]);
}

/** @param {string} kind */
const sentence = (kind) => (kind[0] ?? "").toUpperCase() + kind.slice(1).replaceAll("_", " ");

/** @param {Alert} alert */
function remedy({ kind, subject }) {
  if (kind === "late_deliveries")
    return { verb: "Look at them", href: link(["deliveries"], { state: "pending" }) };
  if (kind === "stream_released" && subject) return { verb: "Look at it", href: link(["streams", subject]) };
  return { verb: "Look at alerts", href: link(["settings", "alerts"]) };
}
