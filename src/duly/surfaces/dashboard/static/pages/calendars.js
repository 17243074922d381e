/** Calendars: the closed days that rules leave out; set, imported from a file, and removed. */

import { get, path, put, remove, send } from "../lib/api.js";
import { count } from "../lib/format.js";
import { formDialog } from "../lib/form.js";
import { listOf } from "../lib/list.js";
import { operate } from "../lib/session.js";
import { listCard, OPERATIONS } from "../lib/table.js";
import { confirm, messageOf, momentOf, toast } from "../lib/ui.js";
import { html } from "../lib/view.js";

/** @typedef {import("../lib/types.js").Calendar} Calendar */
/** @typedef {import("../lib/types.js").CalendarSummary} Summary */

/** The version of a calendar that must not exist yet. */
const NEW = 0;

export function render() {
  /** @type {ReturnType<typeof listOf<Summary>>} */
  const list = listOf("calendars", () => ({}), { every: 10 });
  const { load } = list;
  const edit = async (/** @type {string} */ name) => {
    try {
      days(await get(path("calendars", name)), load);
    } catch (error) {
      toast(messageOf(error), "bad");
    }
  };
  return html` <div class="head">
      <div>
        <h1>Calendars</h1>
        <p>Closed days. The rule of a schedule leaves them out, or moves to the next or previous open day.</p>
      </div>
      <span class="spring"></span>
      ${operate(
        () =>
          html`<div class="row">
            <button type="button" @click=${() => importFile(load)}>Import a file…</button>
            <button type="button" class="primary" @click=${() => days(null, load)}>Add a calendar</button>
          </div>`,
      )}
    </div>
    ${listCard({
      label: "Calendars",
      list,
      heads: [
        ...["Name", "Weekend"],
        ["Dates", "num"],
        "Last date",
        ["Schedules", "num"],
        ["Changed", "narrow-hidden"],
        [OPERATIONS, ""],
      ],
      key: (each) => each.name,
      row: (row) =>
        html`<tr>
          <td class="clip">${row.value.name}</td>
          <td>${() => row.value.weekend.join(", ") || "none"}</td>
          <td class="num">${() => count(row.value.dates)}</td>
          <td class="fit">${() => row.value.last_date ?? ""}</td>
          <td class="num">${() => count(row.value.schedules)}</td>
          <td class="fit narrow-hidden">${() => momentOf(row.value.updated_at)}</td>
          <td class="fit">
            ${operate(
              () =>
                html`<button type="button" class="small" @click=${() => edit(row.value.name)}>Edit</button
                  ><button type="button" class="small danger" @click=${() => drop(row.value.name, load)}>
                    Remove
                  </button>`,
            )}
          </td>
        </tr>`,
      empty: () => [
        "No calendars yet",
        "Add one here, or import a file with holidays.",
        "duly calendars import nrw holidays.ics",
      ],
    })}`;
}

/** Add a calendar, or edit one. @param {Calendar | null} known @param {() => Promise<void>} load */
function days(known, load) {
  formDialog({
    title: known ? `Edit ${known.name}` : "Add a calendar",
    verb: known ? "Save" : "Add",
    done: known ? "Saved" : "Added",
    fields: [
      ...(known ? [] : [{ name: "name", label: "Name", required: true }]),
      {
        name: "weekend",
        label: "Weekend",
        value: (known?.weekend ?? ["saturday", "sunday"]).join(", "),
        hint: "weekdays that are closed, or nothing",
      },
      {
        name: "closed",
        label: "Closed dates",
        kind: "textarea",
        value: Object.entries(known?.closed ?? {})
          .map(([day, label]) => `${day} ${label}`.trim())
          .join("\n"),
        hint: "one on each line, as in 2026-12-25 Christmas",
      },
    ],
    work: async (values) => {
      const where = path("calendars", known?.name ?? values.name);
      await put(where, daysOf(values), known?.version ?? NEW);
      await load();
    },
  });
}

/** @param {Record<string, string>} values */
const daysOf = ({ weekend, closed }) => ({
  weekend: weekend
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean),
  closed: Object.fromEntries(
    closed
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean)
      .map((line) => [line.split(/\s/)[0], line.replace(/^\S+\s*/, "")]),
  ),
});

/** Set the dates of a calendar from a file. @param {() => Promise<void>} load */
const importFile = (load) =>
  formDialog({
    title: "Import a file",
    verb: "Import",
    done: "Imported",
    fields: [
      { name: "name", label: "Name of the calendar", required: true },
      {
        name: "ics",
        label: "Content of the file (.ics)",
        kind: "textarea",
        hint: "its dates replace those of the calendar; the weekend stays",
      },
    ],
    work: async (values) => {
      await send("PUT", path("calendars", values.name), { raw: values.ics, media: "text/calendar" });
      await load();
    },
  });

/** @param {string} name @param {() => Promise<void>} load */
const drop = (name, load) =>
  confirm({
    title: `Remove ${name}?`,
    text: "This is possible while no schedule uses it.",
    verb: "Remove it",
    kind: "danger",
    done: "Removed",
    work: async () => {
      await remove(path("calendars", name));
      await load();
    },
  });
