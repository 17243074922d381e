/**
 * Bulk operations: what matches is counted first, then moved by calls that each continue the last.
 *
 * An operation goes on while other pages are shown; the frame lists those that run.
 */

import { post } from "./api.js";
import { count, plural } from "./format.js";
import { icon } from "./icons.js";
import { dialog, messageOf, toast } from "./ui.js";
import { computed, effect, html, keyed, signal, when } from "./view.js";

/** @typedef {import("./types.js").BulkResult} BulkResult */
/** @typedef {import("./view.js").Template} Template */
/** @typedef {Record<string, unknown>} Which */
/**
 * @typedef {{ title: string, verb: string, doing: string, noun: [string, string], kind?: string, path: string, which: Which, load: () => Promise<void>, begun?: () => void, body?: () => Which, fields?: Template | null }} Bulk
 */

/** How long one call may take: progress is shown this often. */
const SECONDS = 2;
/** Counts of the API end there. */
const LIMIT = 10_000;

/** The operations that are not finished. */
const operations = signal(/** @type {Operation[]} */ ([]));
let last = 0;

/** An operation from its first call until it is finished or dismissed. */
class Operation {
  /** @param {Bulk} bulk @param {number} matching */
  constructor(bulk, matching) {
    this.id = last += 1;
    this.bulk = bulk;
    this.sent = { ...bulk.which, ...bulk.body?.(), seconds: SECONDS };
    this.until = /** @type {string | null} */ (null);
    this.moved = signal(0);
    this.total = signal(matching);
    this.isCapped = signal(matching >= LIMIT);
    this.problem = signal("");
    this.isStopping = signal(false);
    this.isEnded = signal(false);
  }

  /** Move until all are moved or it is stopped; after a problem it can be called again. */
  async run() {
    this.problem.value = "";
    try {
      while (!(await this.step()) && !this.isStopping.value);
      toast(`${this.bulk.verb}: ${plural(this.moved.value, ...this.bulk.noun)}`);
      this.end();
    } catch (error) {
      this.problem.value = messageOf(error);
      if (this.isStopping.value) this.end();
    }
    await this.bulk.load();
  }

  /** One call; returns whether it was the last. */
  async step() {
    const found = /** @type {BulkResult} */ (
      await post(this.bulk.path, { ...this.sent, ...(this.until ? { until: this.until } : {}) })
    );
    this.total.value = this.moved.value + Math.max(found.matching, found.moved);
    this.isCapped.value = found.matching >= LIMIT && !found.finished;
    this.moved.value += found.moved;
    this.until = found.until;
    return found.finished;
  }

  /** Stop after the call that is under way. */
  stop() {
    this.isStopping.value = true;
    if (this.problem.value) this.end();
  }

  end() {
    this.isEnded.value = true;
    operations.value = operations.value.filter((each) => each !== this);
  }

  /** How far it is, as "3,200 of 10,000". */
  progress() {
    return `${count(this.moved.value)} of ${count(this.total.value)}${this.isCapped.value ? "+" : ""}`;
  }
}

addEventListener("beforeunload", (event) => {
  if (operations.value.length) event.preventDefault(); // the rest would not be moved
});

/** Ask, show the progress, and say what was done. @param {Bulk} bulk */
export function bulkDialog(bulk) {
  const matching = signal(/** @type {number | null} */ (null));
  const problem = signal("");
  const begun = signal(/** @type {Operation | null} */ (null));
  post(bulk.path, { ...bulk.which, ...bulk.body?.(), dry_run: true }).then(
    (found) => (matching.value = /** @type {BulkResult} */ (found).matching),
    (error) => (problem.value = messageOf(error)),
  );
  const begin = (/** @type {Event} */ event) => {
    event.preventDefault();
    const operation = new Operation(bulk, matching.value ?? 0);
    operations.value = [...operations.value, operation];
    begun.value = operation;
    bulk.begun?.();
    void operation.run();
  };
  const question = (/** @type {() => void} */ close) =>
    html`<form class="stack" @submit=${begin}>
      <p>${() => (matching.value === null ? "Counting…" : `${count(matching.value, LIMIT)} match.`)}</p>
      ${bulk.fields}
      ${() => (problem.value ? html`<p class="field-error" role="alert">${problem.value}</p>` : null)}
      <footer>
        <button type="button" @click=${close}>Back</button>
        <button class=${bulk.kind ?? "primary"} ?disabled=${() => !matching.value}>${bulk.verb}</button>
      </footer>
    </form>`;
  dialog(
    bulk.title,
    (close) =>
      html`${when(
        () => begun.value,
        () => progress(/** @type {Operation} */ (begun.value), close),
        () => question(close),
      )}`,
  );
}

/** @param {Operation} operation @param {() => void} close */
function progress(operation, close) {
  effect(() => {
    if (operation.isEnded.value) close();
  });
  return html`<div class="stack">
    <p role="status">${meter(operation)} ${() => operation.progress()}</p>
    <p class="dim">It goes on while you look at other pages, as long as this tab is open.</p>
    ${() => (operation.problem.value ? html`<p class="field-error" role="alert">${operation.problem.value}</p>` : null)}
    <footer>
      ${moves(operation)}
      <button type="button" class="primary" @click=${close} autofocus>Hide</button>
    </footer>
  </div>`;
}

/** @param {Operation} operation */
const meter = (operation) =>
  html`<progress
    aria-label=${operation.bulk.doing}
    max=${() => operation.total.value || 1}
    value=${() => operation.moved.value}
  ></progress>`;

/** @param {Operation} operation */
function moves(operation) {
  const word = computed(() => {
    if (operation.problem.value) return "Dismiss";
    return operation.isStopping.value ? "Stopping…" : "Stop";
  });
  return html`${() => (operation.problem.value ? html`<button type="button" class="small" @click=${() => operation.run()}>Go on</button>` : null)}
    <button
      type="button"
      class="small"
      ?disabled=${() => word.value === "Stopping…"}
      @click=${() => operation.stop()}
    >
      ${() => word.value}
    </button>`;
}

/** The operations that run, below the frame's header: how far each is, and the way back to it. */
export const operationList = () =>
  html`${when(
    () => operations.value.length,
    () =>
      html`<ul class="operations" aria-label="Operations that run">
        ${keyed(
          () => operations.value,
          (each) => each.id,
          (each) => operationItem(each.value),
        )}
      </ul>`,
  )}`;

/** @param {Operation} operation */
function operationItem(operation) {
  const show = () => dialog(operation.bulk.title, (close) => progress(operation, close));
  return html`<li>
    <span class=${() => `state ${operation.problem.value ? "bad" : "busy"}`}
      >${() => icon(operation.problem.value ? "warning" : "running")}</span
    >
    <button type="button" class="quiet small" @click=${show}>
      ${operation.bulk.doing}: ${() => operation.problem.value || operation.progress()}
    </button>
    ${meter(operation)}<span class="spring"></span>${moves(operation)}
  </li>`;
}
