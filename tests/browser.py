"""A real Chromium without a window, for the tests of pages. LEAVE_OUT=browser leaves these out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium import webdriver

needs_browser = pytest.mark.skipif("browser" in os.environ.get("LEAVE_OUT", ""), reason="LEAVE_OUT names browser")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1200,900",
    "--host-resolver-rules=MAP evil.example 127.0.0.1",
    "--disable-features=BackForwardCache",
)


@contextmanager
def opened_chromium() -> Iterator[webdriver.Chrome]:
    """A browser that logs its console and its requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    path = shutil.which("chromedriver")
    assert path, "chromedriver is missing: tests/system_packages.sh installs it; LEAVE_OUT=browser leaves these out"
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(path))
    driver.set_page_load_timeout(30)
    try:
        yield driver
    finally:
        driver.quit()
