/**
 * Signals, templates and keyed lists: everything that the pages are rendered with.
 *
 * A template is rendered once. What changes in it is a function, which runs again when a signal
 * that it has read changes, and replaces only its own place in the document. Rows of a keyed list
 * keep their elements, so that focus, selection and scroll position survive an update.
 *
 * In a template, `@name=` adds a listener, `.name=` sets a property and `?name=` switches an
 * attribute. Values are inserted as text, attributes or properties, never as HTML.
 */

/** @typedef {{ refresh(): number, readers: Set<Reader> }} Source */
/** @typedef {{ notify(): void, sources: Map<Source, number> }} Reader */
/** @typedef {() => void} Dispose */
let reader = /** @type {Reader | null} */ (null);
let owned = /** @type {Dispose[] | null} */ (null);
const pending = /** @type {Set<Effect>} */ (new Set());

/** @param {Source} source @param {number} version */
function track(source, version) {
  if (reader === null) return;
  reader.sources.set(source, version);
  source.readers.add(reader);
}

/** @param {Reader} from */
function forget(from) {
  for (const source of from.sources.keys()) source.readers.delete(from);
  from.sources.clear();
}

/** @template T @param {Reader | null} as who is notified of what it reads @param {() => T} run */
function readAs(as, run) {
  const before = reader;
  reader = as;
  try {
    return run();
  } finally {
    reader = before;
  }
}

/** A value that notifies its readers when it changes. @template T */
export class Signal {
  /** @param {T} initial */
  constructor(initial) {
    this.current = /** @type {T} */ (initial);
    this.version = 0;
    this.readers = /** @type {Set<Reader>} */ (new Set());
  }

  get value() {
    track(this, this.version);
    return this.current;
  }

  set value(next) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    this.version += 1;
    for (const each of [...this.readers]) each.notify();
  }

  refresh() {
    return this.version;
  }
}

/** A value computed from others, when it is read and one of them has changed. @template T */
export class Computed {
  /** @param {() => T} compute */
  constructor(compute) {
    this.compute = compute;
    this.version = 0;
    this.isStale = true;
    this.current = /** @type {T | undefined} */ (undefined);
    this.readers = /** @type {Set<Reader>} */ (new Set());
    this.sources = /** @type {Map<Source, number>} */ (new Map());
  }

  notify() {
    if (this.isStale) return;
    this.isStale = true;
    for (const each of [...this.readers]) each.notify();
  }

  refresh() {
    if (this.isStale) {
      forget(this);
      const next = readAs(this, this.compute);
      this.isStale = false;
      if (this.version === 0 || !Object.is(next, this.current)) this.version += 1;
      this.current = next;
    }
    return this.version;
  }

  get value() {
    track(this, this.refresh());
    return /** @type {T} */ (this.current);
  }
}

class Effect {
  /** @param {() => void} run */
  constructor(run) {
    this.run = run;
    this.sources = /** @type {Map<Source, number>} */ (new Map());
    this.clean = /** @type {Dispose} */ (() => {});
    this.isDisposed = false;
  }

  notify() {
    if (pending.size === 0) queueMicrotask(flush);
    pending.add(this);
  }

  start() {
    this.clean();
    forget(this);
    this.clean = readAs(this, () => scope(this.run));
  }

  restart() {
    if (this.isDisposed) return;
    if ([...this.sources].some(([source, seen]) => source.refresh() !== seen)) this.start();
  }

  dispose() {
    this.isDisposed = true;
    pending.delete(this);
    forget(this);
    this.clean();
  }
}

/** Run all effects that wait now, instead of at the end of the current task. */
export function flush() {
  // Effects that are added meanwhile are visited too.
  for (const each of pending) {
    pending.delete(each);
    try {
      each.restart();
    } catch (error) {
      reportError(error); // and the others go on
    }
  }
}

/** @template T @param {T} initial */
export const signal = (initial) => new Signal(initial);
/** @template T @param {() => T} compute */
export const computed = (compute) => new Computed(compute);

/** Run a function now, and again after every change of what it has read. @param {() => void} run */
export function effect(run) {
  const found = new Effect(run);
  found.start();
  onDispose(() => found.dispose());
}

