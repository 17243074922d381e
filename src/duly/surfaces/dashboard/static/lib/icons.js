/** The drawings: states have a shape of their own beside their colour and word. */

const SVG = "http://www.w3.org/2000/svg";

/** Outlines in a square of 16, drawn with a line of 1.5. */
const PATHS = {
  overview: "M2 13V9M6 13V5M10 13V7M14 13V3",
  deliveries: "M2 4h12M2 8h12M2 12h8",
  schedules: "M8 4v4l3 2M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z",
  streams: "M2 8h3M6.5 8h3M11 8h3M12 6l2 2-2 2",
  batches: "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9.5 11.5l1.5 1.5 3-3.5",
  dead_letters: "M8 1.8 14.2 8 8 14.2 1.8 8ZM6 6l4 4M10 6l-4 4",
  endpoints: "M6 10 10 6M7 4.5 8.8 2.7a3 3 0 0 1 4.4 4.4L11.5 9M9 11.5l-1.8 1.8a3 3 0 0 1-4.4-4.4L4.5 7",
  workers: "M3 3h10v4H3zM3 9h10v4H3zM5.5 5h.01M5.5 11h.01",
  birthdays: "M3 14V8h10v6ZM3 11c1.6 0 1.6-1 3.3-1s1.7 1 3.4 1 1.7-1 3.3-1M8 8V5M8 2.5V3",
  settings: "M2 5h7M12 5h2M2 11h2M7 11h7M10.5 3.5v3M5.5 9.5v3",
  completed: "M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0ZM5.3 8.2l1.9 1.9 3.6-4",
  pending: "M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z",
  running: "M14 8A6 6 0 1 1 8 2M8 5v3h3",
  dead: "M8 1.8 14.2 8 8 14.2 1.8 8ZM6.2 6.2l3.6 3.6M9.8 6.2 6.2 9.8",
  cancelled: "M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0ZM3.8 12.2l8.4-8.4",
  paused: "M5.5 3v10M10.5 3v10",
  blocked: "M2.5 2.5h11v11h-11zM5.5 8h5",
  warning: "M8 2 14.5 13.5h-13ZM8 6.5v3M8 11.5v.01",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9l7-4.5Z",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.8 10.8 14 14",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  menu: "M2 4h12M2 8h12M2 12h12",
  close: "M4 4l8 8M12 4l-8 8",
  theme: "M8 2a6 6 0 1 0 0 12ZM8 2a6 6 0 0 1 0 12",
  away: "M2 2l12 12M4.5 10A4 4 0 0 1 8 6.5M11.5 10A4 4 0 0 0 10.5 8M2.5 7.5A8 8 0 0 1 6 5",
};

/** @typedef {keyof typeof PATHS} Icon */

/** A drawing; it says nothing to screen readers, so a word stands beside it. @param {string} name */
export function icon(name) {
  const found = document.createElementNS(SVG, "svg");
  found.setAttribute("viewBox", "0 0 16 16");
  found.setAttribute("aria-hidden", "true");
  found.setAttribute("fill", "none");
  found.setAttribute("stroke", "currentColor");
  found.setAttribute("stroke-width", "1.5");
  found.setAttribute("stroke-linecap", "round");
  found.setAttribute("stroke-linejoin", "round");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[/** @type {Icon} */ (name)] ?? PATHS.pending);
  found.append(path);
  return found;
}
