/** JSON as it was sent: JavaScript's numbers would change large integers. */

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/**
 * The text of one member of an object, unchanged.
 * @param {string} text @param {string} name @returns {string | null}
 */
export function member(text, name) {
  let depth = 0;
  let isKey = false;
  let start = -1;
  for (const found of text.matchAll(TOKEN)) {
    const [token] = found;
    if (start >= 0 && depth === 1 && (token === "," || token === "}"))
      return text.slice(start, found.index).trim();
    if (token === "{" || token === "[") depth += 1;
    else if (token === "}" || token === "]") depth -= 1;
    else if (depth === 1 && token === ":" && isKey) {
      start = found.index + 1;
      isKey = false;
    } else if (depth === 1 && start < 0) isKey = token === JSON.stringify(name);
  }
  return null;
}

/** The same JSON with one member to a line; the values stay as they are written. @param {string} text */
export function pretty(text) {
  let result = "";
  let indent = 0;
  let before = "";
  const line = () => `\n${"  ".repeat(indent)}`;
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === "}" || token === "]") {
      indent -= 1;
      result += before === "{" || before === "[" ? token : line() + token;
    } else {
      if (before === "{" || before === "[" || before === ",") result += line();
      result += token === ":" ? ": " : token;
      if (token === "{" || token === "[") indent += 1;
    }
    before = token;
  }
  return result;
}