/** Read signals without depending on them. @template T @param {() => T} run */
export const untracked = (run) => readAs(null, run);

/** Call a function when what is being rendered is removed. @param {Dispose} dispose */
export function onDispose(dispose) {
  owned?.push(dispose);
}

/** Run a function; the result disposes of all effects that it has started. @param {() => void} run */
export function scope(run) {
  const before = owned;
  const own = /** @type {Dispose[]} */ ([]);
  owned = own;
  try {
    run();
  } finally {
    owned = before;
  }
  return () => {
    for (const each of own.splice(0).reverse()) each();
  };
}

/** @typedef {string | null} Slot the name of an attribute, null for a place between elements */
/** @typedef {{ element: HTMLTemplateElement, slots: Slot[] }} Parsed */

const parsed = /** @type {WeakMap<TemplateStringsArray, Parsed>} */ (new WeakMap());
const MARK = "slot";

/** The literal parts of a template, and the values between them. */
export class Template {
  /** @param {TemplateStringsArray} strings @param {unknown[]} values */
  constructor(strings, values) {
    this.strings = strings;
    this.values = values;
  }

  /** A copy of the template's nodes, with the values in their places. */
  render() {
    const { element, slots } = parse(this.strings);
    const copy = document.importNode(element.content, true);
    const places = /** @type {(Element | Comment)[]} */ ([]);
    const walker = document.createTreeWalker(copy, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node instanceof Comment && node.data.startsWith(MARK)) places[Number(node.data.slice(4))] = node;
      for (const { name, value } of node instanceof Element ? [...node.attributes] : []) {
        if (!name.startsWith(`data-${MARK}`)) continue;
        places[Number(value)] = /** @type {Element} */ (node);
        /** @type {Element} */ (node).removeAttribute(name);
      }
    }
    slots.forEach((slot, index) => {
      const place = places[index];
      if (slot === null) insert(/** @type {Comment} */ (place), this.values[index]);
      else bind(/** @type {Element} */ (place), slot, this.values[index]);
    });
    return copy;
  }
}

/** @param {TemplateStringsArray} strings @returns {Parsed} */
function parse(strings) {
  const known = parsed.get(strings);
  if (known) return known;
  const slots = /** @type {Slot[]} */ ([]);
  let text = "";
  strings.forEach((each, index) => {
    text += each;
    if (index === strings.length - 1) return;
    if (text.lastIndexOf("<") > text.lastIndexOf(">")) {
      const name = /\s([.?@]?[\w:-]+)=$/.exec(text)?.[1];
      if (!name) throw new Error(`an attribute needs its whole value as one expression: ${each}`);
      slots.push(name);
      text = `${text.slice(0, -name.length - 1)}data-${MARK}${index}="${index}"`;
    } else {
      slots.push(null);
      text += `<!--${MARK}${index}-->`;
    }
  });
  const element = document.createElement("template");
  element.innerHTML = text.trim();
  parsed.set(strings, { element, slots });
  return { element, slots };
}

/** @param {TemplateStringsArray} strings @param {...unknown} values */
export const html = (strings, ...values) => new Template(strings, values);

/** @param {Element} element @param {string} name @param {unknown} value */
function bind(element, name, value) {
  if (name[0] === "@") element.addEventListener(name.slice(1), /** @type {EventListener} */ (value));
  else if (typeof value === "function") effect(() => set(element, name, value()));
  else set(element, name, value);
}

/** @param {Element} element @param {string} name @param {unknown} value */
function set(element, name, value) {
  if (name[0] === ".") {
    const target = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (element));
    if (target[name.slice(1)] !== value) target[name.slice(1)] = value;
  } else if (name[0] === "?") {
    element.toggleAttribute(name.slice(1), Boolean(value));
  } else if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** Put a value before a marker in the document. @param {Comment} marker @param {unknown} value */
function insert(marker, value) {
  if (value instanceof Keyed) {
    value.attach(marker);
  } else if (typeof value === "function") {
    const start = document.createComment("");
    marker.before(start);
    effect(() => replace(start, marker, value()));
  } else {
    marker.before(...nodes(value));
  }
}

