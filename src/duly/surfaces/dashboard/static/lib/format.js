/** Numbers, durations and moments as people read them. */

import { computed, signal } from "./view.js";

/** Whether moments are shown in UTC instead of the browser's zone. */
export const inUtc = signal(localStorage.getItem("duly.utc") === "yes");
/** The present moment, once a second while the page is visible. */
export const now = signal(Date.now());
const numbers = new Intl.NumberFormat("en");
const SECOND = 1000;

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, SECOND);

/** Switch between UTC and the browser's zone. */
export function switchZone() {
  inUtc.value = !inUtc.value;
  localStorage.setItem("duly.utc", inUtc.value ? "yes" : "no");
}

/** @param {number} value @param {number} [limit] counts end there */
export const count = (value, limit = Infinity) => numbers.format(value) + (value >= limit ? "+" : "");

/** A rate per second. @param {number} value */
export const rate = (value) =>
  `${value >= 100 ? count(Math.round(value)) : value.toFixed(value >= 10 ? 0 : 1)}/s`;

/** A duration, in its two largest units. @param {number} seconds */
export function duration(seconds) {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of /** @type {[string, number][]} */ ([
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ])) {
    if (rest >= size && parts.length < 2) {
      parts.push(`${Math.floor(rest / size)} ${unit}`);
      rest %= size;
    } else if (parts.length) break;
  }
  return parts.join(" ") || "0 s";
}

/** How far a moment is from now. @param {string} moment @param {number} [at] */
export function relative(moment, at = now.value) {
  const seconds = (Date.parse(moment) - at) / SECOND;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `in ${duration(seconds)}` : `${duration(-seconds)} ago`;
}

const formats = computed(() => {
  const zone = inUtc.value ? { timeZone: "UTC" } : {};
  return {
    full: new Intl.DateTimeFormat("sv", { ...zone, dateStyle: "short", timeStyle: "medium" }),
    time: new Intl.DateTimeFormat("sv", { ...zone, hour: "2-digit", minute: "2-digit" }),
    day: new Intl.DateTimeFormat("sv", { ...zone, month: "2-digit", day: "2-digit" }),
  };
});

/** A moment as date and time, with its zone. @param {string} moment */
export const absolute = (moment) => formats.value.full.format(new Date(moment)) + (inUtc.value ? " UTC" : "");

/** The time of day of a moment. @param {string} moment */
export const timeOfDay = (moment) => formats.value.time.format(new Date(moment));

/** The day of a moment, without the year. @param {string} moment */
export const dayOf = (moment) => formats.value.day.format(new Date(moment));

/** The day and time of a moment. @param {string} moment */
export const dayAndTime = (moment) => `${dayOf(moment)} ${timeOfDay(moment)}`;

/** A moment in another zone. @param {string} moment @param {string} zone */
export const inZone = (moment, zone) =>
  new Intl.DateTimeFormat("sv", { timeZone: zone, dateStyle: "short", timeStyle: "short" }).format(
    new Date(moment),
  );

/** The first of several forms for one, the second otherwise. @param {number} n @param {string} one @param {string} [many] */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
