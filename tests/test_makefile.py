"""The set-up recovers from a failure, does nothing twice, and never needs what only live capture needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the Makefile whose `.venv` holds a stand-in for Python: it notes its arguments and ends as told."""
    folder = tmp_path / "checkout"
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    _program(folder / ".venv/bin/python", 'echo "$@" >> calls; exit $(cat status)')
    return folder


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def _make(folder: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    if path is not None:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_a_failed_installation_is_tried_again_and_a_good_one_is_not(checkout: Path) -> None:
    (checkout / "status").write_text("1")
    assert _make(checkout, ".venv/.dev").returncode != 0
    assert not (checkout / ".venv/.dev").exists() and not (checkout / ".venv/.core").exists()

    (checkout / "status").write_text("0")
    assert _make(checkout, ".venv/.dev").returncode == 0
    assert _make(checkout, ".venv/.dev", ".venv/.core").returncode == 0
    calls = (checkout / "calls").read_text().splitlines()
    assert calls == ["-m pip install -q -e .[dev,bench]"] * 2

    stamp = (checkout / ".venv/.dev").stat().st_mtime
    os.utime(checkout / "pyproject.toml", (stamp + 10, stamp + 10))
    assert _make(checkout, ".venv/.core").returncode == 0
    assert len((checkout / "calls").read_text().splitlines()) == 3


def test_a_python_of_another_version_is_refused_with_the_remedy(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    _program(tmp_path / "old-python", "exit 1")
    result = _make(checkout, f"PYTHON={tmp_path / 'old-python'}", ".venv/.core")
    assert result.returncode != 0
    assert "make PYTHON=" in result.stderr
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(("user", "works"), [("1000", False), ("0", True), ("0", False)])
def test_debian_packages_are_installed_or_named_and_never_in_the_way(
    checkout: Path, tmp_path: Path, user: str, works: bool
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    _program(
        programs / "dpkg-query", 'case "$*" in *pulseaudio-utils*) printf "install ok installed";; *) exit 1;; esac'
    )
    _program(programs / "id", f"echo {user}")
    _program(programs / "apt-get", f'echo "$@" >> {tmp_path / "apt"}; exit {0 if works else 1}')
    result = _make(checkout, "apt", path=programs)
    assert result.returncode == 0, result.stderr
    named = "live capture needs libportaudio2 pulseaudio libasound2-plugins" in result.stdout
    assert named == (not works)
    asked = (tmp_path / "apt").read_text().splitlines() if (tmp_path / "apt").exists() else []
    assert bool(asked) == (user == "0")
    assert sum("update" in line.split() for line in asked) == (user == "0" and not works)


def test_where_there_is_no_dpkg_nothing_is_said(checkout: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("make", "sh", "bash"):
        found = shutil.which(name)
        if found:
            (programs / name).symlink_to(found)
    environment = {"PATH": str(programs)}
    result = subprocess.run(
        ["make", "--no-print-directory", "apt"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (0, "")


def test_help_names_every_target(checkout: Path) -> None:
    shown = _make(checkout, "help").stdout
    for target in ("demo", "test", "test-train", "lint", "types", "wheel", "apt", "clean"):
        assert f"make {target} " in shown


@pytest.mark.parametrize("target", ["train-speaker", "train-distance"])
def test_training_without_recordings_is_refused_before_anything_is_installed(checkout: Path, target: str) -> None:
    (checkout / "status").write_text("0")
    found = _make(checkout, target, "DATA=/nowhere")
    assert found.returncode != 0
    assert f"make {target} DATA=" in found.stderr
    assert not (checkout / "calls").exists()


def test_training_of_the_speaker_network_installs_its_voices_and_runs_the_verb(checkout: Path) -> None:
    (checkout / "status").write_text("0")
    _program(checkout / ".venv/bin/voxgate", 'echo "voxgate $@" >> calls')
    (checkout / "recordings").mkdir()
    assert _make(checkout, "train-speaker", "DATA=recordings", "OUT=here").returncode == 0
    calls = (checkout / "calls").read_text().splitlines()
    assert "voices" in calls[-2]
    assert calls[-1] == "voxgate train speaker --data recordings --out here"
