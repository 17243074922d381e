/** What can be done with a person: add, edit, remove. */

import { post, put, remove } from "../lib/api.js";
import { formDialog } from "../lib/form.js";
import { confirm } from "../lib/ui.js";
import { nameOf } from "./birthday_dates.js";

/** @typedef {import("../lib/types.js").Person} Person */

const FEB29 = /** @type {[string, string][]} */ ([
  ["", "as the service is set up"],
  ["feb28", "on 28 February"],
  ["mar1", "on 1 March"],
  ["skip", "not at all"],
]);

/** Add a person, or change one. @param {Person | null} person @param {() => Promise<void>} load */
export function editPerson(person, load) {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  formDialog({
    title: person ? `Edit ${nameOf(person)}` : "Add a person",
    verb: person ? "Save" : "Add",
    done: person ? "Saved" : "Added",
    fields: [
      { name: "firstName", label: "First name", required: true, value: person?.firstName },
      { name: "lastName", label: "Last name", required: true, value: person?.lastName },
      {
        name: "dateOfBirth",
        label: "Date of birth",
        required: true,
        value: person?.dateOfBirth,
        hint: "as in 1990-11-15",
      },
      { name: "timezone", label: "Time zone", required: true, value: person?.timezone ?? here },
      {
        name: "feb29",
        label: "Born on 29 February: greeted in other years",
        kind: "select",
        options: FEB29,
        value: person?.feb29 ?? "",
      },
    ],
    work: async (values) => {
      const body = { ...values, feb29: values.feb29 || null };
      await (person ? put(`../user/${person.id}`, body) : post("../user", body));
      await load();
    },
  });
}

/** @param {Person} person @param {() => Promise<void>} load */
export const removePerson = (person, load) =>
  confirm({
    title: `Remove ${nameOf(person)}?`,
    text: "The next greeting is cancelled; one that is being sent is finished.",
    verb: "Remove",
    kind: "danger",
    done: "Removed",
    work: async () => {
      await remove(`../user/${person.id}`);
      await load();
    },
  });
