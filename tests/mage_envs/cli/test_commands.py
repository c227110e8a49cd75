"""Rules that every command line keeps: a closed pipe, a narrow screen, errors of the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mage_envs.cli.commands import describe_error
from mage_envs.cli.program import main


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    listing = subprocess.Popen(
        [sys.executable, "-m", "mage_envs", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert listing.stdout is not None
    listing.stdout.close()  # before it has written anything
    assert listing.stderr is not None
    assert listing.stderr.read() == b""
    listing.stderr.close()
    assert listing.wait() == 141


def test_the_system_s_errors_name_the_path_and_the_remedy(tmp_path: Path) -> None:
    missing, file = tmp_path / "missing", tmp_path / "file"
    file.touch()
    for path, says in (
        (missing, f"{missing}: No such file or directory; check the path."),
        (tmp_path, f"{tmp_path}: Is a directory; name a file in it."),
        (file / "x", f"{file / 'x'}: Not a directory; name another path."),
    ):
        with pytest.raises(OSError, match="Errno") as caught:
            path.read_text()
        assert describe_error(caught.value) == says
    assert describe_error(OSError("a sentence of ours")) == "a sentence of ours"
    assert describe_error(ValueError("x")) == "x"
    assert describe_error(OSError(28, "No space left on device")) == "No space left on device (OSError)."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--port", "99999"],
            "mage serve webshop: Invalid value for '--port': a port must be a number from 0 to 65535, got '99999'",
        ),
        (
            ["--port", "-1"],
            "mage serve webshop: Invalid value for '--port': a port must be a number from 0 to 65535, got '-1'",
        ),
        (["--split", "nosuch"], "mage: split='nosuch' has no made goals among the 200 of this catalogue"),
    ],
)
def test_a_site_that_cannot_be_served(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["serve", "webshop", "--size", "tiny", *arguments])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
