"""The folder of a tournament: its settings and each finished pairing, so that a rerun goes on where one stopped."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.tournaments.pairing import Pairing
from benchmarks.tournaments.settings import Settings
from mage_envs.durable import write_atomically


class OtherTournament(ValueError):
    """A folder that holds a tournament with other settings."""


class Store:
    """`folder/settings.json` and `folder/pairings/*.json`, each file written whole or not at all.

    A folder goes on with further policies, but not with fewer, and not with anything else changed: OtherTournament.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self._rules: dict[str, Any] = json.loads(json.dumps(settings.rules()))
        path = folder / "settings.json"
        if path.exists():
            self._compare(path, settings)
        told = self._rules | {"policies": settings.policies, "imports": settings.imports}
        write_atomically(path, json.dumps(told, indent=2, sort_keys=True) + "\n")

    def _compare(self, path: Path, settings: Settings) -> None:
        try:
            found = json.loads(path.read_text())
            policies = set(found.pop("policies"))
            del found["imports"]
        except (ValueError, KeyError, AttributeError) as error:
            raise OtherTournament(f"{path} is not readable ({error}); take another folder.") from error
        differing = sorted(key for key in found.keys() | self._rules.keys() if found.get(key) != self._rules.get(key))
        if differing:
            changes = ", ".join(f"{key} {found.get(key)!r} there, {self._rules.get(key)!r} now" for key in differing)
            raise OtherTournament(f"{self.folder} holds a tournament with other settings ({changes}); take another.")
        missing = sorted(policies - set(settings.policies))
        if missing:
            raise OtherTournament(f"{self.folder} holds a tournament with {', '.join(missing)} too; name all of them.")

    def _path(self, names: tuple[str, str]) -> Path:
        readable = "--".join(re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] for name in names)
        return self.folder / "pairings" / f"{readable}-{sha256(repr(names).encode()).hexdigest()[:8]}.json"

    def read(self, names: tuple[str, str]) -> Pairing | None:
        """The pairing if it was finished here."""
        try:
            data = json.loads(self._path(names).read_text())
            return Pairing.from_json(data) if data["rules"] == self._rules else None
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self._path(names)} is not readable ({error}); delete it to play it again.") from error

    def write(self, pairing: Pairing) -> None:
        """Keeps a finished pairing."""
        text = json.dumps({"rules": self._rules, **pairing.to_json()}, separators=(",", ":"))
        write_atomically(self._path(pairing.names), text + "\n")
