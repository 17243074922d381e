/** Recovery of dead letters: the policies that apply, and the generations of the deployment. */

import { path, post, put, remove } from "../lib/api.js";
import { count, duration, plural } from "../lib/format.js";
import { formDialog } from "../lib/form.js";
import { listOf } from "../lib/list.js";
import { operate } from "../lib/session.js";
import { listCard, OPERATIONS } from "../lib/table.js";
import { confirm, momentOf, stateMark } from "../lib/ui.js";
import { computed, html, signal } from "../lib/view.js";
import { policyReader } from "./disposition.js";

/** @typedef {import("../lib/types.js").RecoveryPolicy} Policy */
/** @typedef {import("../lib/types.js").Generation} Generation */
/** @typedef {import("../lib/types.js").Replay} Replay */
/** @typedef {import("../lib/form.js").Field} Field */

const REASONS = [
  "transport_unavailable",
  "handler_exception",
  "validation_failure",
  "timeout_exceeded",
  "serialization_error",
  "dependency_failure",
  "poison_message",
  "unknown",
  "throttled",
  "attempts_exhausted",
];
/** What happens after the last try; without an end there are no tries. @type {[string, string][]} */
const ENDINGS = [
  ["hold", "hold: an operator decides"],
  ["fail", "fail: they are given up for good"],
  ["", "nothing: leave them alone, with 0 tries"],
];
/** @type {Record<string, string>} */
const ENDED = { hold: "held", fail: "given up" };

/** Both lists, as one view of the dead letters. */
export const recovery = () => html`${policyCard()}${generationCard()}`;

function policyCard() {
  const { found, error, load } = policyReader();
  const items = computed(() => found.value ?? []);
  const isLoaded = computed(() => Boolean(found.value ?? error.value));
  return listCard({
    label: "Recovery policies",
    list: { items, error, isLoaded, load, next: signal(null), more: () => {} },
    title: html`<header>
      <h2>Recovery policies</h2>
      <span class="dim">one of a target comes before one for all</span><span class="spring"></span>
      ${operate(() => html`<button type="button" @click=${() => edit(null, load)}>Add a policy</button>`)}
    </header>`,
    heads: [
      ...["Reason", "Target"],
      ["Tries", "num"],
      ["Cool-down", "narrow-hidden"],
      ["Then", "narrow-hidden"],
      [OPERATIONS, ""],
    ],
    key: (each) => `${each.reason} ${each.target ?? ""}`,
    row: (row) =>
      html`<tr>
        <td class="clip">
          ${() => row.value.reason}
          ${() => (row.value.is_preset ? html`<span class="badge">preset</span>` : null)}
        </td>
        <td class="clip">${() => row.value.target ?? html`<span class="dim">all</span>`}</td>
        <td class="num">${() => count(row.value.tries)}</td>
        <td class="fit narrow-hidden">${() => (row.value.after ? duration(row.value.after) : "none")}</td>
        <td class="fit narrow-hidden">${() => ENDED[row.value.then ?? ""] ?? "left alone"}</td>
        <td class="fit">${operate(() => movesOf(row.value, load))}</td>
      </tr>`,
    empty: () => [
      "No policies",
      "Dead letters wait until an operator retries them.",
      "duly recovery set throttled --tries 3 --after 30m --then hold",
    ],
  });
}

/** @param {Policy} policy @param {() => Promise<void>} load */
function movesOf(policy, load) {
  const drop = () =>
    confirm({
      title: `Remove the policy for ${nameOf(policy)}?`,
      text: "Dead letters that it would have retried wait for an operator, unless another policy or a preset applies.",
      verb: "Remove it",
      kind: "danger",
      done: "Removed",
      work: async () => {
        await remove(path("recovery", "policies", policy.reason), { target: policy.target });
        await load();
      },
    });
  return html`<button type="button" class="small" @click=${() => edit(policy, load)}>Replace</button>
    ${policy.is_preset ? null : html`<button type="button" class="small danger" @click=${drop}>Remove</button>`}`;
}

/** @param {Policy} policy */
const nameOf = ({ reason, target }) => `${reason}${target ? ` of ${target}` : ""}`;

