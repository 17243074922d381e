/** What can be done with dead letters: retry, hold, release, give up, discard; one or many. */

import { path, post } from "../lib/api.js";
import { bulkDialog } from "../lib/bulk.js";
import { formDialog } from "../lib/form.js";
import { attempt } from "../lib/ui.js";
import { html, signal } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Delivery} Delivery */
/** @typedef {{ name: string, title: string, verb: string, doing: string, done: string, kind?: string, hint?: string }} Move */
/** @typedef {{ which: Record<string, unknown>, load: () => Promise<void>, begun?: () => void }} Chosen */

/** @type {Record<string, Move>} */
const MOVES = {
  retry: {
    name: "retry",
    title: "Retry dead letters",
    verb: "Retry",
    doing: "Retrying dead letters",
    done: "It is due again, with all its attempts",
    kind: "primary",
  },
  hold: {
    name: "hold",
    title: "Hold dead letters",
    verb: "Hold",
    doing: "Holding dead letters",
    done: "Held",
    hint: "No recovery policy and no retry of many touches them until they are released.",
  },
  release: {
    name: "release",
    title: "Release held dead letters",
    verb: "Release",
    doing: "Releasing dead letters",
    done: "Released",
    hint: "Recovery policies apply to them again, from the start.",
  },
  "give-up": {
    name: "give-up",
    title: "Give dead letters up",
    verb: "Give up",
    doing: "Giving dead letters up",
    done: "Given up",
    kind: "danger",
    hint: "This is for good: they stay in the list, and nothing can retry them any more. A stream that they blocked continues.",
  },
  discard: {
    name: "discard",
    title: "Discard dead letters",
    verb: "Discard",
    doing: "Discarding dead letters",
    done: "Discarded",
    kind: "danger",
    hint: "This is for good: they are cancelled. A stream that they blocked continues.",
  },
};
const WITH_NOTE = new Set(["hold", "give-up", "discard"]);

/** Which operations make sense, by disposition; those without one are open. @param {string | null | undefined} disposition */
export function movesOf(disposition) {
  if (disposition === "given_up") return ["discard"];
  return ["retry", disposition === "held" ? "release" : "hold", "give-up", "discard"];
}

/** All operations, for dead letters of any disposition. */
export const ALL_MOVES = Object.keys(MOVES);

/** Buttons that ask and then move many. @param {string[]} names @param {string} size @param {() => Chosen} chosen */
export const bulkButtons = (names, size, chosen) =>
  names.flatMap((name) => [
    " ",
    html`<button
      type="button"
      class=${`${size} ${size && MOVES[name].kind === "primary" ? "" : (MOVES[name].kind ?? "")}`}
      @click=${() => moveMany(MOVES[name], chosen())}
    >
      ${MOVES[name].verb}
    </button>`,
  ]);

/** @param {Move} move @param {Chosen} chosen */
function moveMany(move, chosen) {
  const typed = signal(move.name === "retry" ? "50" : "");
  const take = (/** @type {Event} */ event) =>
    (typed.value = /** @type {HTMLInputElement} */ (event.target).value);
  const fields = {
    rate: html`<label
      >At most this many per second<input
        type="number"
        min="0.1"
        step="any"
        .value=${typed.value}
        @input=${take}
    /></label>`,
    note: html`<label>Why<input type="text" required @input=${take} /></label>`,
  };
  const field = move.name === "retry" ? fields.rate : WITH_NOTE.has(move.name) ? fields.note : null;
  const body = () => (move.name === "retry" ? { rate: Number(typed.value) || null } : { note: typed.value });
  bulkDialog({
    title: move.title,
    verb: move.verb,
    doing: move.doing,
    noun: ["dead letter", "dead letters"],
    kind: move.kind,
    path: `dead-letters/${move.name}`,
    ...chosen,
    body: field ? body : undefined,
    fields: html`${move.hint ? html`<p>${move.hint}</p>` : null}${field}`,
  });
}

/** Buttons for one dead letter, besides those that retry it. @param {Delivery} letter @param {() => Promise<void>} load */
export const buttonsOfOne = (letter, load) =>
  movesOf(letter.disposition)
    .filter((name) => name !== "retry")
    .map(
      (name) =>
        html`<button
          type="button"
          class=${MOVES[name].kind ?? ""}
          @click=${() => moveOne(MOVES[name], letter.id, load)}
        >
          ${MOVES[name].verb}
        </button>`,
    );

/** @param {Move} move @param {string} id @param {() => Promise<void>} load */
async function moveOne({ name, verb, done, kind, hint }, id, load) {
  const send = async (/** @type {unknown} */ body) => {
    await post(path("dead-letters", id, name), body);
    await load();
  };
  if (!WITH_NOTE.has(name)) return void (await attempt(done, () => send(undefined)));
  formDialog({
    title: `${verb} this dead letter`,
    verb,
    kind,
    done,
    fields: [{ name: "note", label: "Why", required: true, hint }],
    work: ({ note }) => send({ note }),
  });
}
