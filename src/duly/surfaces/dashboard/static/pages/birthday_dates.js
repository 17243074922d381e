/** On which days people are greeted. */

/** @typedef {import("../lib/types.js").Person} Person */

const DAY_MS = 86_400_000;
const LEAP_DAY = "02-29";
/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** The present date in a time zone, as 2026-11-17. @param {string} zone */
export function todayIn(zone) {
  const known = formats.get(zone) ?? new Intl.DateTimeFormat("sv", { timeZone: zone, dateStyle: "short" });
  formats.set(zone, known);
  return known.format(new Date());
}

/** @param {Person} person */
export const nameOf = ({ firstName, lastName }) => `${firstName} ${lastName}`;

/** @param {number} year */
const isLeap = (year) => new Date(Date.UTC(year, 1, 29)).getUTCMonth() === 1;

/** The day of a year on which somebody is greeted, as "11-15"; null if not in that year. @param {Person} person @param {number} year */
export function celebratedOn({ dateOfBirth, feb29 }, year) {
  const day = dateOfBirth.slice(5);
  if (day !== LEAP_DAY || isLeap(year)) return day;
  if (feb29 === "skip") return null;
  return feb29 === "mar1" ? "03-01" : "02-28";
}

/** How many days there are until the next birthday. @param {Person} person */
export function daysUntil(person) {
  const today = todayIn(person.timezone);
  const year = Number(today.slice(0, 4));
  for (let next = year; next <= year + 8; next += 1) {
    const day = celebratedOn(person, next);
    const left = day ? (Date.parse(`${next}-${day}`) - Date.parse(today)) / DAY_MS : -1;
    if (left >= 0) return left;
  }
  return Infinity;
}
