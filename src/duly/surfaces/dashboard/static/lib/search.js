/** Searches with qualifiers: `state:dead target:"a b" some text`. */

/**
 * The fields of a search; words without a qualifier are the text.
 * @param {string} typed @param {string[]} known @returns {Record<string, string>}
 */
export function parseSearch(typed, known) {
  /** @type {Record<string, string>} */
  const found = {};
  const text = [];
  for (const [all, name, quoted, plain] of typed.matchAll(/(?:([a-z_]+):)?(?:"([^"]*)"|(\S+))/g)) {
    if (name && known.includes(name)) found[name] = quoted ?? plain;
    else text.push(name ? all : (quoted ?? plain));
  }
  if (text.length) found.text = text.join(" ");
  return found;
}

/** The same as it would be typed. @param {Record<string, string>} fields */
export const writeSearch = (fields) =>
  Object.entries(fields)
    .map(([name, value]) => (name === "text" ? value : `${name}:${/\s/.test(value) ? `"${value}"` : value}`))
    .join(" ");
