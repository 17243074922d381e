/** Who uses the dashboard: a caller on this machine, or one who has logged in with a key. */

import { ApiError, get, remove, send } from "./api.js";
import { messageOf } from "./ui.js";
import { computed, html, signal } from "./view.js";

/** @typedef {{ actor: string, namespace: string, scope: string, expires_at: string | null, session: boolean }} Caller */

const AGAIN = 3000;

/** The caller; null before that is known, and while nobody is logged in. */
export const caller = signal(/** @type {Caller | null} */ (null));
/** Whether the caller may change anything. */
export const canOperate = computed(() => caller.value !== null && caller.value.scope !== "read");
/** Whether the caller may see and change keys, and read the audit log. */
export const canAdminister = computed(() => caller.value?.scope === "admin");

/** Find out who the caller is; without an answer, ask again until there is one. */
export async function recognize() {
  try {
    caller.value = await get("session");
  } catch (error) {
    const isRefused = error instanceof ApiError && error.status === 401;
    if (!isRefused) setTimeout(recognize, AGAIN);
  }
}

/** End the session. */
export async function logOut() {
  await remove("session");
  location.reload();
}

/** Something that only those see who may use it. @param {() => unknown} render */
export const operate = (render) => () => (canOperate.value ? render() : null);

/** The page that asks for a key. */
export function loginPage() {
  const problem = signal("");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const key = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("key"));
    try {
      await send("POST", "session", { body: { key }, isRepeatable: false });
      location.reload();
    } catch (error) {
      problem.value = messageOf(error);
    }
  };
  return html`<main class="login">
    <form class="card stack" @submit=${submit}>
      <h1>duly</h1>
      <p class="dim">This server needs a key. It is traded for a session cookie that scripts cannot read.</p>
      <label
        >Key<input type="password" name="key" autocomplete="current-password" required autofocus
      /></label>
      ${() => (problem.value ? html`<p class="field-error" role="alert">${problem.value}</p>` : null)}
      <button class="primary">Log in</button>
      <p class="dim">On the server: <code>duly keys create NAME --scope operate</code></p>
    </form>
  </main>`;
}
