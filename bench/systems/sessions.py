"""Sessions over the items of a set, as `voxgate run` makes them, and the wearers that they are enrolled for.

Enrolments and event lists are kept in the evidence cache: nothing is extracted from the same file twice.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voxgate.bench.items import Item, inside, read_manifest, tools_file
from voxgate.bench.systems.cache import EvidenceCache, fingerprint, hash_of_file
from voxgate.calib.clips import read_clip
from voxgate.calib.enrol import EnrolmentRefused, enrol
from voxgate.device.arrays import ArrayProfile, load_array
from voxgate.device.blocks import AudioBlock
from voxgate.device.errors import InputError
from voxgate.device.files import FileSource
from voxgate.models.events import comparable
from voxgate.models.evidence import Recogniser, Signature
from voxgate.models.extractors import Extractors, load_extractors
from voxgate.models.profile import WearerProfile
from voxgate.models.runtime import FLOAT_GRAPH, ModelFolder
from voxgate.models.session import Session
from voxgate.models.settings import GateSettings
from voxgate.models.speaker import SPEAKER_FOLDER
from voxgate.models.tools.schema import ToolSet, load_tools
from voxgate.models.words.bias import enum_words
from voxgate.models.words.moonshine import MoonshineRecogniser, available
from voxgate.models.words.pattern import closed_patterns

MODES = ("wearer", "initiator")
Events = list[dict[str, Any]]


class NotEnrolled(Exception):
    """The wearer of an item could not be enrolled from its clips."""


@dataclass(slots=True)
class Sessions:
    """Opens sessions over the files of a set, with its tools. `float_speaker`: the speaker network in float where it ships in
    int8."""

    folder: Path
    mode: str
    cache: EvidenceCache
    float_speaker: bool = False
    settings: GateSettings = field(default_factory=GateSettings)
    tools: ToolSet = field(init=False)
    _tools_file: Path = field(init=False)
    _extractors: Extractors | None = None
    _hashes: dict[str, str] | None = None
    _profiles: dict[str, WearerProfile | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InputError where the set names a tools file that is missing or none."""
        self._tools_file = tools_file(self.folder)
        self.tools = load_tools(self._tools_file)

    @property
    def extractors(self) -> Extractors:
        """Loaded when first needed: what is in the cache needs none."""
        if self._extractors is None:
            if self.float_speaker:
                with tempfile.TemporaryDirectory() as scratch:
                    folder = _in_float(Path(scratch) / SPEAKER_FOLDER.name)
                    self._extractors = load_extractors(self._recogniser(), folder)
            else:
                self._extractors = load_extractors(self._recogniser())
        return self._extractors

    def _recogniser(self) -> Recogniser:
        if not available():
            raise InputError(
                "no recogniser here, so nothing acts: pip install moonshine-voice==0.0.49, on a system that it has a wheel for"
            )
        return MoonshineRecogniser(enum_words(self.tools), closed_patterns(self.tools))

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "speaker": speaker_facts(self.float_speaker),
            "settings": self.settings.model_dump(mode="json"),
            "tools": hash_of_file(self._tools_file),
            "made_by": fingerprint(),
        }

    def sound(self, item: Item) -> Path:
        """The item's recording. Raises InputError when the set lost it, or holds another than its manifest says."""
        assert item.audio is not None
        return self._file(item.audio)

    def _file(self, name: str) -> Path:
        path = inside(self.folder, name)
        if self._hashes is None:
            try:
                rows = read_manifest(self.folder)
            except FileNotFoundError:
                rows = []
            self._hashes = {
                row["audio"]: row["file_sha256"]
                for row in rows
                if isinstance(row.get("audio"), str) and isinstance(row.get("file_sha256"), str)
            }
        if self._hashes.get(name, hash_of_file(path)) != hash_of_file(path):
            raise InputError(f"{path}: not the sound that the set's manifest tells of; build the set again")
        return path

    def array(self, item: Item) -> ArrayProfile:
        return load_array(item.array)

    def what(self, item: Item) -> dict[str, Any]:
        """What every entry about an item's sound depends on."""
        return {"sound": hash_of_file(self.sound(item)), "array": self.array(item).model_dump(mode="json")}

    def clips(self, item: Item) -> list[Path]:
        """The clips that the wearer is enrolled with; none in initiator mode. Raises InputError without any."""
        if self.mode != "wearer":
            return []
        if not item.enrolment:
            raise InputError(f"{self.folder}: item {item.id} has no clips of its wearer: give --mode initiator")
        return [self._file(clip) for clip in item.enrolment]

    def enrolment(self, item: Item) -> list[str]:
        """Hashes of the clips that the wearer is enrolled with."""
        return [hash_of_file(clip) for clip in self.clips(item)]

    def profile(self, item: Item) -> WearerProfile | None:
        """The enrolled wearer; None in initiator mode. Raises NotEnrolled, InputError."""
        clips = self.enrolment(item)
        if not clips:
            return None
        key = self.cache.key(
            "profile",
            clips=clips,
            array=self.array(item).model_dump(mode="json"),
            speaker=speaker_facts(self.float_speaker),
        )
        if key not in self._profiles:
            self._profiles[key] = self._enrolled(key, item)
        found = self._profiles[key]
        if isinstance(found, str):
            raise NotEnrolled(found)
        return found

    def _enrolled(self, key: str, item: Item) -> WearerProfile | str:
        kept = self.cache.load(key)
        if kept is None:
            clips = [read_clip(path) for path in self.clips(item)]
            try:
                profile = enrol("wearer", clips, self.array(item), self.extractors.speaker).profile
            except EnrolmentRefused as error:
                self.cache.save(key, {"refused": str(error)})
                return str(error)
            self.cache.save(key, *_packed(profile))
            return profile
        facts, arrays = kept
        return str(facts["refused"]) if "refused" in facts else _unpacked(facts, arrays)

    def events_key(self, item: Item, forced: bool = False) -> str:
        """Name of the entry of `events`. Raises InputError."""
        return self.cache.key(
            "events",
            **self.what(item),
            mode="forced" if forced else self.mode,
            enrolment=[] if forced else self.enrolment(item),
            settings=self.settings.model_dump(mode="json"),
            tools=hash_of_file(self._tools_file),
            speaker=speaker_facts(self.float_speaker),
        )

    def events(self, item: Item, forced: bool = False) -> Events:
        """All events of a session over the item, without what depends on the machine. Raises NotEnrolled, InputError.

        `forced`: who and where are taken as granted, as by `voxgate run --force-authorised`.
        """
        key = self.events_key(item, forced)
        kept = self.cache.load(key)
        if kept is not None:
            found: Events = kept[0]["events"]
            return found
        events = self._heard(item, None if forced else self.profile(item), forced)
        self.cache.save(key, {"events": events})
        return events

    def _heard(self, item: Item, profile: WearerProfile | None, forced: bool) -> Events:
        source = FileSource(self.sound(item))
        array = self.array(item)
        try:
            if source.channels != array.channels:
                raise InputError(
                    f"{source.name}: {source.channels} channels, but {array.name} has {array.channels}; build the set again"
                )
            session = Session(
                self.extractors,
                self.settings,
                array,
                self.tools,
                source=hash_of_file(self.sound(item))[:16],  # an entry knows the sound alone, whichever item it is of
                rate=source.rate,
                profile=profile,
                forced=forced,
            )
            events = []
            for part in source.blocks():
                events += session.push(part) if isinstance(part, AudioBlock) else session.fault(part.code, part.message)
            return [comparable(event.record()) for event in events + session.finish()]
        finally:
            source.close()


