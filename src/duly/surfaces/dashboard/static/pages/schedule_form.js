/** Adding and editing a schedule, with its next runs shown while it is typed. */

import { path, post, send } from "../lib/api.js";
import { absolute } from "../lib/format.js";
import { formDialog } from "../lib/form.js";
import { go } from "../lib/router.js";
import { messageOf } from "../lib/ui.js";
import { leftOut, notes, wall } from "./schedule_runs.js";
import { effect, html, onDispose, signal } from "../lib/view.js";

/** @typedef {import("../lib/types.js").RuleExplanation} RuleExplanation */
/** @typedef {import("../lib/types.js").RuleSpec} RuleSpec */
/** @typedef {import("../lib/types.js").Schedule} Schedule */

/** The version of a schedule that must not exist yet. */
const NEW = 0;

const KINDS = /** @type {[string, string][]} */ ([
  ["cron", "cron: 0 9 * * MON"],
  ["every", "interval: 15m"],
  ["at", "once: 2027-01-01T09:00"],
  ["yearly", "every year: 12-24"],
  ["any_of", "several: 0 9 * * MON; 30 17 * * FRI"],
]);

/** The typed rule; one of the same kind keeps what the form does not show. @param {Record<string, string>} values @param {RuleSpec} [known] @returns {RuleSpec} */
function ruleOf(values, known) {
  const calendar = values.calendar ? { calendar: values.calendar, move: values.move } : {};
  return { ...plainRuleOf(values, known), ...calendar };
}

/** The typed rule without its calendar. @param {Record<string, string>} values @param {RuleSpec} [known] @returns {RuleSpec} */
function plainRuleOf(values, known) {
  if (values.kind === "any_of") return { any_of: partsOf(values, known) };
  const { calendar, move, ...kept } = /** @type {RuleSpec} */ (known && values.kind in known ? known : {});
  const rule = /** @type {Record<string, string>} */ ({ ...kept, [values.kind]: values.rule.trim() });
  if ((values.kind !== "every" || values.calendar) && values.tz) rule.tz = values.tz;
  else if (values.kind === "every") delete rule.tz;
  if (values.kind === "yearly" && values.time) rule.time = values.time;
  return rule;
}

/** Several typed expressions; one that was there keeps what the form does not show. @param {Record<string, string>} values @param {RuleSpec} [known] @returns {RuleSpec[]} */
const partsOf = (values, known) =>
  values.rule
    .split(";")
    .map((each) => each.trim())
    .filter(Boolean)
    .map((typed) => {
      const part = known?.any_of?.find((each) => textOf(each) === typed);
      return part?.every ? part : { ...part, cron: typed, tz: values.tz || "UTC" };
    });

/** A part of `any_of` as it is typed. @param {RuleSpec} part */
const textOf = (part) => part.cron ?? `@every ${part.every}`;

/** @param {string} typed */
function targetOf(typed) {
  if (typed.startsWith("endpoint:")) return { endpoint: typed.slice(9) };
  return /^https?:/.test(typed) ? { url: typed } : typed;
}

/** Add a schedule. @param {() => Promise<void>} load */
export const add = (load) => declare(null, "{}", load);

/** Change what is changed in the form, and nothing else. @param {Schedule} known @param {string} payload @param {() => Promise<void>} load */
export const edit = (known, payload, load) => declare(known, payload, load);

