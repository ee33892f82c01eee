"""A person who uses the pages in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: The impacts of a finding of axe that fail a test.
_GRAVE = ("serious", "critical")


class Visitor:
    """A browser context of a user.

    Args:
        context: of Playwright; ``page`` is its only tab.
        pictures: the folder of the pictures.

    Attributes:
        complaints: errors of the browser's console, such as a refusal by the content security policy.
    """

    def __init__(self, context: Any, url: str, user: str, password: str, pictures: Path) -> None:
        self._context, self._user, self._password, self._pictures = context, user, password, pictures
        self.url = url
        self.page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda line: self.complaints.append(line.text) if line.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: str) -> None:
        """Open a page of Airflow's server. Without a session, sign in at the login page, which leads back to it."""
        self.page.goto(f"{self.url}{path}")
        if "/auth/login" in self.page.url:
            self.page.get_by_label("Username").fill(self._user)
            self.page.get_by_label("Password", exact=True).fill(self._password)
            self.page.get_by_role("button", name="Sign in").click()
            self.page.wait_for_url(f"{self.url}{path}")
            self.complaints.clear()  # those of Airflow's own page

    def check(self) -> None:
        """Check the page as it is now: no grave finding of axe in light or dark, and no error in the console."""
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            assert grave_findings(self.page) == [], (scheme, self.page.url)
        self.page.emulate_media(color_scheme="light")
        assert self.complaints == [], self.page.url

    def picture(self, name: str, scheme: str = "light") -> None:
        """A picture of what the window shows, without the empty part below a short page."""
        self.page.emulate_media(color_scheme=scheme)
        end = self.page.evaluate("document.querySelector('body > main')?.getBoundingClientRect().bottom ?? innerHeight")
        size = self.page.viewport_size
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(end, size["height"])}
        self.page.screenshot(path=self._pictures / f"{name}.png", clip=clip)
        self.page.emulate_media(color_scheme="light")

    def texts(self, selector: str) -> list[str]:
        """The texts of the elements."""
        texts: list[str] = self.page.locator(selector).all_inner_texts()
        return texts

    def leave(self) -> None:
        """Close the browser context."""
        self._context.close()


def grave_findings(page: Any) -> list[tuple[str, str]]:
    """The grave findings of axe: the rule, and the elements."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    return [
        (finding["id"], "; ".join(node["html"] for node in finding["nodes"]))
        for finding in violations
        if finding["impact"] in _GRAVE
    ]
