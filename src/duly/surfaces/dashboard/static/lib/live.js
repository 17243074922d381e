/** Live figures: one event a second from the server, shared by all tabs, and a visible pause. */

import { effect, onDispose, signal, untracked } from "./view.js";

/** @typedef {import("./types.js").Second} Second */

/** The last event. */
export const second = signal(/** @type {Second | null} */ (null));
/** Whether events arrive: "connecting", "live" or "away". */
export const connection = signal("connecting");
/** Whether the user has paused all updates. */
export const isPaused = signal(false);
/** Whether rows are selected: then lists are not refreshed. */
export const isHeld = signal(false);

/** @param {{ state?: string, second?: string }} message */
function receive(message) {
  if (message.state) connection.value = message.state;
  if (message.second && !isPaused.value) {
    connection.value = "live";
    second.value = JSON.parse(message.second);
  }
}

/** Connect, through a worker that all tabs share where the browser has such workers. */
export function start() {
  if (typeof SharedWorker === "undefined") {
    const source = new EventSource(new URL("../../v1/events", import.meta.url));
    source.addEventListener("open", () => receive({ state: "live" }));
    source.addEventListener("error", () => receive({ state: "away" }));
    source.addEventListener("second", (event) => receive({ second: event.data }));
    return;
  }
  const worker = new SharedWorker(new URL("./live_worker.js", import.meta.url), {
    type: "module",
    name: "duly",
  });
  worker.port.onmessage = ({ data }) => receive(data);
  addEventListener("pagehide", () => worker.port.postMessage("bye"));
}

/**
 * Show a document that was read again; if it is the same, what was rendered of it stays.
 * @template T @param {import("./view.js").Signal<T>} shown @param {T} found
 */
export function update(shown, found) {
  if (JSON.stringify(shown.current) !== JSON.stringify(found)) shown.value = found;
}

/** A refresh that took long is repeated later, so that dashboards leave a busy server alone. */
const REST = 20;
const LONGEST_MS = 30_000;

/**
 * Call a function now, and every few seconds while the page is visible, not paused and has no
 * selection.
 * @param {() => unknown} refresh @param {number} [every] seconds
 */
export function keepFresh(refresh, every = 3) {
  let due = 0;
  const run = async () => {
    const began = Date.now();
    due = began + LONGEST_MS;
    try {
      await refresh();
    } finally {
      const rest = Math.min((Date.now() - began) * REST, LONGEST_MS);
      due = Math.max(began + every * 1000, Date.now() + rest);
    }
  };
  untracked(() => void run());
  const timer = setInterval(() => {
    if (!document.hidden && !isPaused.value && !isHeld.value && Date.now() >= due) void run();
  }, 500);
  onDispose(() => clearInterval(timer));
}

/** Call a function with every event. @param {(second: Second) => void} take */
export function onSecond(take) {
  effect(() => {
    const event = second.value;
    if (event) untracked(() => take(event));
  });
}
