/** The keyboard: single letters, `g` and a letter for a page, and the palette. */

import { dialog } from "./ui.js";
import { computed, html, keyed, onDispose, signal } from "./view.js";

/** @typedef {{ keys: string, title: string, run: () => void }} Command */

/** @type {Set<Command>} */
const commands = new Set();
let prefix = "";

/** Add commands while the present page is shown. @param {Command[]} added */
export function shortcuts(added) {
  for (const each of added) commands.add(each);
  onDispose(() => added.forEach((each) => commands.delete(each)));
}

/** @param {EventTarget | null} target */
const isTyping = (target) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** @param {KeyboardEvent} event */
function press(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") /** @type {HTMLElement} */ (event.target).blur();
    return;
  }
  if (event.key === "Enter" && event.target instanceof Element && event.target.closest("a, button, summary"))
    return;
  const typed = prefix + event.key;
  prefix = event.key === "g" && !prefix ? "g " : "";
  const found = [...commands].reverse().find((each) => each.keys === typed);
  if (!found) return;
  event.preventDefault();
  found.run();
}

/** Start listening. */
export const listen = () => addEventListener("keydown", press);

/** A list of all commands, found by typing. */
export function openPalette() {
  if (document.querySelector("dialog.palette")) return;
  const text = signal("");
  const chosen = signal(0);
  const found = computed(() =>
    [...commands].filter((each) => each.title.toLowerCase().includes(text.value.toLowerCase())),
  );
  const element = dialog("Commands", (close) => {
    const run = (/** @type {Command | undefined} */ command) => {
      close();
      command?.run();
    };
    const move = (/** @type {KeyboardEvent} */ event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step !== undefined) {
        event.preventDefault();
        chosen.value = Math.max(0, Math.min(found.value.length - 1, chosen.value + step));
      } else if (event.key === "Enter") {
        event.preventDefault();
        run(found.value[chosen.value]);
      }
    };
    const typed = (/** @type {Event} */ event) => {
      text.value = /** @type {HTMLInputElement} */ (event.target).value;
      chosen.value = 0;
    };
    return html`<div class="stack">
      <input
        type="search"
        autofocus
        placeholder="Go to a page, or do something"
        aria-label="Command"
        @input=${typed}
        @keydown=${move}
      />
      <ul role="listbox" aria-label="Commands">
        ${keyed(
          () => found.value,
          (each) => each.title,
          (each) =>
            html`<li
              role="option"
              aria-selected=${() => String(found.value[chosen.value] === each.value)}
              @click=${() => run(each.value)}
            >
              <span>${() => each.value.title}</span
              ><span class="spring"></span>${each.value.keys.split(" ").map((key) => html`<kbd>${key}</kbd>`)}
            </li>`,
        )}
      </ul>
    </div>`;
  });
  element.classList.add("palette");
}

/** A list of all keys. */
export function openHelp() {
  const all = [...commands].filter((each) => each.keys).sort((a, b) => a.title.localeCompare(b.title));
  dialog(
    "Keys",
    (close) =>
      html`<div class="stack">
        <dl class="facts">
          ${all.map(
            (each) =>
              html`<dt>${each.keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt>
                <dd>${each.title}</dd>`,
          )}
        </dl>
        <footer><button type="button" @click=${close} autofocus>Close</button></footer>
      </div>`,
  );
}
