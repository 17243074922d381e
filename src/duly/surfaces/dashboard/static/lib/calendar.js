/** A calendar of a year: twelve months, in which the arrow keys move from day to day. */

import { html, signal } from "./view.js";

const DAY_MS = 86_400_000;
const WEEKDAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];
const months = new Intl.DateTimeFormat("en", { month: "long", timeZone: "UTC" });
const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", timeZone: "UTC" });

/** The month and day of a date, as "02-28". @param {Date} date */
const keyOf = (date) => date.toISOString().slice(5, 10);

/** @param {number} year @param {string} key */
const dateOf = (year, key) => new Date(`${year}-${key}T00:00:00Z`);

/** A day in words, as "28 February". @param {string} key */
export const dayName = (key) => days.format(dateOf(2000, key));

/**
 * @param {{ year: number, today: string, names: (key: string) => string[], chosen: import("./view.js").Signal<string | null> }} calendar
 *   days are keys as "02-28"; `names` are those who have that day, `chosen` is the day that was clicked
 */
export function yearCalendar({ year, today, names, chosen }) {
  const focused = signal(today);
  const button = (/** @type {string} */ key) =>
    html`<button
      type="button"
      class="day"
      data-day=${key}
      tabindex=${() => (focused.value === key ? 0 : -1)}
      aria-label=${() => `${dayName(key)}: ${names(key).join(", ") || "nobody"}`}
      aria-pressed=${() => String(chosen.value === key)}
      aria-current=${key === today ? "date" : null}
      ?data-marked=${() => names(key).length > 0}
      title=${() => names(key).join(", ") || null}
      @click=${() => choose(key)}
    >
      ${Number(key.slice(3))}
    </button>`;
  const choose = (/** @type {string} */ key) => {
    focused.value = key;
    chosen.value = chosen.value === key ? null : key;
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    const next = moved(dateOf(year, focused.value), event.key);
    if (!next) return;
    event.preventDefault();
    if (next.getUTCFullYear() !== year) return;
    focused.value = keyOf(next);
    const grid = /** @type {Element} */ (event.currentTarget);
    /** @type {HTMLElement | null} */ (grid.querySelector(`[data-day="${focused.value}"]`))?.focus();
  };
  return html`<div
    class="calendar"
    role="group"
    aria-label=${`${year}; arrow keys move from day to day`}
    @keydown=${press}
  >
    ${Array.from({ length: 12 }, (_, index) => monthTable(year, index, button))}
  </div>`;
}

/** @param {number} year @param {number} index @param {(key: string) => unknown} button */
function monthTable(year, index, button) {
  const name = months.format(Date.UTC(year, index));
  const cell = (/** @type {string | null} */ key) => html`<td>${key && button(key)}</td>`;
  return html`<table aria-label=${name}>
    <caption>
      ${name}
    </caption>
    <thead>
      <tr>
        ${WEEKDAYS.map((each) => html`<th>${each}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${weeksOf(year, index).map(
        (week) =>
          html`<tr>
            ${week.map(cell)}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** The days of a month in rows from Monday to Sunday. @param {number} year @param {number} index */
function weeksOf(year, index) {
  const first = Date.UTC(year, index);
  const before = (new Date(first).getUTCDay() + 6) % 7;
  const length = (Date.UTC(year, index + 1) - first) / DAY_MS;
  const cells = /** @type {(string | null)[]} */ (new Array(before).fill(null));
  for (let day = 0; day < length; day += 1) cells.push(keyOf(new Date(first + day * DAY_MS)));
  const weeks = [];
  while (cells.length) weeks.push(cells.splice(0, 7));
  return weeks;
}

/** The day that a key leads to. @param {Date} date @param {string} key */
function moved(date, key) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 }[key];
  if (step !== undefined) return new Date(date.getTime() + step * DAY_MS);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  if (key === "Home") return new Date(Date.UTC(year, month));
  if (key === "End") return new Date(Date.UTC(year, month + 1, 0));
  if (key === "PageUp") return new Date(Date.UTC(year, month - 1));
  if (key === "PageDown") return new Date(Date.UTC(year, month + 1));
  return null;
}
