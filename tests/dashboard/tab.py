"""A tab of the browser that shows the dashboard, and remembers everything that goes wrong in it."""

from playwright.async_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} refused ${event.blockedURI}`));
"""


class Tab:
    """A page of the dashboard; elements are found by their accessible names."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.expected: list[str] = []
        """Parts of problems that the test causes on purpose."""

    @classmethod
    async def new(cls, context: BrowserContext, url: str) -> "Tab":
        """A tab that shows nothing yet."""
        tab = cls(await context.new_page(), url)
        await tab.page.add_init_script(REPORT_VIOLATIONS)
        tab.page.on("console", tab._note_message)
        tab.page.on("pageerror", lambda error: tab.problems.append(f"error: {error}"))
        tab.page.on("request", tab._note_request)
        return tab

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def _note_request(self, request: Request) -> None:
        self.requests.append(request.url)
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.problems.append(f"a request to {request.url}")

    def unexpected(self) -> list[str]:
        """The problems that the test has not caused on purpose."""
        return [each for each in self.problems if not any(part in each for part in self.expected)]

    async def open(self, place: str = "") -> None:
        """Go to a page of the dashboard, as `deliveries?state=dead`."""
        await self.page.goto(f"{self.url}/#/{place}")
        await expect(self.page.get_by_role("heading", level=1)).to_be_visible()

    def role(self, role: str, name: str, *, exact: bool = True) -> Locator:
        """The element with that role and accessible name."""
        return self.page.get_by_role(role, name=name, exact=exact)  # type: ignore[arg-type]

    def button(self, name: str) -> Locator:
        """The button with that name; in the dialog, if one is open."""
        return self.role("button", name)

    @property
    def dialog(self) -> Locator:
        """The open dialog."""
        return self.page.get_by_role("dialog")

    async def click(self, name: str) -> None:
        """Click the button with that name."""
        await self.button(name).click()

    async def confirm(self, name: str) -> None:
        """Click the button with that name in the dialog, which then has to close."""
        await self.dialog.get_by_role("button", name=name, exact=True).click()
        await expect(self.dialog).to_have_count(0)

    async def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        for key in keys:
            await self.page.keyboard.press(key)

    async def see(self, text: str) -> None:
        """Wait until the text is shown."""
        await expect(self.page.get_by_text(text).first).to_be_visible()

    async def see_in_main(self, text: str) -> None:
        """Wait until the text is shown in the page, not in the frame around it."""
        await expect(self.page.get_by_role("main").get_by_text(text).first).to_be_visible()

    async def see_message(self, text: str) -> None:
        """Wait for one of the short messages at the edge of the window."""
        await expect(self.page.locator(".toasts").get_by_text(text)).to_be_visible()
