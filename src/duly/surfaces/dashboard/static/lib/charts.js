/**
 * Charts: stacked bars for outcomes, lines with a band for percentiles, and sparklines.
 *
 * Each chart has a crosshair that follows the pointer and the arrow keys, and a table of its values.
 */

import { count, dayAndTime, dayOf, duration, timeOfDay } from "./format.js";
import { computed, effect, html, onDispose, signal } from "./view.js";

/** @typedef {{ name: string, kind: string, values: (number | null)[] }} Layer a value is null where nothing was measured */
/** @typedef {{ times: string[], layers: Layer[] }} Layers */
/** @typedef {{ width: number, height: number }} Size */
/** @typedef {{ ticks: number[], part: (value: number) => number }} Scale the part of the height that a value reaches */

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 56;
const BOTTOM = 20;
const TOP = 8;
const LONG_MS = 36 * 3_600_000;
/** The ends of an axis, times a power of ten: half of each reads well too. */
const ENDS = [1, 2, 4, 10];
/** The lines of an axis of durations, in seconds. */
const DURATIONS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400, 864_000];

/** @param {string} name @param {Record<string, string | number>} attributes @param {...Node} children */
function make(name, attributes, ...children) {
  const found = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, String(value));
  found.append(...children);
  return found;
}

/** @param {number} x @param {number} y @param {string} anchor @param {string} words */
function label(x, y, anchor, words) {
  const found = make("text", { x, y, class: "axis", "text-anchor": anchor });
  found.textContent = words;
  return found;
}

/** An axis of counts: from zero to a round number. @param {number} most @returns {Scale} */
export function countScale(most) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, most))));
  const end = power * (ENDS.find((each) => each * power >= most) ?? 10);
  return { ticks: [0, end / 2, end].filter(Number.isInteger), part: (value) => value / end };
}

/** A logarithmic axis of durations: the middle and the extremes are visible at once. @param {number[]} values @returns {Scale} */
export function durationScale(values) {
  const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [0.001, 1];
  const from = Math.max(
    0,
    DURATIONS.findLastIndex((each) => each <= least),
  );
  const until = DURATIONS.findIndex((each) => each >= most);
  const ticks = DURATIONS.slice(from, Math.max(from + 1, until < 0 ? DURATIONS.length : until) + 1);
  const [low, high] = [Math.log(ticks[0]), Math.log(ticks[ticks.length - 1])];
  const part = (/** @type {number} */ value) => (Math.log(Math.max(value, ticks[0])) - low) / (high - low);
  return { ticks, part: (value) => Math.min(1, part(value)) };
}

/** A duration of an axis, as 10 ms or 1 min. @param {number} seconds */
const durationLabel = (seconds) => duration(seconds).replace(".0 ", " ");

/** @param {number} value @param {Scale} scale @param {Size} size */
const yOf = (value, scale, { height }) => TOP + (1 - scale.part(value)) * (height - TOP - BOTTOM);

/** @param {number} index @param {number} steps @param {Size} size */
const xOf = (index, steps, { width }) => LEFT + ((index + 0.5) / steps) * (width - LEFT);

/** @param {string[]} times */
const isLong = (times) => Date.parse(times[times.length - 1]) - Date.parse(times[0]) > LONG_MS;

/**
 * Grid lines with their values, and times below.
 * @param {Scale} scale @param {string[]} times @param {Size} size @param {(value: number) => string} format
 */
function axes(scale, times, size, format) {
  const nodes = [];
  for (const tick of scale.ticks) {
    const y = yOf(tick, scale, size);
    nodes.push(make("line", { class: "grid", x1: LEFT, x2: size.width, y1: y, y2: y }));
    nodes.push(label(LEFT - 6, y + 4, "end", format(tick)));
  }
  const word = isLong(times) ? dayOf : timeOfDay;
  const step = Math.max(1, Math.ceil((times.length * 100) / size.width));
  for (let index = 0; index < times.length - step / 2; index += step) {
    nodes.push(label(xOf(index, times.length, size), size.height - 4, "middle", word(times[index])));
  }
  return nodes;
}

