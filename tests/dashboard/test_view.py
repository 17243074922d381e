"""lib/view.js on its own: signals, effects, templates and keyed lists, in the browser."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route

from duly.surfaces.dashboard.files import POLICY
from tests.dashboard.conftest import Dashboard, opened

pytestmark = [pytest.mark.requirement("S5"), pytest.mark.asyncio(loop_scope="session")]
Run = Callable[[str], Awaitable[Any]]
NAMES = "computed, effect, flush, html, keyed, mount, onDispose, scope, signal, untracked, when"


@pytest_asyncio.fixture(loop_scope="session")
async def run(browser: Browser, dashboard: Dashboard) -> AsyncIterator[Run]:
    """Run a script in an empty page, with everything of lib/view.js; returns its result."""
    async with opened(browser, dashboard.url) as tab:
        await tab.page.route("**/blank", _blank)
        await tab.page.goto(f"{dashboard.url}/blank")
        yield lambda script: _evaluate(tab.page, script)


async def _blank(route: Route) -> None:
    await route.fulfill(
        body="<!doctype html><main></main>",
        content_type="text/html",
        headers={"content-security-policy": POLICY},
    )


async def _evaluate(page: Page, script: str) -> Any:
    return await page.evaluate(
        f"""async () => {{
          const {{ {NAMES} }} = await import("/dashboard/lib/view.js");
          const main = document.querySelector("main");
          {script}
        }}"""
    )


async def test_an_effect_runs_once_for_several_changes(run: Run) -> None:
    script = """
      const [a, b] = [signal(1), signal(2)];
      const seen = [];
      effect(() => seen.push(a.value + b.value));
      a.value = 10; b.value = 20; flush();
      a.value = 10; flush();
      return seen;
    """
    assert await run(script) == [3, 30]


async def test_effects_run_by_themselves_after_the_current_task(run: Run) -> None:
    script = """
      const a = signal(1);
      const seen = [];
      effect(() => seen.push(a.value));
      a.value = 2;
      const before = [...seen];
      await Promise.resolve();
      return [before, seen];
    """
    assert await run(script) == [[1], [1, 2]]


async def test_a_computed_value_is_computed_once_and_only_when_it_is_read(run: Run) -> None:
    script = """
      const a = signal(2);
      let times = 0;
      const double = computed(() => { times += 1; return a.value * 2; });
      const found = [times, double.value, double.value, times];
      a.value = 3;
      return [...found, times, double.value, times];
    """
    assert await run(script) == [0, 4, 4, 1, 1, 6, 2]


async def test_an_effect_does_not_run_while_the_computed_value_stays_the_same(run: Run) -> None:
    script = """
      const a = signal(1);
      const isOdd = computed(() => a.value % 2 === 1);
      const seen = [];
      effect(() => seen.push(isOdd.value));
      a.value = 3; flush();
      a.value = 4; flush();
      return seen;
    """
    assert await run(script) == [True, False]


async def test_an_effect_forgets_what_it_no_longer_reads(run: Run) -> None:
    script = """
      const [which, a, b] = [signal("a"), signal(1), signal(1)];
      let times = 0;
      effect(() => { times += 1; void (which.value === "a" ? a.value : b.value); });
      which.value = "b"; flush();
      a.value = 2; flush();
      const before = times;
      b.value = 2; flush();
      return [before, times];
    """
    assert await run(script) == [2, 3]


async def test_untracked_reads_do_not_run_an_effect_again(run: Run) -> None:
    script = """
      const a = signal(1);
      let times = 0;
      effect(() => { times += 1; untracked(() => a.value); });
      a.value = 2; flush();
      return times;
    """
    assert await run(script) == 1


async def test_a_disposed_scope_stops_its_effects_and_those_inside_them(run: Run) -> None:
    script = """
      const a = signal(1);
      const seen = [];
      const dispose = scope(() => {
        effect(() => {
          seen.push(`outer ${a.value}`);
          effect(() => seen.push(`inner ${a.value}`));
        });
        onDispose(() => seen.push("disposed"));
      });
      a.value = 2;
      dispose();
      flush();
      a.value = 3; flush();
      return [seen, a.readers.size];
    """
    assert await run(script) == [["outer 1", "inner 1", "disposed"], 0]


async def test_an_effect_disposes_of_its_inner_effects_before_it_runs_again(run: Run) -> None:
    script = """
      const [outer, inner] = [signal(1), signal(1)];
      let times = 0;
      effect(() => { void outer.value; effect(() => { times += 1; void inner.value; }); });
      outer.value = 2; flush();
      inner.value = 2; flush();
      return [times, inner.readers.size];
    """
    assert await run(script) == [3, 1]


async def test_an_effect_that_fails_is_reported_and_does_not_stop_the_others(run: Run) -> None:
    script = """
      const a = signal(1);
      const [seen, reported] = [[], []];
      addEventListener("error", (event) => {
        reported.push(event.error.message);
        event.preventDefault();
      });
      effect(() => { if (a.value === 2) throw new Error("not two"); });
      effect(() => seen.push(a.value));
      for (const next of [2, 3]) { a.value = next; await Promise.resolve(); }
      return [seen, reported];
    """
    assert await run(script) == [[1, 2, 3], ["not two"]]


HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>&amp;\\u0000"


async def test_values_never_become_html(run: Run) -> None:
    script = f"""
      const hostile = "{HOSTILE}";
      mount(() => html`<p title=${{hostile}} data-now=${{() => hostile}}>${{hostile}}</p>
        <b>${{() => hostile}}</b><i>${{[hostile]}}</i>`, main);
      const [p, b] = [main.querySelector("p"), main.querySelector("b")];
      return [main.querySelectorAll("img, script").length, p.textContent === hostile,
        p.title === hostile, p.dataset.now === hostile, b.textContent === hostile];
    """
    assert await run(script) == [0, True, True, True, True]


async def test_a_template_with_half_an_attribute_is_refused(run: Run) -> None:
    script = """
      try { html`<a href="x${1}"></a>`.render(); } catch (error) { return error.message; }
    """
    assert "whole value as one expression" in await run(script)


async def test_attributes_properties_switches_and_listeners_are_bound(run: Run) -> None:
    script = """
      const [name, on] = [signal("first"), signal(true)];
      let clicks = 0;
      mount(() => html`<input class=${() => name.value} .value=${() => name.value}
        ?disabled=${() => on.value} aria-label=${() => (on.value ? "yes" : null)} />
        <button @click=${() => (clicks += 1)}>go</button>`, main);
      const input = main.querySelector("input");
      const look = () => [input.className, input.value, input.disabled, input.ariaLabel];
      const before = look();
      name.value = "second"; on.value = false; flush();
      main.querySelector("button").click();
      return [before, look(), clicks];
    """
    before, after, clicks = await run(script)
    assert (before, after, clicks) == (
        ["first", "first", True, "yes"],
        ["second", "second", False, None],
        1,
    )


async def test_only_the_place_of_a_changed_value_is_replaced(run: Run) -> None:
    script = """
      const a = signal("one");
      mount(() => html`<p>before ${() => a.value} after</p><b>stays</b>`, main);
      const [p, b, text] = [main.querySelector("p"), main.querySelector("b"),
        [...main.querySelector("p").childNodes].find((each) => each.data === "one")];
      a.value = "two"; flush();
      return [p.textContent, main.querySelector("p") === p, main.querySelector("b") === b,
        text.data];
    """
    assert await run(script) == ["before two after", True, True, "two"]


async def test_a_condition_renders_again_only_when_it_changes(run: Run) -> None:
    script = """
      const a = signal(1);
      const shown = when(() => a.value > 0, () => html`<b>some</b>`, () => html`<i>none</i>`);
      mount(() => html`${shown}`, main);
      const first = main.querySelector("b");
      a.value = 2; flush();
      const kept = main.querySelector("b") === first;
      a.value = 0; flush();
      return [kept, main.textContent];
    """
    assert await run(script) == [True, "none"]


KEYED = """
  const items = signal(["a", "b", "c"].map((id) => ({ id, text: id })));
  const disposed = [];
  const stop = mount(() => html`<ul>${keyed(() => items.value, (each) => each.id, (row) => {
    const id = row.value.id;
    onDispose(() => disposed.push(id));
    return html`<li><input aria-label=${id} /><span>${() => row.value.text}</span></li>`;
  })}</ul>`, main);
  const rows = () => [...main.querySelectorAll("li")];
  const show = (...ids) => { items.value = ids.map((id) => ({ id, text: id })); flush(); };
  const order = () => main.textContent.trim();
