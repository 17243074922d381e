/** Birthdays: the people of the birthday service, their next greetings, and a calendar of the year. */

import { get } from "../lib/api.js";
import { dayName, yearCalendar } from "../lib/calendar.js";
import { count, plural } from "../lib/format.js";
import { documentOf } from "../lib/list.js";
import { update } from "../lib/live.js";
import { link } from "../lib/router.js";
import { hasBirthdays } from "../lib/services.js";
import { operate } from "../lib/session.js";
import { emptyState, momentOf, stateMark, troubleOf } from "../lib/ui.js";
import { computed, effect, html, keyed, signal, untracked, when } from "../lib/view.js";
import { celebratedOn, daysUntil, nameOf, todayIn } from "./birthday_dates.js";
import { editPerson, removePerson } from "./birthday_operations.js";

/** @typedef {import("../lib/types.js").Person} Person */
/** @typedef {import("../lib/types.js").Greeting} Greeting */
/** @typedef {{ person: Person, greeting: Greeting }} Upcoming */

const PAGE = 200;
const MOST = 2000;
const SHOWN = 50;
const NEXT = 8;
/** More are asked: those who were greeted today have their next greeting in a year. */
const ASKED = 16;

export const render = () =>
  html`${when(
    () => hasBirthdays.value,
    birthdays,
    () =>
      html`<h1>Birthdays</h1>
        ${emptyState("The birthday service does not run here", "Start the server with it.", "duly serve duly_birthday:app")}`,
  )}`;

/** The first people, in pages; more than that would make the page slow. */
async function readPeople() {
  const found = /** @type {Person[]} */ ([]);
  let cursor = null;
  do {
    const page = /** @type {import("../lib/api.js").Page<Person>} */ (
      await get("../user", { cursor, limit: PAGE })
    );
    found.push(...page.items);
    cursor = page.next;
  } while (cursor !== null && found.length < MOST);
  return found;
}

function birthdays() {
  const read = documentOf(readPeople, 30);
  const { found, error, load } = read;
  const people = computed(() => found.value ?? []);
  const chosen = signal(/** @type {string | null} */ (null));
  return html` <div class="head">
      <div>
        <h1>Birthdays</h1>
        <p>${() => howMany(found.value)}</p>
      </div>
      <span class="spring"></span>
      ${operate(() => html`<button type="button" class="primary" @click=${() => editPerson(null, load)}>Add a person</button>`)}
    </div>
    ${troubleOf(read)}
    ${when(
      () => people.value.length,
      () =>
        html`${nextGreetings(people)} ${calendarCard(people, chosen)} ${peopleCard(people, chosen, load)}`,
      () =>
        html`${() => (found.value ? nobody() : html`<p class="dim">${error.value ? "" : "Loading…"}</p>`)}`,
    )}`;
}

const nobody = () =>
  emptyState(
    "Nobody yet",
    "Add a person here, or import a file.",
    "python -m duly_birthday import people.csv",
  );

/** @param {Person[] | null} people */
function howMany(people) {
  if (people === null) return "…";
  const many =
    people.length >= MOST ? `The first ${count(MOST)} people` : plural(people.length, "person", "people");
  return `${many}, each greeted once a year.`;
}

/** @param {{ value: Person[] }} people */
function nextGreetings(people) {
  const upcoming = signal(/** @type {Upcoming[]} */ ([]));
  const read = async () => {
    const first = [...people.value].sort((a, b) => daysUntil(a) - daysUntil(b)).slice(0, ASKED);
    const shown = await Promise.all(
      first.map((person) =>
        get(`../user/${person.id}`).then(
          (found) => ({
            person,
            greeting: /** @type {{ nextBirthdayEvent: Greeting | null }} */ (found).nextBirthdayEvent,
          }),
          () => ({ person, greeting: null }), // removed meanwhile
        ),
      ),
    );
    const known = /** @type {Upcoming[]} */ (shown.filter((each) => each.greeting));
    known.sort((a, b) => Date.parse(a.greeting.dueAt) - Date.parse(b.greeting.dueAt));
    update(upcoming, known.slice(0, NEXT));
  };
  effect(() => {
    if (people.value.length) untracked(() => void read());
  });
  return html`<section class="card" aria-label="Next greetings">
    <header><h2>Next greetings</h2></header>
    <div class="table-wrap">
      <table>
        <thead>
          <tr>
            <th>Who</th>
            <th>In their time</th>
            <th>Due</th>
            <th class="narrow-hidden">State</th>
          </tr>
        </thead>
        <tbody>
          ${keyed(
            () => upcoming.value,
            (each) => each.greeting.id,
            (row) =>
              html`<tr>
                <td class="clip">
                  <a href=${link(["deliveries", row.value.greeting.id])}>${() => nameOf(row.value.person)}</a>
                </td>
                <td class="fit">
                  ${() => row.value.greeting.localTime.slice(0, 16).replace("T", " ")}
                  <span class="dim narrow-hidden">${() => row.value.greeting.timezone}</span>
                </td>
                <td class="fit">${() => momentOf(row.value.greeting.dueAt)}</td>
                <td class="fit narrow-hidden">${() => stateMark(row.value.greeting.state)}</td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}

