"""Where state lives: `VOXGATE_HOME` when it is set, else the platform's usual user folders."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

APP = "voxgate"


def _folder(kind: str) -> Path:
    override = os.environ.get("VOXGATE_HOME")
    if override:
        return Path(override) / kind
    dirs = platformdirs.PlatformDirs(APP, appauthor=False)
    return Path({"config": dirs.user_config_dir, "data": dirs.user_data_dir, "state": dirs.user_state_dir}[kind])


def config_file() -> Path:
    """The settings file, which need not exist."""
    return _folder("config") / "config.toml"


def wearers_folder() -> Path:
    """One folder a wearer."""
    return _folder("data") / "wearers"


def ledger_file() -> Path:
    """The ledger of executed acts, one JSON line before and one after each."""
    return _folder("state") / "acts.jsonl"