/** Add a policy, or store one in place of another. @param {Policy | null} policy @param {() => Promise<void>} load */
function edit(policy, load) {
  formDialog({
    title: policy ? `Replace the policy for ${nameOf(policy)}` : "Add a policy",
    verb: policy ? "Replace" : "Add",
    done: "Stored; it applies to earlier dead letters, too",
    fields: [...(policy ? [] : keyFields()), ...ruleFields(policy)],
    work: async (values) => {
      const { reason, target } = policy ?? { reason: values.reason, target: values.target.trim() || null };
      await put(path("recovery", "policies", reason), {
        tries: values.tries === "" ? null : Number(values.tries),
        after: values.after.trim() || "0s",
        then: values.then || null,
        target,
      });
      await load();
    },
  });
}

/** Which dead letters it is for. @returns {Field[]} */
const keyFields = () => [
  {
    name: "reason",
    label: "Reason",
    kind: "select",
    value: REASONS[0],
    options: REASONS.map((each) => [each, each]),
    hint: "attempts_exhausted is for all reasons without a policy of their own",
  },
  {
    name: "target",
    label: "Target",
    hint: "a handler, endpoint:NAME or https://example.org; empty for all targets",
  },
];

/** @param {Policy | null} policy @returns {Field[]} */
const ruleFields = (policy) => [
  { name: "tries", label: "Tries", kind: "number", value: policy?.tries ?? 3, required: true },
  {
    name: "after",
    label: "Cool-down",
    value: spelled(policy?.after ?? 1800),
    hint: "how long each stays dead before a try, as in 90s, 30m or 6h",
  },
  {
    name: "then",
    label: "After the last try",
    kind: "select",
    value: policy ? (policy.then ?? "") : "hold",
    options: ENDINGS,
  },
];

/** Seconds as they would be typed. @param {number} seconds */
function spelled(seconds) {
  const units = /** @type {[string, number][]} */ ([
    ["d", 86400],
    ["h", 3600],
    ["m", 60],
  ]);
  const [unit, size] = units.find(([, size]) => seconds && seconds % size === 0) ?? ["s", 1];
  return `${seconds / size}${unit}`;
}

function generationCard() {
  /** @type {ReturnType<typeof listOf<Generation>>} */
  const list = listOf("recovery/generations", () => ({}), { every: 3 });
  return listCard({
    label: "Generations",
    list,
    title: html`<header>
      <h2>Generations</h2>
      <span class="dim">each gives earlier dead letters with a policy one try</span>
      <span class="spring"></span>
      ${operate(() => html`<button type="button" @click=${() => replay(list.load)}>Replay in a generation…</button>`)}
    </header>`,
    heads: [...["Name", "First"], ["Tried", "num"], "Done", ["Held ones", "narrow-hidden"]],
    key: (each) => each.name,
    row: (row) =>
      html`<tr>
        <td class="clip"><b>${row.value.name}</b></td>
        <td class="fit">${() => momentOf(row.value.first_at)}</td>
        <td class="num">${() => count(row.value.tried)}</td>
        <td class="fit">
          ${() => (row.value.done_at ? momentOf(row.value.done_at) : stateMark("running", "under way"))}
        </td>
        <td class="fit narrow-hidden">${() => (row.value.with_held ? "tried, too" : "left alone")}</td>
      </tr>`,
    empty: () => ["No generations", "Name the deployment when it starts.", "duly serve --generation v42"],
  });
}

/** Count what a generation would try, and then do it. @param {() => Promise<void>} load */
function replay(load) {
  const send = (/** @type {unknown} */ body) =>
    /** @type {Promise<Replay>} */ (post("recovery/generations", body));
  formDialog({
    title: "Replay in a generation",
    verb: "Count them",
    done: "Counted",
    fields: [
      { name: "generation", label: "Generation", required: true, hint: "one word, as in v42" },
      { name: "held", label: "Held ones, too", kind: "checkbox", value: false },
    ],
    work: async ({ generation, held }) => {
      const body = { generation, held: held === "true" };
      const { matching } = await send({ ...body, dry_run: true });
      confirm({
        title: `Replay in generation ${generation}?`,
        text: `${plural(matching, "dead letter gets", "dead letters get")} one try. Workers do it at their rate.`,
        verb: "Replay",
        done: `Generation ${generation} has begun`,
        work: async () => {
          await send(body);
          await load();
        },
      });
    },
  });
}