/** @param {{ value: Person[] }} people @param {import("../lib/view.js").Signal<string | null>} chosen */
function calendarCard(people, chosen) {
  const today = todayIn(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const year = Number(today.slice(0, 4));
  const byDay = computed(() => {
    const found = /** @type {Map<string, string[]>} */ (new Map());
    for (const each of people.value) {
      const day = celebratedOn(each, year);
      if (day) found.set(day, [...(found.get(day) ?? []), nameOf(each)]);
    }
    return found;
  });
  const names = (/** @type {string} */ day) => byDay.value.get(day) ?? [];
  const told = () => {
    if (chosen.value === null) return "Choose a day to see who has their birthday.";
    return `${dayName(chosen.value)}: ${names(chosen.value).join(", ") || "nobody"}`;
  };
  return html`<section class="card" aria-label="Calendar">
    <header>
      <h2>${year}</h2>
      <span class="dim" role="status">${told}</span>
    </header>
    <div class="inside">${yearCalendar({ year, today: today.slice(5), names, chosen })}</div>
  </section>`;
}

/** @param {{ value: Person[] }} people @param {import("../lib/view.js").Signal<string | null>} chosen @param {() => Promise<void>} load */
function peopleCard(people, chosen, load) {
  const text = signal("");
  const year = new Date().getFullYear();
  const matching = computed(() =>
    people.value.filter(
      (each) =>
        nameOf(each).toLowerCase().includes(text.value.toLowerCase()) &&
        (chosen.value === null || celebratedOn(each, year) === chosen.value),
    ),
  );
  const type = (/** @type {Event} */ event) =>
    (text.value = /** @type {HTMLInputElement} */ (event.target).value);
  return html`<section class="card" aria-label="People">
    <header>
      <h2>People</h2>
      ${() => (chosen.value ? html`<span class="dim">${dayName(chosen.value)}</span><button type="button" class="quiet small" @click=${() => (chosen.value = null)}>Show all</button>` : null)}
      <span class="spring"></span>
      <input
        type="search"
        class="short"
        data-search
        aria-label="Search people"
        placeholder="Part of a name"
        @input=${type}
      />
    </header>
    <div class="table-wrap">
      <table>
        <thead>
          <tr>
            <th>Name</th>
            <th>Born</th>
            <th class="narrow-hidden">Time zone</th>
            <th><span class="visually-hidden">Operations</span></th>
          </tr>
        </thead>
        <tbody>
          ${keyed(
            () => matching.value.slice(0, SHOWN),
            (each) => each.id,
            (row) =>
              html`<tr>
                <td class="clip">${() => nameOf(row.value)}</td>
                <td class="fit">${() => row.value.dateOfBirth}</td>
                <td class="clip narrow-hidden">${() => row.value.timezone}</td>
                <td class="fit num">
                  ${operate(() => html`<button type="button" class="small" aria-label=${`Edit ${nameOf(row.value)}`} @click=${() => editPerson(row.value, load)}>Edit</button> <button type="button" class="small danger" aria-label=${`Remove ${nameOf(row.value)}`} @click=${() => removePerson(row.value, load)}>Remove</button>`)}
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <div class="more row">
      <span class="dim"
        >${() => `${plural(matching.value.length, "person", "people")}${matching.value.length > SHOWN ? `, the first ${SHOWN} are shown` : ""}`}</span
      >
    </div>
  </section>`;
}
