/** The frame of the dashboard: navigation, the live state, and the page of the address. */

import { isLoginNeeded } from "./lib/api.js";
import { operationList } from "./lib/bulk.js";
import { inUtc, switchZone } from "./lib/format.js";
import { icon } from "./lib/icons.js";
import { listen, openHelp, openPalette, shortcuts } from "./lib/keys.js";
import { connection, isHeld, isPaused, second, start } from "./lib/live.js";
import { go, place } from "./lib/router.js";
import { findServices } from "./lib/services.js";
import { caller, logOut, loginPage, recognize } from "./lib/session.js";
import { errorBanner, toastList } from "./lib/ui.js";
import { computed, effect, html, mount, scope, signal, untracked } from "./lib/view.js";
import { pageOf, shownPages } from "./pages/index.js";

const THEMES = ["auto", "light", "dark"];
const theme = signal(localStorage.getItem("duly.theme") ?? "auto");
const isMenuOpen = signal(false);
/** A page is rendered anew when one of these parts changes; it reads the query itself. */
const where = computed(() => place.value.parts.join("/"));

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem("duly.theme", theme.value);
});

function nextTheme() {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length];
}

function togglePause() {
  isPaused.value = !isPaused.value;
}

/** @param {Element} main */
function showPages(main) {
  /** @type {() => void} */
  let dispose = () => {};
  let turn = 0;
  effect(() => {
    void where.value;
    isMenuOpen.value = false;
    untracked(async () => {
      const mine = (turn += 1);
      dispose(); // a page must not react to the address of another one
      const entry = pageOf(place.value);
      let page;
      try {
        page = await entry?.load(place.value);
      } catch (error) {
        page = { render: () => html`${errorBanner(error, () => location.reload())}` };
      }
      if (mine !== turn) return;
      isHeld.value = false;
      document.title = `${entry?.title ?? "Not found"} – duly`;
      dispose = mount(() => (page ? page.render(place.value) : notFound()), main);
    });
  });
}

const notFound = () =>
  html`<div class="empty">
    <h1>There is no such page</h1>
    <p><a href="#/">Back to the overview</a></p>
  </div>`;

/** How the live connection is, by word and shape. */
function liveMark() {
  const found = computed(() => {
    if (isPaused.value) return ["warn", "paused", "Paused"];
    if (connection.value === "live")
      return isHeld.value ? ["idle", "paused", "Held while selected"] : ["good", "completed", "Live"];
    return connection.value === "away" ? ["bad", "away", "No connection"] : ["idle", "pending", "Connecting"];
  });
  return html`<span class="live" role="status"
    >${() => html`<span class=${`state ${found.value[0]}`}>${icon(found.value[1])}${found.value[2]}</span>`}</span
  >`;
}

/** @param {string} name */
function badge(name) {
  if (name === "dead_letters")
    return () =>
      second.value?.dead_letters ? html`<span class="badge bad">${second.value.dead_letters}</span>` : null;
  return null;
}

const navigation = () =>
  html`<nav class="nav" aria-label="Pages">
    ${() => shownPages().map((each) => html`<a href=${`#/${each.name}`} aria-current=${() => (pageOf(place.value) === each ? "page" : null)}>${icon(each.name)}<span>${each.title}</span>${badge(each.name)}</a>`)}
  </nav>`;

const frame = () =>
  html` <a class="skip" href="#main" @click=${skip}>Skip to the content</a>
    <div class="frame">
      <aside class="side" ?data-open=${() => isMenuOpen.value} aria-label="Navigation">
        <a class="brand" href="#/">${logo()}duly</a>
        ${navigation()}
        <div class="side-foot">
          <span>${() => caller.value && `${caller.value.namespace}, ${caller.value.scope}`}</span>
          ${() => (caller.value?.session ? html`<button type="button" class="quiet small" @click=${logOut}>Log out</button>` : null)}
          <a href="docs">API documentation</a>
          <button type="button" class="quiet small" @click=${openHelp}>Keys <kbd>?</kbd></button>
        </div>
      </aside>
      <div>
        <header class="top">
          <button
            type="button"
            class="quiet menu-button"
            aria-label="Menu"
            aria-expanded=${() => String(isMenuOpen.value)}
            @click=${() => (isMenuOpen.value = !isMenuOpen.value)}
          >
            ${icon("menu")}
          </button>
          ${liveMark()}
          <span class="spring"></span>
          <button type="button" class="quiet wide" @click=${openPalette}>
            ${icon("search")}Commands <kbd>Ctrl K</kbd>
          </button>
          <button type="button" class="quiet" @click=${switchZone}>
            <span class="visually-hidden">Time zone: </span>${() => (inUtc.value ? "UTC" : "Local time")}
          </button>
          <button type="button" class="quiet" @click=${nextTheme}>
            ${icon("theme")}<span class="visually-hidden">Theme: </span
            ><span class="wide">${() => theme.value}</span>
          </button>
          <button type="button" @click=${togglePause} aria-pressed=${() => String(isPaused.value)}>
            ${() => (isPaused.value ? html`${icon("play")}Resume` : html`${icon("pause")}Pause`)}
          </button>
        </header>
        ${operationList()}
        <main id="main" tabindex="-1"></main>
      </div>
    </div>
    ${toastList()}`;

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function logo() {
  const found = icon("completed");
  found.setAttribute("stroke-width", "1.7");
  return found;
}

function show() {
  mount(frame, document.body);
  effect(() =>
    shortcuts(
      shownPages().map((each) => ({
        keys: `g ${each.key}`,
        title: `Go to ${each.title}`,
        run: () => go([each.name]),
      })),
    ),
  );
  shortcuts([
    { keys: "?", title: "Show all keys", run: openHelp },
    { keys: "p", title: "Pause or resume live updates", run: togglePause },
    { keys: "t", title: "Switch the theme", run: nextTheme },
    { keys: "u", title: "Switch between UTC and local time", run: switchZone },
  ]);
  showPages(/** @type {Element} */ (document.getElementById("main")));
  listen();
  start();
  void findServices();
  effect(() => {
    if (isLoginNeeded.value) location.reload(); // the session has ended
  });
}

await recognize();
if (isLoginNeeded.value) mount(loginPage, document.body);
else scope(show);
