/** The outcomes of deliveries over time: a chart for a chosen period, and sparklines for a list. */

import { get } from "./api.js";
import { sparkline, stackedBars } from "./charts.js";
import { keepFresh, update } from "./live.js";
import { place, replaceQuery } from "./router.js";
import { computed, effect, html, onDispose, signal, untracked, when } from "./view.js";

/** @typedef {import("./types.js").Series} Series */
/** @typedef {import("./types.js").Point} Point */
/** @typedef {import("./api.js").Query} Query */
/** @typedef {{ part: Query, series: import("./view.js").Signal<Series | null>, isVisible: boolean, readAt: number }} Spark */

/** The periods of a chart: seconds, seconds of a step, and the step in words. */
export const PERIODS = {
  hour: { span: 3600, step: 60, word: "minute" },
  day: { span: 86_400, step: 900, word: "15 minutes" },
  week: { span: 604_800, step: 7200, word: "2 hours" },
  month: { span: 2_592_000, step: 28_800, word: "8 hours" },
};
const SPARK = { span: 86_400, step: 5400 };
/** How old the figures of a sparkline may be. */
const SPARK_MS = 60_000;

/** The period of the address. */
export const period = computed(() => {
  const name = place.value.query.period;
  return name in PERIODS ? /** @type {keyof typeof PERIODS} */ (name) : "hour";
});

/** How long a step of the period is, in words. */
export const stepWord = () => PERIODS[period.value].word;

/** Links that change the period of all charts of a page. */
export const periodChoice = () =>
  html`<div class="choice" role="group" aria-label="Period">
    ${Object.keys(PERIODS).map((name) => html`<button type="button" class="quiet small" aria-pressed=${() => String(period.value === name)} @click=${() => replaceQuery({ ...place.value.query, period: name })}>${name}</button>`)}
  </div>`;

/**
 * A series of the period, read again while it is shown.
 * @param {Query} part a target or a schedule, or nothing for all @param {(problem: unknown) => void} [failed]
 */
export function seriesOf(part, failed = () => {}) {
  const series = signal(/** @type {Series | null} */ (null));
  const read = async () => {
    const wanted = period.value;
    const { span, step } = PERIODS[wanted];
    try {
      const found = /** @type {Series} */ (await get("stats/series", { ...part, span, step }));
      if (period.value === wanted) update(series, found);
    } catch (problem) {
      failed(problem);
    }
  };
  let isStarted = false;
  keepFresh(() => isStarted && read(), 5);
  effect(() => {
    isStarted = Boolean(period.value);
    untracked(() => void read());
  });
  return series;
}

/** The outcomes as layers of a chart. @param {Series | null} series @returns {import("./charts.js").Layers} */
export function outcomesOf(series) {
  const points = series?.points ?? [];
  const layer = (
    /** @type {string} */ name,
    /** @type {string} */ kind,
    /** @type {"completed" | "failed" | "dead"} */ field,
  ) => ({
    name,
    kind,
    values: points.map((each) => each[field]),
  });
  return {
    times: points.map((each) => each.at),
    layers: [
      layer("completed", "good", "completed"),
      layer("failed attempts", "warn", "failed"),
      layer("dead", "bad", "dead"),
    ],
  };
}

/** The outcomes of one target or schedule. @param {Query} part */
export function outcomeCard(part) {
  const series = seriesOf(part);
  return html`<section class="card" aria-label="Outcomes">
    <header>
      <h2>Outcomes</h2>
      <span class="dim">per ${stepWord}</span><span class="spring"></span>${periodChoice()}
    </header>
    <div class="inside">
      ${when(
        () => series.value,
        () => stackedBars("Outcomes", () => outcomesOf(series.value)),
        () => html`<p class="dim">Loading…</p>`,
      )}
    </div>
  </section>`;
}

/** Sparklines of a list: those that are visible are read, one after the other. */
export function sparkReader() {
  const sparks = /** @type {Map<Element, Spark>} */ (new Map());
  let isReading = false;
  const read = async () => {
    if (isReading) return;
    isReading = true;
    for (let next = outdated(sparks); next; next = outdated(sparks)) {
      next.readAt = Date.now();
      const found = await get("stats/series", { ...next.part, ...SPARK }).catch(() => null);
      if (found) update(next.series, /** @type {Series} */ (found));
    }
    isReading = false;
  };
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const spark = sparks.get(target);
      if (spark) spark.isVisible = isIntersecting;
    }
    void read();
  });
  onDispose(() => observer.disconnect());
  keepFresh(read, 5);
  return (/** @type {Query} */ part) => {
    const element = document.createElement("span");
    const series = signal(/** @type {Series | null} */ (null));
    element.className = "spark";
    sparks.set(element, { part, series, isVisible: false, readAt: 0 });
    observer.observe(element);
    onDispose(() => {
      observer.unobserve(element);
      sparks.delete(element);
    });
    effect(() => {
      if (series.value) element.replaceChildren(sparkline(outcomesOf(series.value), "Last day"));
    });
    return element;
  };
}

/** A visible sparkline that was not read lately. @param {Map<Element, Spark>} sparks */
const outdated = (sparks) =>
  [...sparks.values()].find((each) => each.isVisible && Date.now() - each.readAt > SPARK_MS);