/** @param {Layers} data @param {Size} size @param {Scale} scale */
function bars({ times, layers }, size, scale) {
  const width = Math.max(1, (size.width - LEFT) / times.length - 2);
  const bottom = size.height - BOTTOM;
  return times.flatMap((_, index) => {
    const x = xOf(index, times.length, size) - width / 2;
    let y = bottom;
    return layers.flatMap((layer) => {
      const height = bottom - yOf(layer.values[index] ?? 0, scale, size);
      if (height <= 0) return [];
      y -= height;
      return [make("rect", { class: layer.kind, x, y, width, height })];
    });
  });
}

/** The indexes of values that follow each other without a gap. @param {Layer} layer */
function runs({ values }) {
  const found = /** @type {number[][]} */ ([]);
  values.forEach((value, index) => {
    if (value === null) return;
    if (index > 0 && values[index - 1] !== null) found[found.length - 1].push(index);
    else found.push([index]);
  });
  return found;
}

/** @param {Layer} layer @param {number[]} run @param {Size} size @param {Scale} scale */
const pointsOf = ({ values }, run, size, scale) =>
  run.map((index) => {
    // A value without neighbours is a short line.
    const xs = run.length > 1 ? [xOf(index, values.length, size)] : [index - 0.3, index + 0.3];
    const ends = run.length > 1 ? xs : xs.map((each) => xOf(each, values.length, size));
    return ends.map((x) => `${x.toFixed(1)},${yOf(Number(values[index]), scale, size).toFixed(1)}`);
  });

/** @param {Layer} layer @param {Size} size @param {Scale} scale */
const line = (layer, size, scale) =>
  runs(layer).map((run) =>
    make("polyline", {
      class: `line ${layer.kind}`,
      points: pointsOf(layer, run, size, scale).flat().join(" "),
    }),
  );

/** @param {Layer} low @param {Layer} high @param {Size} size @param {Scale} scale */
const band = (low, high, size, scale) =>
  runs(high).map((run) => {
    const [upper, lower] = [high, low].map((each) => pointsOf(each, run, size, scale).flat());
    return make("polygon", { class: "band", points: [...upper, ...lower.reverse()].join(" ") });
  });

/**
 * A frame around a drawing: crosshair, legend and table.
 * @param {{ name: string, height: number, data: () => Layers, scale: () => Scale, format: (value: number) => string,
 *   tick: (value: number) => string, draw: (size: Size, scale: Scale) => Node[] }} chart
 */
function frame({ name, height, data, scale, format, tick, draw }) {
  const at = signal(/** @type {number | null} */ (null));
  const width = signal(720);
  const times = () => data().times;
  const svg = make("svg", {
    role: "img",
    tabindex: 0,
    height,
    "aria-label": `${name}; arrow keys move through its values`,
  });
  const observer = new ResizeObserver(([entry]) => (width.value = Math.max(240, entry.contentRect.width)));
  observer.observe(svg);
  onDispose(() => observer.disconnect());
  const shown = computed(() => (at.value === null ? latest(data()) : Math.min(at.value, times().length - 1)));
  effect(() => {
    const size = { width: width.value, height };
    const found = scale();
    svg.setAttribute("viewBox", `0 0 ${size.width} ${height}`);
    svg.replaceChildren(
      ...axes(found, times(), size, tick),
      ...draw(size, found),
      ...cross(at.value, times().length, size),
    );
  });
  svg.addEventListener("pointermove", (event) => {
    const part = (event.clientX - svg.getBoundingClientRect().left - LEFT) / (width.value - LEFT);
    at.value = Math.max(0, Math.min(times().length - 1, Math.floor(part * times().length)));
  });
  svg.addEventListener("pointerleave", () => (at.value = null));
  svg.addEventListener("blur", () => (at.value = null));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -times().length, End: times().length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    at.value = Math.max(0, Math.min(times().length - 1, shown.value + step));
  });
  const time = () => (times().length ? momentName(times())(times()[shown.value]) : "");
  const values = () =>
    data().layers.map((each) => ({ ...each, word: wordOf(each.values[shown.value], format) }));
  return html`<figure class="chart">
    ${svg}
    <figcaption class="legend" aria-live="polite">
      <span>${time}</span>
      ${() => values().map((each) => html`<span>${swatch(each.kind)}${each.name} <b>${each.word}</b></span>`)}
    </figcaption>
    <details>
      <summary class="dim">Values as a table</summary>
      ${() => table(name, data(), format)}
    </details>
  </figure>`;
}