/** Replace what is between two markers. @param {Comment} start @param {Comment} end @param {unknown} value */
function replace(start, end, value) {
  const only = start.nextSibling;
  if (only instanceof Text && only.nextSibling === end && isText(value)) {
    if (only.data !== String(value)) only.data = String(value);
    return;
  }
  while (start.nextSibling !== end) start.nextSibling?.remove();
  end.before(...untracked(() => nodes(value)));
}

/** @param {unknown} value */
const isText = (value) => typeof value === "string" || typeof value === "number";

/** @param {unknown} value @returns {Node[]} */
function nodes(value) {
  if (value === null || value === undefined || value === false || value === true) return [];
  if (Array.isArray(value)) return value.flatMap(nodes);
  if (value instanceof Template) return [...value.render().childNodes];
  return [value instanceof Node ? value : document.createTextNode(String(value))];
}

/** @template T @typedef {{ row: Signal<T>, element: HTMLElement, dispose: Dispose }} Row */

/** A list whose rows keep their elements while their keys stay. @template T */
class Keyed {
  /**
   * @param {() => readonly T[]} items @param {(item: T) => string | number} key
   * @param {(row: Signal<T>) => Template} render
   */
  constructor(items, key, render) {
    this.items = items;
    this.key = key;
    this.render = render;
    this.rows = /** @type {Map<string | number, Row<T>>} */ (new Map());
  }

  /** @param {Comment} marker */
  attach(marker) {
    effect(() => this.update(marker, this.items()));
    onDispose(() => this.removeExcept(new Set()));
  }

  /** @param {Comment} marker @param {readonly T[]} items */
  update(marker, items) {
    const focused = document.activeElement;
    this.removeExcept(new Set(items.map(this.key)));
    let next = /** @type {ChildNode | null} */ (this.first() ?? marker);
    for (const item of items) {
      const element = this.placed(item);
      if (element === next) next = next.nextSibling;
      else next?.before(element);
    }
    // Moving an element takes the focus from it.
    if (focused !== document.activeElement) /** @type {HTMLElement | null} */ (focused)?.focus();
  }

  /** @param {T} item */
  placed(item) {
    const key = this.key(item);
    const found = this.rows.get(key);
    if (found) {
      found.row.value = item;
      return found.element;
    }
    const row = signal(item);
    const made = { row, element: document.createElement("i"), dispose: () => {} };
    const render = () => {
      made.element = /** @type {HTMLElement} */ (this.render(row).render().firstElementChild);
    };
    made.dispose = untracked(() => scope(render)); // a row outlives the update that has added it
    this.rows.set(key, made);
    return made.element;
  }

  /** The first row in the document: all rows are neighbours. */
  first() {
    const all = new Set(/** @type {Element[]} */ ([...this.rows.values()].map((each) => each.element)));
    let [element] = all;
    while (element?.previousElementSibling && all.has(element.previousElementSibling)) {
      element = element.previousElementSibling;
    }
    return element ?? null;
  }

  /** @param {Set<string | number>} kept */
  removeExcept(kept) {
    for (const [key, { element, dispose }] of this.rows) {
      if (kept.has(key)) continue;
      dispose();
      element.remove();
      this.rows.delete(key);
    }
  }
}

/**
 * A list of rows, each found again by its key; `render` gets the row as a signal. @template T
 * @param {() => readonly T[]} items @param {(item: T) => string | number} key
 * @param {(row: Signal<T>) => Template} render
 */
export const keyed = (items, key, render) => new Keyed(items, key, render);

/**
 * One template or the other, rendered again only when the condition changes.
 * @param {() => unknown} condition @param {() => unknown} then @param {() => unknown} [otherwise]
 */
export function when(condition, then, otherwise = () => null) {
  const holds = computed(() => Boolean(condition()));
  return () => (holds.value ? untracked(then) : untracked(otherwise));
}

/** Render a template in place of what is in an element. @param {() => Template} render @param {Element} into */
export const mount = (render, into) => scope(() => into.replaceChildren(render().render()));
