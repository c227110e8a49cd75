"""Shared parts of the tests of pages. LEAVE_OUT=browser leaves them out."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.support.ui import WebDriverWait

needs_browser = pytest.mark.skipif("browser" in os.environ.get("LEAVE_OUT", ""), reason="LEAVE_OUT names browser")
NO_NETWORK = "--host-resolver-rules=MAP evil.example 127.0.0.1"


class Person:
    """A person at the browser."""

    def __init__(self, driver, site):
        self.driver, self.site = driver, site

    def go(self, path):
        self.driver.get(f"{self.site.url}{path}")

    @property
    def path(self):
        return self.driver.current_url.removeprefix(self.site.url).partition("?")[0]

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def choose(self, selector):
        """Clicks what stays on the page."""
        self.one(selector).click()

    def press(self, selector):
        """Clicks what leads to another page, and waits for that."""
        with self.next_page():
            self.one(selector).click()

    def type(self, text):
        """Types what stays on the page."""
        self.driver.switch_to.active_element.send_keys(text)

    def enter(self, text=""):
        """Types where the focus is and presses Enter, and waits for the next page.

        A page's `autofocus` takes effect with its first rendering, which may come after it is complete.
        """
        self.wait_for("return document.activeElement !== document.body")
        with self.next_page():
            self.type(f"{text}\ue007")

    @contextmanager
    def next_page(self):
        self.run("window.isOld = true")
        yield
        self.wait_for("return !window.isOld && document.readyState === 'complete'")

    def wait_for(self, script, *arguments):
        wait = WebDriverWait(self.driver, 20, 0.02, [WebDriverException])
        wait.until(lambda driver: driver.execute_script(script, *arguments))

    def tab_to(self, selector):
        """Press Tab until the selected element has the focus, and return True if the focus is visible."""
        for _ in range(80):
            self.type("\ue004")
            if self.driver.execute_script("return document.activeElement.matches(arguments[0])", selector):
                return
        raise AssertionError(f"Tab does not lead to {selector}")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)


def overflow(person):
    return person.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