/** The last step in which something was measured. @param {Layers} data */
function latest({ times, layers }) {
  const found = times.findLastIndex((_, index) => layers.some((each) => each.values[index] !== null));
  return found < 0 ? times.length - 1 : found;
}

/** @param {string[]} times */
const momentName = (times) => (isLong(times) ? dayAndTime : timeOfDay);

/** @param {number | null | undefined} value @param {(value: number) => string} format */
const wordOf = (value, format) => (value === null || value === undefined ? "–" : format(value));

/** @param {number | null} at @param {number} steps @param {Size} size */
function cross(at, steps, size) {
  if (at === null || steps === 0) return [];
  const x = xOf(at, steps, size);
  return [make("line", { class: "cross", x1: x, x2: x, y1: TOP, y2: size.height - BOTTOM })];
}

/** @param {string} kind */
const swatch = (kind) =>
  make(
    "svg",
    { viewBox: "0 0 10 10", "aria-hidden": "true" },
    make("rect", { class: kind, width: 10, height: 10, rx: 2 }),
  );

/** @param {string} name @param {Layers} data @param {(value: number) => string} format */
function table(name, { times, layers }, format) {
  const lines = times.map(
    (time, index) =>
      html`<tr>
        <td>${momentName(times)(time)}</td>
        ${layers.map((each) => html`<td class="num">${wordOf(each.values[index], format)}</td>`)}
      </tr>`,
  );
  return html`<div class="table-wrap">
    <table aria-label=${name}>
      <thead>
        <tr>
          <th>Time</th>
          ${layers.map((each) => html`<th class="num">${each.name}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${lines.reverse()}
      </tbody>
    </table>
  </div>`;
}

/** @param {Layer[]} layers @param {number} index */
const sumAt = (layers, index) => layers.reduce((sum, each) => sum + (each.values[index] ?? 0), 0);

/** @param {Layers} data */
const highest = ({ times, layers }) => Math.max(0, ...times.map((_, index) => sumAt(layers, index)));

/** Stacked bars of counts. @param {string} name @param {() => Layers} data @param {{ height?: number }} [options] */
export function stackedBars(name, data, { height = 180 } = {}) {
  return frame({
    name,
    height,
    data,
    format: count,
    tick: count,
    scale: () => countScale(highest(data())),
    draw: (size, scale) => bars(data(), size, scale),
  });
}

/**
 * Durations: a line for each layer, and a band between the first two.
 * @param {string} name @param {() => Layers} data @param {{ height?: number }} [options]
 */
export function durationLines(name, data, { height = 180 } = {}) {
  const measured = () => data().layers.flatMap((each) => each.values.filter((value) => value !== null));
  return frame({
    name,
    height,
    data,
    format: duration,
    tick: durationLabel,
    scale: () => durationScale(/** @type {number[]} */ (measured())),
    draw: (size, scale) => [
      ...band(data().layers[0], data().layers[1], size, scale),
      ...data().layers.flatMap((each) => line(each, size, scale)),
    ],
  });
}

/** Stacked bars without axes, for a cell of a table. @param {Layers} data @param {string} name */
export function sparkline({ times, layers }, name) {
  const [width, height] = [96 / Math.max(1, times.length), 22];
  const { part } = countScale(highest({ times, layers }));
  const nodes = times.flatMap((_, index) => {
    let y = 24;
    return layers.flatMap(({ kind, values }) => {
      const value = values[index] ?? 0;
      if (!value) return [];
      const tall = Math.max(1.5, part(value) * height);
      y -= tall;
      return [make("rect", { class: kind, x: index * width, y, width: width - 1, height: tall })];
    });
  });
  const sums = layers.map((each) => `${count(sum(each.values))} ${each.name}`);
  const words = `${name}: ${sums.join(", ")}`;
  return make(
    "svg",
    { class: "spark", viewBox: "0 0 96 24", role: "img", "aria-label": words },
    make("line", { class: "grid", x1: 0, x2: 96, y1: 23.5, y2: 23.5 }),
    ...nodes,
  );
}

/** @param {(number | null)[]} values */
const sum = (values) => values.reduce((/** @type {number} */ all, each) => all + (each ?? 0), 0);
