// What a newcomer would write against the generated types: it has to compile, and to work.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });

function given<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}
function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

// Nothing but the target has to be given.
const least: components["schemas"]["NewDelivery"] = { target: "work" };
const first = given(await client.POST("/v1/deliveries", { body: least }));
check(first.state === "pending" && !first.known, "deliver");
const second = given(await client.POST("/v1/deliveries", {
  params: { header: { "Idempotency-Key": "once" } },
  body: { target: "work", payload: { n: 2 }, tags: ["red"], retry: { type: "exponential", attempts: 3 } },
}));

const page = given(await client.GET("/v1/deliveries", { params: { query: { tag: "red", limit: 1 } } }));
check(page.items[0]?.id === second.id, "list");

const spec: components["schemas"]["ScheduleSpec"] = { rule: { every: "1h" }, target: "work" };
const path = { name: "hourly" };
const made = given(await client.PUT("/v1/schedules/{name}", {
  params: { path, header: { "If-None-Match": "*" } }, body: spec,
}));
check(made.change === "created", "schedule");
const again = await client.PUT("/v1/schedules/{name}", {
  params: { path, header: { "If-None-Match": "*" } }, body: spec,
});
check(again.error?.status === 412, "create it only once");

const paused = given(await client.POST("/v1/schedules/{name}/pause", { params: { path } }));
check(paused.state === "paused" && paused.paused_at !== null, "pause without a body");

const wrong = await client.POST("/v1/deliveries", { body: { target: "work", priority: 12 } });
check(wrong.error?.field === "priority", "a problem names its field");

given(await client.POST("/v1/deliveries", { body: { target: "work", payload: "bad" } }));
let dead: string | undefined;
for (const until = Date.now() + 30_000; dead === undefined && Date.now() < until;) {
  dead = given(await client.GET("/v1/dead-letters")).items[0]?.id;
}
check(dead !== undefined, "no dead letter came");
const retried = given(await client.POST("/v1/dead-letters/{id}/retry", { params: { path: { id: dead! } } }));
check(retried.id === dead && retried.state !== "dead", "dead-letter retry");

const user = given(await client.POST("/user", {
  body: { firstName: "Ann", lastName: "Lee", dateOfBirth: "1990-11-15", timezone: "America/New_York" },
}));
check(user.user.firstName === "Ann", "register");
console.log("ok");
