/** The parts that pages are made of: states, moments, tables' notes, dialogs and messages. */

import { absolute, now, relative } from "./format.js";
import { icon } from "./icons.js";
import { html, keyed, mount, signal } from "./view.js";

/** @typedef {import("./view.js").Template} Template */

const PIECE_CHARACTERS = 10_000;

/** The kind of each state, which decides its colour. @type {Record<string, string>} */
const KINDS = {
  pending: "idle",
  processing: "busy",
  running: "busy",
  retrying: "warn",
  waiting: "idle",
  idle: "idle",
  probing: "warn",
  expired: "idle",
  revoked: "idle",
  completed: "good",
  dead: "bad",
  cancelled: "idle",
  retry: "warn",
  active: "good",
  paused: "warn",
  blocked: "bad",
  removed: "idle",
  disabled: "bad",
  open: "bad",
  closed: "good",
  alive: "good",
  draining: "warn",
  stopped: "idle",
  raised: "bad",
  cleared: "good",
  recovering: "busy",
  held: "warn",
  given_up: "idle",
  hold_released: "idle",
};

/** The shape of a state. @type {Record<string, string>} */
const SHAPES = {
  processing: "running",
  retrying: "running",
  waiting: "pending",
  idle: "pending",
  probing: "warning",
  expired: "cancelled",
  revoked: "cancelled",
  retry: "running",
  active: "completed",
  alive: "completed",
  closed: "completed",
  open: "dead",
  disabled: "dead",
  draining: "paused",
  stopped: "cancelled",
  removed: "cancelled",
  raised: "warning",
  cleared: "completed",
  recovering: "running",
  held: "paused",
  given_up: "cancelled",
  hold_released: "play",
};

/** The kind of a state: good, warn, bad, busy or idle. @param {string} state */
export const kindOf = (state) => KINDS[state] ?? "idle";

/** The name of the drawing of a state. @param {string} state */
export const shapeOf = (state) => SHAPES[state] ?? state;

/** A text in which commands stand between backticks. @param {string} text */
export const prose = (text) =>
  text.split("`").map((each, index) => (index % 2 ? html`<code>${each}</code>` : each));

/** A state by shape, colour and word. @param {string} state @param {string} [word] */
export const stateMark = (state, word = state.replaceAll("_", " ")) =>
  html`<span class=${`state ${kindOf(state)}`}>${icon(shapeOf(state))}${word}</span>`;

/** A moment: how far away it is, and when exactly. @param {string | null | undefined} moment */
export function momentOf(moment) {
  if (!moment) return html`<span class="dim">–</span>`;
  return html`<time datetime=${moment} title=${() => absolute(moment)}
    >${() => relative(moment, now.value)}</time
  >`;
}

/** A moment, exactly and then relative. @param {string | null | undefined} moment */
export function fullMoment(moment) {
  if (!moment) return html`<span class="dim">–</span>`;
  return html`<time datetime=${moment}>${() => absolute(moment)}</time>
    <span class="dim">${() => relative(moment, now.value)}</span>`;
}

/** A button that copies a text. @param {string} text @param {string} [what] */
export function copyButton(text, what = "") {
  const copied = signal(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    copied.value = true;
    setTimeout(() => (copied.value = false), 1500);
  };
  return html`<button
    type="button"
    class="quiet small"
    @click=${copy}
    aria-label=${`Copy ${what || text.slice(0, 80)}`}
  >
    ${icon("copy")}${() => (copied.value ? "Copied" : "")}
  </button>`;
}

/** A command with a button to copy it. @param {string} command */
export const commandLine = (command) =>
  html`<span class="command"><code>${command}</code>${copyButton(command, "command")}</span>`;

/** A text of any size. A browser takes seconds to lay out a megabyte, so it gets pieces, of which it lays out those in view. @param {() => string} text @param {string} label */
export const longText = (text, label) =>
  html`<pre tabindex="0" aria-label=${label}>
${() => (text().length > PIECE_CHARACTERS ? pieces(text()).map((each) => html`<span class="piece">${each}</span>`) : text())}</pre>`;

