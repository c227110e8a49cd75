"""Folder of a tournament with its settings and finished pairings, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.tournaments.pairing import Pairing
from mage_envs.benchmarks.tournaments.tournament_settings import Settings
from mage_envs.files.atomic import write_atomically, write_json
from mage_envs.files.bounded import read_json_inside


class OtherTournament(ValueError):
    """The folder contains a tournament with other settings."""


class Store:
    """Files `folder/settings.json` and `folder/pairings/*.json`, each written atomically.

    A resumed tournament may have additional policies. The constructor raises OtherTournament if a policy is missing or
    if any other setting changed.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        # Through JSON, so that tuples compare equal to the lists that a file contains.
        self._rules: dict[str, Any] = json.loads(json.dumps(settings.rules()))
        path = folder / "settings.json"
        if path.exists():
            self._compare(path, settings)
        content = self._rules | {"policies": settings.policies, "imports": settings.imports}
        write_json(path, content, sort_keys=True)

    def _compare(self, path: Path, settings: Settings) -> None:
        try:
            stored = read_json_inside(self.folder, path.name)
            policies = set(stored.pop("policies"))
            # A policy may be registered by another module than before.
            del stored["imports"]
        except (ValueError, KeyError, AttributeError) as error:
            raise OtherTournament(f"{path} is not readable ({error}); choose another folder.") from error
        differing = sorted(key for key in stored.keys() | self._rules.keys() if stored.get(key) != self._rules.get(key))
        if differing:
            changes = ", ".join(f"{key} {stored.get(key)!r} there, {self._rules.get(key)!r} now" for key in differing)
            raise OtherTournament(
                f"{self.folder} contains a tournament with other settings ({changes}); choose another folder."
            )
        missing = sorted(policies - set(settings.policies))
        if missing:
            raise OtherTournament(
                f"{self.folder} contains a tournament with {', '.join(missing)} too; add them to the policies."
            )

    def _path(self, names: tuple[str, str]) -> Path:
        # The digest makes the name unique: different policies may have the same readable part.
        readable = "--".join(re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] for name in names)
        return self.folder / "pairings" / f"{readable}-{sha256(repr(names).encode()).hexdigest()[:8]}.json"

    def read(self, names: tuple[str, str]) -> Pairing | None:
        """Return the pairing if it was finished here, else None."""
        try:
            data = read_json_inside(self.folder, str(self._path(names).relative_to(self.folder)))
            return Pairing.from_json(data) if data["rules"] == self._rules else None
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self._path(names)} is not readable ({error}); delete it to play it again.") from error

    def write(self, pairing: Pairing) -> None:
        """Write a finished pairing to its file."""
        text = json.dumps({"rules": self._rules, **pairing.to_json()}, separators=(",", ":"))
        write_atomically(self._path(pairing.names), text + "\n")