"""


@pytest.mark.parametrize(
    "order", ["cba", "bca", "acb", "ab", "c", "", "dabc", "abcd", "adbc", "dcb", "xyz"]
)
async def test_rows_follow_the_list_and_keep_their_elements(run: Run, order: str) -> None:
    script = f"""{KEYED}
      const before = new Map(rows().map((each) => [each.textContent, each]));
      show(...{list(order)!r});
      const kept = rows().every((each) => !before.has(each.textContent)
        || before.get(each.textContent) === each);
      return [order(), kept, disposed.sort().join("")];
    """
    gone = "".join(sorted(set("abc") - set(order)))
    assert await run(script) == [order, True, gone]


async def test_rows_show_the_new_values_of_the_same_key(run: Run) -> None:
    script = f"""{KEYED}
      items.value = [{{ id: "a", text: "A" }}, {{ id: "b", text: "B" }}]; flush();
      return order();
    """
    assert await run(script) == "AB"


@pytest.mark.parametrize("order", ["cba", "bac", "xabc", "bc"])
async def test_focus_and_typed_text_survive_an_update(run: Run, order: str) -> None:
    script = f"""{KEYED}
      const input = main.querySelector("[aria-label=b]");
      input.focus();
      input.value = "typed"; input.setSelectionRange(1, 3);
      show(...{list(order)!r});
      const found = document.activeElement;
      return [found === input, found.value, found.selectionStart, found.selectionEnd];
    """
    assert await run(script) == [True, "typed", 1, 3]


async def test_the_scroll_position_survives_an_update(run: Run) -> None:
    script = f"""{KEYED}
      show(...Array.from({{ length: 500 }}, (_, index) => `row ${{index}}`));
      const seen = rows()[300];
      seen.scrollIntoView({{ block: "start" }});
      const before = seen.getBoundingClientRect().top;
      items.value = items.value.map((each) => ({{ ...each, text: "new" }})); flush();
      return [scrollY > 1000, Math.abs(seen.getBoundingClientRect().top - before) < 1];
    """
    assert await run(script) == [True, True]


async def test_a_list_without_its_page_stops(run: Run) -> None:
    script = f"""{KEYED}
      stop();
      const after = items.readers.size;
      show("z");
      return [after, disposed.sort().join(""), order()];
    """
    assert await run(script) == [0, "abc", ""]