/** The text in pieces that end with a line, or within a very long one. @param {string} text */
function pieces(text) {
  const found = [];
  for (let start = 0; start < text.length;) {
    const line = text.lastIndexOf("\n", start + PIECE_CHARACTERS) + 1;
    const end = line > start ? line : start + PIECE_CHARACTERS;
    found.push(text.slice(start, end));
    start = end;
  }
  return found;
}

/** What to show instead of an empty list. @param {string} title @param {string} text @param {string} [command] */
export const emptyState = (title, text, command) =>
  html`<div class="empty">
    <h2>${title}</h2>
    <p>${text}</p>
    ${command ? commandLine(command) : null}
  </div>`;

/** An error, in place of what it prevents. @param {unknown} error @param {() => void} [again] */
export function errorBanner(error, again) {
  const retry = again ? html`<button type="button" class="small" @click=${again}>Try again</button>` : null;
  return html`<div class="banner bad" role="alert">
    ${icon("warning")}<span>${messageOf(error)}</span><span class="spring"></span>${retry}
  </div>`;
}

/** What went wrong with reading something, as long as it does. @param {{ error: { value: unknown }, load: () => unknown }} read */
export const troubleOf = ({ error, load }) =>
  html`${() => (error.value ? errorBanner(error.value, () => void load()) : null)}`;

/** Names and values; those without a value are left out. @param {[string, unknown][]} rows */
export const factList = (rows) =>
  html`<dl class="facts">
    ${rows
      .filter(([, value]) => value)
      .map(
        ([name, value]) =>
          html`<dt>${name}</dt>
            <dd>${value}</dd>`,
      )}
  </dl>`;

/** @param {unknown} error */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/** @type {import("./view.js").Signal<{ id: number, text: string, kind: string }[]>} */
const toasts = signal([]);
let lastToast = 0;

/** Show a short message for some seconds. @param {string} text @param {string} [kind] */
export function toast(text, kind = "good") {
  const id = (lastToast += 1);
  toasts.value = [...toasts.value.slice(-3), { id, text, kind }];
  setTimeout(
    () => (toasts.value = toasts.value.filter((each) => each.id !== id)),
    kind === "bad" ? 10_000 : 5_000,
  );
}

/** Where messages appear. */
export const toastList = () =>
  html`<div class="toasts" role="status" aria-live="polite">
    ${keyed(
      () => toasts.value,
      (each) => each.id,
      (each) =>
        html`<div class=${`toast ${each.value.kind}`}>
          ${icon(each.value.kind === "bad" ? "warning" : "completed")}<span>${each.value.text}</span>
        </div>`,
    )}
  </div>`;

/** Do something that may be refused, and say what came of it. @param {string} done @param {() => Promise<unknown>} work */
export async function attempt(done, work) {
  try {
    await work();
    toast(done);
    return true;
  } catch (error) {
    toast(messageOf(error), "bad");
    return false;
  }
}

/**
 * A dialog; `content` gets a function that closes it.
 * @param {string} title @param {(close: () => void) => Template} content
 */
export function dialog(title, content) {
  const element = document.createElement("dialog");
  element.setAttribute("aria-label", title);
  document.body.append(element);
  const dispose = mount(
    () =>
      html`<div class="inside">
        <h2>${title}</h2>
        ${content(() => element.close())}
      </div>`,
    element,
  );
  element.addEventListener("close", () => {
    dispose();
    element.remove();
  });
  element.showModal();
  return element;
}

/**
 * Ask before something is done; errors stay in the dialog.
 * @param {{ title: string, text: string | Template, verb: string, kind?: string, done: string, work: () => Promise<unknown> }} question
 */
export function confirm({ title, text, verb, kind = "primary", done, work }) {
  const error = signal("");
  const isBusy = signal(false);
  dialog(title, (close) => {
    const go = async (/** @type {Event} */ event) => {
      event.preventDefault();
      isBusy.value = true;
      try {
        await work();
        toast(done);
        close();
      } catch (problem) {
        error.value = messageOf(problem);
      }
      isBusy.value = false;
    };
    return html`<form class="stack" @submit=${go}>
      <p>${text}</p>
      ${() => (error.value ? html`<p class="field-error" role="alert">${error.value}</p>` : null)}
      <footer>
        <button type="button" @click=${close}>Back</button>
        <button class=${kind} ?disabled=${() => isBusy.value} autofocus>${verb}</button>
      </footer>
    </form>`;
  });
}
