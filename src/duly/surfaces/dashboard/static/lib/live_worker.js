/** A shared worker: one connection to /v1/events for all tabs of a browser. */

/** @type {Set<MessagePort>} */
const ports = new Set();
/** @type {EventSource | null} */
let source = null;

/** @param {unknown} message */
function broadcast(message) {
  for (const port of ports) port.postMessage(message);
}

function connect() {
  source = new EventSource(new URL("../../v1/events", import.meta.url));
  source.addEventListener("open", () => broadcast({ state: "live" }));
  source.addEventListener("error", () => broadcast({ state: "away" }));
  source.addEventListener("second", (event) => broadcast({ second: event.data }));
}

const scope = /** @type {{ onconnect: (event: MessageEvent) => void }} */ (
  /** @type {unknown} */ (globalThis)
);
scope.onconnect = (/** @type {MessageEvent} */ event) => {
  const [port] = event.ports;
  ports.add(port);
  port.onmessage = (/** @type {MessageEvent} */ { data }) => {
    if (data !== "bye") return;
    ports.delete(port);
    if (ports.size > 0) return;
    source?.close();
    source = null;
  };
  // A connection that was refused, as after a log-out, does not come back by itself.
  if (source === null || source.readyState === EventSource.CLOSED) connect();
  else if (source.readyState === EventSource.OPEN) port.postMessage({ state: "live" });
};
