"""A real Chromium without a window, for measurements and tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver

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
    "--disable-features=BackForwardCache",
)


@contextmanager
def open_chromium(*further: str) -> Iterator[webdriver.Chrome]:
    """Yield a browser with further flags, which logs its console and its requests.

    Raises:
        FileNotFoundError: If chromedriver is missing.
    """
    path = shutil.which("chromedriver")
    if path is None:
        raise FileNotFoundError("chromedriver is missing. tests/system_packages.sh installs it with Chromium.")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in (*FLAGS, *further):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(path))
    driver.set_page_load_timeout(30)
    try:
        yield driver
    finally:
        driver.quit()