/** @param {Schedule | null} known @param {string} payload @param {() => Promise<void>} load */
function declare(known, payload, load) {
  /** @type {RuleSpec} */
  const rule = known?.rule ?? { cron: "0 9 * * MON", tz: Intl.DateTimeFormat().resolvedOptions().timeZone };
  const [kind] = KINDS.map(([each]) => each).filter((each) => each in rule);
  formDialog({
    title: known ? `Edit ${known.name}` : "Add a schedule",
    verb: known ? "Save" : "Add",
    done: known ? "Saved" : "Added",
    fields: [
      ...(known ? [] : [{ name: "name", label: "Name", required: true }]),
      { name: "kind", label: "Kind", kind: "select", options: KINDS, value: kind },
      {
        name: "rule",
        label: "Rule",
        value: rule.any_of?.map(textOf).join("; ") ?? /** @type {Record<string, string>} */ (rule)[kind],
        required: true,
      },
      { name: "tz", label: "Time zone", value: rule.tz ?? rule.any_of?.find((each) => each.tz)?.tz ?? "UTC" },
      { name: "time", label: "Time of day, for a day of the year", value: rule.time ?? "09:00" },
      {
        name: "calendar",
        label: "Calendar",
        value: rule.calendar ?? "",
        hint: "its closed days are left out or moved; may be empty",
      },
      {
        name: "move",
        label: "On closed days",
        kind: "select",
        value: rule.move ?? "skip",
        options: [
          ["skip", "leave it out"],
          ["next", "move it to the next business day"],
          ["previous", "move it to the previous business day"],
        ],
      },
      {
        name: "target",
        label: "Target",
        value: known ? (known.url ?? known.target) : "",
        required: true,
        hint: "a handler, endpoint:NAME, or an address",
      },
      {
        name: "catch_up",
        label: "After an absence",
        kind: "select",
        value: known?.catch_up ?? "latest",
        options: [
          ["latest", "run once for all that were missed"],
          ["all", "run every one that was missed"],
          ["skip", "run none that were missed"],
        ],
      },
      {
        name: "overlap",
        label: "While the one before runs",
        kind: "select",
        value: known?.overlap ?? "allow",
        options: [
          ["allow", "run beside it"],
          ["skip", "leave it out"],
          ["queue", "wait for it"],
        ],
      },
      {
        name: "payload",
        label: "Payload",
        kind: "textarea",
        value: payload,
      },
    ],
    below: (values) => preview(() => ruleOf(values(), known?.rule)),
    work: async (values, changed) => {
      const name = known?.name ?? values.name;
      const isGiven = (/** @type {string[]} */ ...names) => !known || names.some((each) => changed.has(each));
      JSON.parse(values.payload || "null");
      const fields = /** @type {[string, string][]} */ ([]);
      if (isGiven("kind", "rule", "tz", "time", "calendar", "move"))
        fields.push(["rule", JSON.stringify(ruleOf(values, known?.rule))]);
      if (isGiven("target")) fields.push(["target", JSON.stringify(targetOf(values.target))]);
      // As it is typed: JavaScript's numbers would change large integers.
      if (isGiven("payload")) fields.push(["payload", values.payload || "null"]);
      if (isGiven("catch_up")) fields.push(["catch_up", JSON.stringify(values.catch_up)]);
      if (isGiven("overlap")) fields.push(["overlap", JSON.stringify(values.overlap)]);
      const raw = `{${fields.map(([field, json]) => `"${field}":${json}`).join(",")}}`;
      if (fields.length)
        await send(known ? "PATCH" : "PUT", path("schedules", name), { raw, version: known?.version ?? NEW });
      if (known) await load();
      else go(["schedules", name]);
    },
  });
}

/** The next runs of the typed rule, and what clock changes do to it. @param {() => RuleSpec} typed */
function preview(typed) {
  const found = signal(/** @type {RuleExplanation | null} */ (null));
  const problem = signal("");
  let timer = 0;
  effect(() => {
    const rule = typed();
    clearTimeout(timer);
    timer = window.setTimeout(async () => {
      try {
        found.value = await post("schedules/explain", { rule, n: 5 });
        problem.value = "";
      } catch (error) {
        problem.value = messageOf(error);
      }
    }, 250);
  });
  onDispose(() => clearTimeout(timer));
  return html`<section class="card preview" aria-label="Preview" aria-live="polite">
    <div class="inside stack">
      ${() => (problem.value ? html`<p class="field-error">${problem.value}</p>` : null)}
      ${() =>
        found.value && !problem.value
          ? html`<p>
                <b>${found.value.rule}</b>${found.value.cron ? html` <code>${found.value.cron}</code>` : null}
              </p>
              <ul>
                ${found.value.next.map(
                  (each) =>
                    html`${each.left_out.map((left) => html`<li class="dim">${leftOut(left)}</li>`)}
                      <li>
                        ${wall(each.local)} <span class="dim">${absolute(each.at)}</span> ${notes(each)}
                      </li>`,
                )}
              </ul>
              <p class="dim">${found.value.clock_changes}</p>`
          : null}
    </div>
  </section>`;
}
