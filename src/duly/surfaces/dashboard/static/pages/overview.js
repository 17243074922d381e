/** The overview: what happens now, how the last hour was, and what needs attention. */

import { get } from "../lib/api.js";
import { durationLines, stackedBars } from "../lib/charts.js";
import { count, duration, plural, rate } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { keepFresh, second } from "../lib/live.js";
import { outcomesOf, periodChoice, seriesOf, stepWord } from "../lib/outcomes.js";
import { link } from "../lib/router.js";
import { emptyState, errorBanner, momentOf, prose } from "../lib/ui.js";
import { computed, html, signal, when } from "../lib/view.js";
import { concernList, concernsOf } from "./attention.js";

/** @typedef {import("../lib/types.js").Alert} Alert */
/** @typedef {import("../lib/types.js").Backlog} Backlog */
/** @typedef {import("../lib/types.js").NamespaceStatus} NamespaceStatus */
/** @typedef {import("../lib/types.js").Series} Series */

/** A schedule of `duly serve --demo`. */
const SAMPLE = "demo-heartbeat";

export function render() {
  const overview = signal(/** @type {import("../lib/types.js").Overview | null} */ (null));
  const backlog = signal(/** @type {Backlog | null} */ (null));
  const alerts = signal(/** @type {Alert[]} */ ([]));
  const hasSamples = signal(false);
  const error = signal(/** @type {unknown} */ (null));
  let looks = 3; // Sample traffic begins with the server, or a moment after it.
  const refresh = async () => {
    try {
      const found = await Promise.all([get("stats"), get("alerts", { raised: true })]);
      overview.value = /** @type {any} */ (found[0]);
      alerts.value = /** @type {any} */ (found[1]).items;
      backlog.value = overview.value?.now.late ? (await get("status")).recovering : null;
      error.value = null;
      if (looks-- > 0)
        hasSamples.value = (await get("schedules", { text: SAMPLE, limit: 1 })).items.length > 0;
    } catch (problem) {
      error.value = problem;
    }
  };
  keepFresh(refresh, 5);
  const series = seriesOf({}, (problem) => (error.value = problem));
  const now = computed(() => overview.value?.now ?? null);
  const concerns = computed(() => (now.value ? concernsOf(now.value, alerts.value) : []));
  return html` <div class="head">
      <div>
        <h1>Overview</h1>
        <p>What is delivered now, and what needs attention.</p>
      </div>
    </div>
    ${() => (error.value ? errorBanner(error.value, refresh) : null)}
    ${() => (hasSamples.value ? sampleNotice() : null)}
    ${() => (backlog.value ? recovery(backlog.value) : null)} ${figures(now)}
    ${when(
      () => isUnused(now.value, series.value),
      () =>
        emptyState(
          "Nothing was delivered yet",
          "Accept a first delivery: it appears here while it is on its way.",
          `duly send https://example.org/hook --data '{"hello": "world"}' --watch`,
        ),
    )}
    <section class="card" aria-labelledby="attention">
      <header><h2 id="attention">Needs attention</h2></header>
      ${when(
        () => concerns.value.length,
        () => concernList(concerns),
        () =>
          html`<div class="empty">
            ${() =>
              now.value
                ? html`<p class="state good">${icon("completed")}Nothing needs attention.</p>`
                : html`<p class="dim">
                    ${error.value ? "Not known: the server did not answer." : "Loading…"}
                  </p>`}
          </div>`,
      )}
    </section>
    <div class="row">
      <h2>Over time</h2>
      <span class="spring"></span>${periodChoice()}
    </div>
    ${chart(
      "Outcomes",
      () => `per ${stepWord()}`,
      series,
      () => stackedBars("Outcomes", () => outcomesOf(series.value)),
    )}
    <div class="columns">
      ${chart(
        "Lateness",
        () => "from due to the first attempt",
        series,
        () => durationLines("Lateness", () => percentiles(series, "lateness")),
      )}
      ${chart(
        "Pickup",
        () => "from ready to any attempt",
        series,
        () => durationLines("Pickup", () => percentiles(series, "pickup")),
      )}
    </div>`;
}

/** @param {string} title @param {() => string} note @param {{ value: Series | null }} series @param {() => unknown} draw */
const chart = (title, note, series, draw) =>
  html`<section class="card" aria-label=${title}>
    <header>
      <h2>${title}</h2>
      <span class="dim">${note}</span>
    </header>
    <div class="inside">
      ${when(
        () => series.value,
        draw,
        () => html`<p class="dim">Loading…</p>`,
      )}
    </div>
  </section>`;

/** @param {NamespaceStatus | null} now @param {Series | null} series */
const isUnused = (now, series) =>
  Boolean(
    now &&
    series &&
    !now.due &&
    !now.upcoming &&
    !now.dead &&
    !now.processing &&
    series.points.every((each) => !each.accepted),
  );

const sampleNotice = () =>
  html`<div class="banner busy">
    ${icon("play")}
    <span
      >${prose("This is sample traffic: its names begin with `demo-`, and `duly demo --remove` removes it.")}</span
    >
  </div>`;

/** @param {Backlog} backlog */
function recovery(backlog) {
  const left = backlog.seconds_left === null ? "" : `about ${duration(backlog.seconds_left)} left`;
  return html`<div class="banner busy" role="status">
    ${icon("running")} <b>Catching up:</b>
    <span
      >${plural(backlog.count, "delivery is", "deliveries are")} late, the oldest was due
      ${momentOf(backlog.oldest)}.</span
    >
    <span class="spring"></span
    ><span class="dim">${backlog.rate === null ? "measuring" : rate(backlog.rate)} ${left}</span
    ><progress aria-label="Catching up"></progress>
  </div>`;
}

/** A figure in words, or an ellipsis until it is known: 0 would be an answer. @param {number | undefined} value @param {(value: number) => string} say */
const known = (value, say) => (value === undefined ? "…" : say(value));

/** @param {{ value: NamespaceStatus | null }} now */
function figures(now) {
  const live = () => second.value;
  const counted = (/** @type {number} */ value) => count(value, now.value?.counted_up_to);
  return html`<div class="figures">
    ${figure(
      "Completed",
      () => known(live()?.counts.completed, rate),
      () => known(live()?.counts.failed, (value) => `${rate(value)} failed`),
      link(["deliveries"], { state: "completed" }),
    )}
    ${figure(
      "Accepted",
      () => known(live()?.counts.accepted, rate),
      () => known(now.value?.upcoming, (value) => `${counted(value)} due later`),
      link(["deliveries"], { state: "pending" }),
    )}
    ${figure(
      "Due now",
      () => known(live()?.due ?? now.value?.due, counted),
      () =>
        known(live()?.oldest_due_seconds, (value) => (value ? `oldest ${duration(value)}` : "nothing waits")),
      link(["deliveries"], { state: "pending" }),
    )}
    ${figure(
      "Processing",
      () => known(live()?.processing ?? now.value?.processing, counted),
      () => known(live()?.workers ?? now.value?.workers, (value) => plural(value, "worker")),
      link(["workers"]),
    )}
    ${figure(
      "Waiting for a retry",
      () => known(now.value?.retries.count, counted),
      () => (now.value?.retries.next_at ? momentOf(now.value.retries.next_at) : now.value ? "none" : "…"),
      link(["deliveries"], { state: "pending" }),
    )}
    ${figure(
      "Dead letters",
      () => known(live()?.dead_letters ?? now.value?.dead, counted),
      () =>
        known(now.value?.undecided, (value) =>
          value ? `${counted(value)} need a decision` : "none needs a decision",
        ),
      link(["dead_letters"]),
    )}
  </div>`;
}

/** @param {string} name @param {() => unknown} value @param {() => unknown} note @param {string} href */
const figure = (name, value, note, href) =>
  html`<a class="figure" href=${href}
    ><span class="name">${name}</span><span class="value">${value}</span><span class="note">${note}</span></a
  >`;

/** @param {{ value: Series | null }} series @param {"lateness" | "pickup"} field @returns {import("../lib/charts.js").Layers} */
function percentiles(series, field) {
  const points = series.value?.points ?? [];
  const layer = (/** @type {"p50" | "p95" | "p99"} */ name, /** @type {string} */ kind) => ({
    name,
    kind,
    values: points.map((each) => each[field]?.[name] ?? null),
  });
  return {
    times: points.map((each) => each.at),
    layers: [layer("p50", "busy"), layer("p95", "edge"), layer("p99", "idle")],
  };
}
