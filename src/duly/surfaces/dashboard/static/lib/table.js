/** What lists share: their table, a selection, a cursor for the keyboard, and the way to more. */

import { plural } from "./format.js";
import { shortcuts } from "./keys.js";
import { isHeld } from "./live.js";
import { canOperate, operate } from "./session.js";
import { emptyState, troubleOf } from "./ui.js";
import { effect, html, keyed, onDispose, signal, when } from "./view.js";

/**
 * The selected rows of a list; lists are not refreshed while there are some.
 * @template T @param {{ value: T[] }} items @param {(item: T) => string} key
 */
export function selectionOf(items, key) {
  const chosen = signal(/** @type {ReadonlySet<string>} */ (new Set()));
  effect(() => {
    isHeld.value = chosen.value.size > 0;
  });
  effect(() => {
    if (!items.value.length) chosen.value = new Set(); // another list is read
  });
  onDispose(() => (isHeld.value = false));
  const toggle = (/** @type {string} */ id) => {
    const next = new Set(chosen.value);
    if (!next.delete(id)) next.add(id);
    chosen.value = next;
  };
  const areAll = () => items.value.length > 0 && items.value.every((each) => chosen.value.has(key(each)));
  const toggleAll = () => {
    chosen.value = new Set(areAll() ? [] : items.value.map(key));
  };
  return {
    toggle,
    clear: () => void (chosen.value = new Set()),
    has: (/** @type {string} */ id) => chosen.value.has(id),
    ids: () => [...chosen.value],
    size: () => chosen.value.size,
    box: (/** @type {string} */ id, /** @type {string} */ name) =>
      operate(
        () =>
          html`<input
            type="checkbox"
            aria-label=${name}
            .checked=${() => chosen.value.has(id)}
            @change=${() => toggle(id)}
          />`,
      ),
    bar: (/** @type {[string, string?]} */ noun, /** @type {import("./view.js").Template} */ buttons) =>
      when(
        () => chosen.value.size,
        () =>
          html`<div class="selection" role="toolbar" aria-label="What to do with the selection">
            <b>${() => plural(chosen.value.size, ...noun)}</b>${buttons}<button
              type="button"
              class="quiet"
              @click=${() => (chosen.value = new Set())}
            >
              Clear the selection
            </button>
          </div>`,
      ),
    all: () =>
      operate(
        () =>
          html`<input
            type="checkbox"
            aria-label="Select all that are shown"
            .checked=${areAll}
            @change=${toggleAll}
          />`,
      ),
  };
}

/**
 * A cursor: j and k move it, Enter opens its row, x selects it, / goes to the search.
 * @template T @param {{ value: T[] }} items @param {(item: T) => string} key
 * @param {{ open: (item: T) => void, select?: (item: T) => void }} actions
 */
export function cursorKeys(items, key, { open, select }) {
  const current = signal(/** @type {string | null} */ (null));
  const index = () => items.value.findIndex((each) => key(each) === current.value);
  const move = (/** @type {number} */ step) => {
    const next = items.value[Math.max(0, Math.min(items.value.length - 1, index() + step))];
    if (next === undefined) return;
    current.value = key(next);
    queueMicrotask(() => document.querySelector("tr[data-current]")?.scrollIntoView({ block: "nearest" }));
  };
  const act = (/** @type {((item: T) => void) | undefined} */ what) => {
    const found = items.value[index()];
    if (found !== undefined) what?.(found);
  };
  shortcuts([
    { keys: "j", title: "Next row", run: () => move(1) },
    { keys: "k", title: "Previous row", run: () => move(-1) },
    { keys: "Enter", title: "Open the row", run: () => act(open) },
    ...(select ? [{ keys: "x", title: "Select the row", run: () => canOperate.value && act(select) }] : []),
    {
      keys: "/",
      title: "Search",
      run: () => /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"))?.focus(),
    },
  ]);
  return current;
}

/** The head of the column with the buttons of each row. */
export const OPERATIONS = html`<span class="visually-hidden">Operations</span>`;

/**
 * A list as a card: what went wrong, its rows, what an empty one says, and the way to more.
 * A head is a text, or a content with a class.
 * @template T
 * @param {{
 *   label: string,
 *   list: { items: { value: T[] }, next: { value: unknown }, error: { value: unknown }, isLoaded: { value: boolean }, load: () => unknown, more: () => void },
 *   heads: (string | [unknown, string])[],
 *   key: (item: T) => string | number,
 *   row: (row: { value: T }) => import("./view.js").Template,
 *   empty: () => Parameters<typeof emptyState>,
 *   title?: import("./view.js").Template | null,
 *   below?: unknown,
 * }} card
 */
export const listCard = ({ label, list, heads, key, row, empty, title = null, below = null }) =>
  html`${troubleOf(list)}
    <section class="card" aria-label=${label}>
      ${title}
      <div class="table-wrap">
        <table>
          <thead>
            <tr>
              ${heads.map((each) =>
                typeof each === "string"
                  ? html`<th>${each}</th>`
                  : html`<th class=${each[1]}>${each[0]}</th>`,
              )}
            </tr>
          </thead>
          <tbody>
            ${keyed(() => list.items.value, key, row)}
          </tbody>
        </table>
      </div>
      ${when(
        () => list.isLoaded.value && !list.items.value.length && !list.error.value,
        () => emptyState(...empty()),
      )}
      ${listFoot(list)} ${below}
    </section>`;

/**
 * Below a list: how many are shown, and the way to more.
 * @param {{ items: { value: unknown[] }, next: { value: unknown }, isLoaded: { value: boolean }, more: () => void }} list
 */
export const listFoot = ({ items, next, isLoaded, more }) =>
  html`<div class="more row">
    <span class="dim"
      >${() => {
        if (!isLoaded.value) return "Loading…";
        if (!items.value.length) return "";
        return `${plural(items.value.length, "row")} shown${next.value === null ? "" : ", there are more"}`;
      }}</span
    >
    <span class="spring"></span>
    ${() => (next.value !== null && isLoaded.value ? html`<button type="button" class="small" @click=${more}>Show more</button>` : null)}
  </div>`;
