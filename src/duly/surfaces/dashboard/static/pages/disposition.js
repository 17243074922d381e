/** What is to happen with a dead letter: in a row, and in words. */

import { get } from "../lib/api.js";
import { now, plural, relative } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { documentOf } from "../lib/list.js";
import { kindOf, shapeOf, stateMark } from "../lib/ui.js";
import { html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Delivery} Delivery */
/** @typedef {import("../lib/types.js").RecoveryPolicy} Policy */

/** The dispositions by which dead letters are found, each with a word. */
export const DISPOSITIONS = [
  ["", "all"],
  ["open", "open"],
  ["recovering", "recovering"],
  ["held", "held"],
  ["given_up", "given up"],
];
/** Policies change rarely. */
const EVERY = 10;
const TOO_MANY_REQUESTS = "it answered 429";

/** The policies that apply, read now and then. */
export const policyReader = () =>
  documentOf(async () => /** @type {{ items: Policy[] }} */ (await get("recovery/policies")).items, EVERY);

/**
 * The policy that retries a dead letter: one of its target before one for all, then by cause.
 * @param {Delivery} letter @param {Policy[]} policies
 */
function policyOf(letter, policies) {
  const isThrottled = letter.reason === "dependency_failure" && letter.error === TOO_MANY_REQUESTS;
  const causes = [...(isThrottled ? ["throttled"] : []), letter.reason, "attempts_exhausted"];
  const found = [letter.target, null].flatMap((target) =>
    causes.map((cause) => policies.find((each) => each.target === target && each.reason === cause)),
  );
  return found.find((each) => each !== undefined);
}

/** When it comes back, as "comes back in 12 min (try 2 of 3)". @param {Delivery} letter @param {Policy[] | null} policies */
function comesBack(letter, policies) {
  const tries = policyOf(letter, policies ?? [])?.tries ?? 0;
  const number = letter.revivals + 1;
  const of = tries >= number ? ` of ${tries}` : "";
  // A due one waits until the rate allows it.
  const isDue = !letter.revive_at || Date.parse(letter.revive_at) <= now.value;
  return `comes back ${isDue ? "now" : relative(letter.revive_at ?? "")} (try ${number}${of})`;
}

/** The disposition of a row. @param {Delivery} letter @param {Policy[] | null} policies */
export function dispositionMark(letter, policies) {
  if (!letter.disposition) return html`<span class="dim">–</span>`;
  return letter.disposition === "recovering"
    ? stateMark("recovering", comesBack(letter, policies))
    : html`<span title=${letter.disposition_note}>${stateMark(letter.disposition)}</span>`;
}

/** What is to happen with it, above everything else. @param {Delivery} letter @param {Policy[] | null} policies */
export function dispositionBanner(letter, policies) {
  const { disposition, disposition_note: note } = letter;
  if (letter.state !== "dead" || !disposition) return null;
  const said = note ? `: ${note}` : ".";
  /** @type {Record<string, () => string>} */
  const words = {
    recovering: () => `It ${comesBack(letter, policies)}: a recovery policy retries it.`,
    held: () => `It is held${said}`,
    given_up: () => `It was given up for good${said}`,
  };
  return html`<div class=${`banner ${kindOf(disposition)}`}>
    ${icon(shapeOf(disposition))}<span>${() => words[disposition]()}</span>
  </div>`;
}

/** How policies and generations have retried it, as facts. @param {Delivery} delivery @returns {[string, unknown][]} */
export const recoveryFacts = ({ disposition, revivals, generation }) => [
  ["Disposition", disposition && stateMark(disposition)],
  ["Retried by policies", revivals ? plural(revivals, "time") : null],
  ["Generation", generation],
];
