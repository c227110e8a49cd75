"""What the tests of pages share. LEAVE_OUT=browser leaves them out."""

from __future__ import annotations

import os

import pytest

needs_browser = pytest.mark.skipif("browser" in os.environ.get("LEAVE_OUT", ""), reason="LEAVE_OUT names browser")
NO_NETWORK = "--host-resolver-rules=MAP evil.example 127.0.0.1"
