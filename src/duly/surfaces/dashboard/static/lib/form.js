/** A dialog with fields: labels, a problem under its field, and what is sent. */

import { ApiError } from "./api.js";
import { dialog, messageOf, toast } from "./ui.js";
import { html, signal } from "./view.js";

/** @typedef {{ name: string, label: string, kind?: "text" | "number" | "textarea" | "select" | "checkbox", value?: string | number | boolean | null, options?: [string, string][], hint?: string, required?: boolean }} Field */

/**
 * @param {{ title: string, verb: string, kind?: string, done: string, fields: Field[], below?: (values: () => Record<string, string>) => unknown, work: (values: Record<string, string>, changed: Set<string>) => Promise<unknown> }} form `work` gets the names of the changed fields too: an edit that sends the others could change what a page cannot show.
 */
export function formDialog({ title, verb, kind = "primary", done, fields, below, work }) {
  const problem = signal(/** @type {{ field?: string, text: string } | null} */ (null));
  const given = /** @type {Record<string, string>} */ (
    Object.fromEntries(
      fields.map((each) => [
        each.name,
        each.value === null || each.value === undefined ? "" : String(each.value),
      ]),
    )
  );
  const typed = signal(given);
  dialog(title, (close) => {
    const take = (/** @type {Event} */ event) => {
      const target = /** @type {HTMLInputElement} */ (event.target);
      typed.value = {
        ...typed.value,
        [target.name]: target.type === "checkbox" ? String(target.checked) : target.value,
      };
    };
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      problem.value = null;
      try {
        const changed = Object.keys(given).filter((name) => typed.value[name] !== given[name]);
        await work(typed.value, new Set(changed));
        toast(done);
        close();
      } catch (error) {
        problem.value = {
          text: messageOf(error),
          field: error instanceof ApiError ? error.field : undefined,
        };
      }
    };
    const refused = (/** @type {string | undefined} */ name) => () => {
      const found = problem.value;
      const isHere =
        found &&
        (name === undefined ? !fields.some((each) => each.name === found.field) : found.field === name);
      return isHere ? html`<span class="field-error" role="alert">${found.text}</span>` : null;
    };
    return html`<form class="stack" @submit=${submit} @input=${take} @change=${take}>
      ${fields.map(
        (each) =>
          html`<div class="field">
            <label>${each.label}${input(each)}</label>
            <div id=${noteOf(each)}>
              ${each.hint ? html`<span class="dim">${each.hint}</span>` : null} ${refused(each.name)}
            </div>
          </div>`,
      )}
      ${below?.(() => typed.value)} ${refused(undefined)}
      <footer>
        <button type="button" @click=${close}>Back</button><button class=${kind}>${verb}</button>
      </footer>
    </form>`;
  });
}

/** The element that describes a field: its hint and its problem. @param {Field} field */
const noteOf = ({ name }) => `note-${name}`;

/** @param {Field} field */
function input(field) {
  const { name, kind = "text", value, required = false } = field;
  const note = noteOf(field);
  if (kind === "select")
    return html`<select name=${name} aria-describedby=${note}>
      ${field.options?.map(([each, word]) => html`<option value=${each} ?selected=${each === String(value ?? "")}>${word}</option>`)}
    </select>`;
  if (kind === "textarea")
    return html`<textarea
      name=${name}
      aria-describedby=${note}
      spellcheck="false"
      .value=${String(value ?? "")}
    ></textarea>`;
  if (kind === "checkbox")
    return html`<input type="checkbox" name=${name} aria-describedby=${note} .checked=${Boolean(value)} />`;
  return html`<input
    type=${kind}
    name=${name}
    aria-describedby=${note}
    step="any"
    ?required=${required}
    .value=${String(value ?? "")}
  />`;
}
