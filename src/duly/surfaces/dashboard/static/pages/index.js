/**
 * The pages: a name in the address, a title, a letter for `g`, and the file that renders it.
 *
 * A page's file exports `render(place)`, which returns a template, and may export `title(place)`.
 */

import { hasBirthdays } from "../lib/services.js";

/** @typedef {import("../lib/router.js").Place} Place */
/** @typedef {{ render: (place: Place) => import("../lib/view.js").Template }} Page */
/** @typedef {{ name: string, title: string, key: string, isShown?: { value: boolean }, load: (place: Place) => Promise<Page> }} Entry */

/** @type {Entry[]} */
export const PAGES = [
  { name: "overview", title: "Overview", key: "o", load: () => import("./overview.js") },
  {
    name: "deliveries",
    title: "Deliveries",
    key: "d",
    load: ({ parts }) => (parts[1] ? import("./delivery.js") : import("./deliveries.js")),
  },
  {
    name: "schedules",
    title: "Schedules",
    key: "s",
    load: ({ parts }) => (parts[1] ? import("./schedule.js") : import("./schedules.js")),
  },
  { name: "calendars", title: "Calendars", key: "c", load: () => import("./calendars.js") },
  {
    name: "streams",
    title: "Streams",
    key: "m",
    load: ({ parts }) => (parts[1] ? import("./stream.js") : import("./streams.js")),
  },
  { name: "batches", title: "Batches", key: "t", load: () => import("./batches.js") },
  { name: "dead_letters", title: "Dead letters", key: "l", load: () => import("./dead_letters.js") },
  {
    name: "endpoints",
    title: "Endpoints",
    key: "e",
    load: ({ parts }) => (parts[1] ? import("./endpoint.js") : import("./endpoints.js")),
  },
  {
    name: "limits",
    title: "Limits",
    key: "i",
    load: ({ parts }) => (parts[1] ? import("./limit_keys.js") : import("./limits.js")),
  },
  { name: "workers", title: "Workers", key: "w", load: () => import("./workers.js") },
  {
    name: "birthdays",
    title: "Birthdays",
    key: "b",
    isShown: hasBirthdays,
    load: () => import("./birthdays.js"),
  },
  { name: "settings", title: "Settings", key: ",", load: () => import("./settings.js") },
];

/** The pages of the menu. */
export const shownPages = () => PAGES.filter((each) => each.isShown?.value ?? true);

/** @param {Place} place */
export const pageOf = (place) => PAGES.find((each) => each.name === (place.parts[0] ?? "overview"));
