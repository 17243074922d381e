/** Services that run beside the engine, found by the links of the server's first answer. */

import { signal } from "./view.js";

/** Whether the birthday service runs. */
export const hasBirthdays = signal(false);

/** Ask the server what it has; below the path of another application there are no services. */
export async function findServices() {
  const headers = { accept: "application/json" };
  const answer = await fetch(new URL("../../", import.meta.url), { headers }).catch(() => null);
  if (!answer?.headers.get("content-type")?.startsWith("application/json")) return;
  const { links } = await answer.json();
  hasBirthdays.value = Boolean(links?.user);
}