@functools.cache
def speaker_facts(in_float: bool) -> dict[str, str]:
    """The speaker network: its folder, and which of its graphs is run."""
    model = ModelFolder(SPEAKER_FOLDER)
    graph = FLOAT_GRAPH if in_float else model.graph.relative_to(model.path).as_posix()
    return {"model": SPEAKER_FOLDER.name, "graph": graph, "sha256": hash_of_file(SPEAKER_FOLDER / graph)}


def _in_float(folder: Path) -> Path:
    """A copy of the speaker model whose config names no other graph than the float one."""
    shutil.copytree(SPEAKER_FOLDER, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    plain = {name: value for name, value in config.items() if name not in ("graph", "graph_sha256", "int8")}
    (folder / "config.json").write_text(json.dumps(plain), encoding="utf-8")
    return folder


def _packed(profile: WearerProfile) -> tuple[dict[str, Any], dict[str, Any]]:
    """A profile as facts and arrays."""
    arrays = {"embeddings": profile.embeddings, "centroid": profile.centroid}
    names = (
        "name",
        "model",
        "created",
        "array",
        "channels",
        "device",
        "quality",
        "near",
        "threshold_llr",
        "near_model",
    )
    facts: dict[str, Any] = {name: getattr(profile, name) for name in (*names, "calibration")}
    facts["signature"] = None
    if (signature := profile.signature) is not None:
        facts["signature"] = {"array": signature.array, "channels": signature.channels, "quality": signature.quality}
        arrays |= {f"signature.{name}": tensor for name, tensor in signature.tensors.items()}
    return facts, arrays


def _unpacked(facts: dict[str, Any], arrays: dict[str, Any]) -> WearerProfile:
    told = dict(facts)
    signature = told.pop("signature")
    if signature is not None:
        tensors = {name.removeprefix("signature."): arrays[name] for name in arrays if name.startswith("signature.")}
        signature = Signature(tensors=tensors, **signature)
    return WearerProfile(**told, signature=signature, embeddings=arrays["embeddings"], centroid=arrays["centroid"])
