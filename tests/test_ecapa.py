"""ECAPA-TDNN from SpeechBrain: a network that the tests train, exported, proved, and able to tell voices apart."""

import importlib.util
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests import ecapa_voices as voices
from voxgate.calib.statistics import equal_error_rate
from voxgate.device.errors import InputError
from voxgate.models.ecapa import EcapaEncoder
from voxgate.models.encoders import load_encoder
from voxgate.models.mel import to_level
from voxgate.models.speaker import SPEAKER_FOLDER

pytestmark = pytest.mark.torch
if importlib.util.find_spec("torch") is None or importlib.util.find_spec("speechbrain") is None:
    pytest.skip("needs torch and SpeechBrain: make test-train", allow_module_level=True)

RATE = 16_000


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as SpeechBrain keeps it, of a network trained on voices just now."""
    return voices.train(tmp_path_factory.mktemp("speechbrain") / "small-ecapa")


@pytest.fixture(scope="session")
def parity(trained: Path) -> tuple[Path, dict[str, float]]:
    from voxgate.export.ecapa import export_ecapa

    out = trained.parent / "model"
    return out, export_ecapa(str(trained), out)


@pytest.fixture(scope="session")
def model(parity: tuple[Path, dict[str, float]]) -> Path:
    return parity[0]


@pytest.fixture(scope="session")
def calibrated(model: Path) -> Path:
    """The model with a cohort and a calibration, both of voices that the network was not trained on."""
    from voxgate.calib import comparisons, fit_speaker
    from voxgate.calib.own_cohort import calibrate_speaker

    folder = Path(shutil.copytree(model, model.parent / "calibrated"))
    people = voices.write_speakers(model.parent / "people", voices.held_out_voices()[-20:])
    with pytest.MonkeyPatch.context() as patch:
        for module in (comparisons, fit_speaker):
            patch.setattr(module, "HOMES", 1)  # a third of the time
        calibrate_speaker(folder, people)
    return folder


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "copy"))


@pytest.fixture
def source(trained: Path, tmp_path: Path) -> Path:
    """A copy of the SpeechBrain folder, to be spoilt."""
    return Path(shutil.copytree(trained, tmp_path / "source"))


def one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def test_the_graph_equals_torch_at_five_lengths_and_two_batches(parity: tuple[Path, dict[str, float]]) -> None:
    folder, differences = parity
    assert len(differences) == 10 and len({key.split("x")[1] for key in differences}) == 5
    assert max(differences.values()) <= 1e-4
    config = json.loads((folder / "config.json").read_text())
    assert (config["kind"], config["name"], config["dim"]) == ("ecapa", "small-ecapa", voices.DIM)
    card = (folder / "README.md").read_text()
    assert "voxgate calibrate speaker" in card and f"(batch, frames, {voices.MELS})" in card


def test_the_verb_knows_a_clone_of_a_hub_repository_by_its_hyperparameters(
    voxgate: Callable[..., Any], source: Path, model: Path, tmp_path: Path
) -> None:
    """Such a clone holds a `config.json` too, of another meaning; the graph comes out the same each time."""
    (source / "config.json").write_text('{"speechbrain_interface": "EncoderClassifier"}')
    done = voxgate("export", "speaker", "--from", source, "--out", tmp_path / "out")
    assert done.status == 0, done.err
    assert load_encoder(tmp_path / "out").sha256 == load_encoder(model).sha256
    (source / "embedding_model.ckpt").unlink()
    failed = voxgate("export", "speaker", "--from", source, "--out", tmp_path / "none")
    assert (failed.status, failed.out) == (2, "")
    assert "embedding_model.ckpt" in failed.err and not (tmp_path / "none").exists()


def test_an_embedding_equals_that_of_speechbrains_own_loader(trained: Path, model: Path, tmp_path: Path) -> None:
    """From samples to embedding, front end and normalisation included, at five lengths."""
    from voxgate.models.train.compat import prepare_torchaudio

    prepare_torchaudio()
    import torch
    from speechbrain.inference.speaker import EncoderClassifier

    theirs = EncoderClassifier.from_hparams(source=str(trained), savedir=str(tmp_path / "saved"))
    ours = load_encoder(model)
    sound = np.concatenate([soundfile.read(path)[0] for path in sorted((voices.FIXTURES / "joe").glob("enrol-*.flac"))])
    for seconds in (0.6, 1.0, 1.61, 2.5, 6.0):
        piece = to_level(sound[: round(seconds * RATE)].astype(np.float32), -24.0)
        assert piece is not None
        want = theirs.encode_batch(torch.from_numpy(piece)[None])[0, 0].numpy()
        got = ours.embed(piece)
        assert got is not None and got.shape == (voices.DIM,)
        np.testing.assert_allclose(got, want / np.linalg.norm(want), rtol=0, atol=1e-4)


def test_it_tells_voices_apart_that_it_was_not_trained_on(model: Path) -> None:
    encoder = load_encoder(model)
    size = round(1.6 * RATE)
    vectors, speakers = [], []
    for number, samples in enumerate(voices.held_out_voices()):
        for start in range(0, samples.size - size, size):
            vector = encoder.embed(samples[start : start + size])
            assert vector is not None
            vectors.append(vector)
            speakers.append(number)
    cosines = (np.stack(vectors) @ np.stack(vectors).T).astype(np.float64)
    pairs = np.triu_indices(len(vectors), 1)
    same = (np.array(speakers)[:, None] == np.array(speakers))[pairs]
    assert same.sum() > 50 and (~same).sum() > 1000
    assert equal_error_rate(cosines[pairs][same], cosines[pairs][~same]) < 0.25


@pytest.mark.parametrize("seconds", [0.6, 1.6, 5.99, 6.01, 14.0])
@pytest.mark.parametrize("gain", [0.003, 8.0])
def test_gain_does_not_change_the_voice_at_any_length(model: Path, seconds: float, gain: float) -> None:
    encoder = load_encoder(model)
    sound = soundfile.read(voices.FIXTURES / "heart" / "enrol-1.flac", dtype="float32")[0]
    piece = np.resize(sound[RATE // 2 :], round(seconds * RATE))
    plain, loud = encoder.embed(piece), encoder.embed(piece * np.float32(gain))
    assert plain is not None and loud is not None
    assert np.linalg.norm(plain) == pytest.approx(1, abs=1e-5)
    assert float(plain @ loud) > 0.9999


def test_long_speech_is_heard_to_its_end_in_stretches(model: Path) -> None:
    encoder = load_encoder(model)
    assert isinstance(encoder, EcapaEncoder)
    noise = np.random.default_rng(0).standard_normal(round(14.5 * RATE)).astype(np.float32)
    stretches = list(encoder.inputs(noise))
    assert [frames.shape for frames in stretches] == [(1, 601, voices.MELS)] * 3
    last = list(encoder.inputs(noise[-6 * RATE :]))
    np.testing.assert_allclose(stretches[-1], last[0], atol=0.01)  # the level is that of the whole, a hair different


@pytest.mark.parametrize("fill", [0.0, np.nan, np.inf])
def test_what_holds_no_voice_has_no_vector(model: Path, fill: float) -> None:
    encoder = load_encoder(model)
    assert encoder.embed(np.full(RATE, fill, np.float32)) is None
    noise = np.random.default_rng(0).standard_normal(RATE).astype(np.float32)
    assert encoder.embed(noise[: round(0.6 * RATE) - 1]) is None
    assert encoder.embed(noise[: round(0.6 * RATE)]) is not None
    assert encoder.embed(noise[:, None]) is None
    noise[5000] = fill if fill else np.nan
    assert encoder.embed(noise) is None


def _damage_golden(folder: Path) -> None:
    facts = json.loads((folder / "golden.json").read_text())
    facts["expected"][3] += 0.01
    (folder / "golden.json").write_text(json.dumps(facts))


def _other_graph(folder: Path) -> None:
    shutil.copy(SPEAKER_FOLDER / "onnx" / "model.onnx", folder / "onnx" / "model.onnx")


def _cut_graph(folder: Path) -> None:
    path = folder / "onnx" / "model.onnx"
    path.write_bytes(path.read_bytes()[:5000])


def _config(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        facts = json.loads((folder / "config.json").read_text()) | changes
        (folder / "config.json").write_text(
            json.dumps({name: value for name, value in facts.items() if value != "gone"})
        )

    return change


@pytest.mark.parametrize(
    "damage",
    [
        _damage_golden,
        _other_graph,
        _cut_graph,
        _config(sha256="0" * 64),
        _config(kind="xvector"),
        _config(features={"mels": 24, "loudness": 3}),
        _config(rate=8000, features={"mels": 24, "rate": 8000}),
        _config(longest_seconds="gone"),
        lambda folder: (folder / "config.json").write_text("["),
        lambda folder: (folder / "golden.json").unlink(),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(copy: Path, damage: Callable[[Path], None]) -> None:
    assert load_encoder(copy).dim == voices.DIM  # as it was exported, it holds
    damage(copy)
    with pytest.raises(InputError) as refused:
        load_encoder(copy)
    assert str(copy) in str(refused.value) and "\n" not in str(refused.value)


HARM = "!apply:pathlib.Path.touch [!new:pathlib.Path [{trap}]]"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("std_norm: False", "std_norm: True", "mean_var_norm"),
        ("norm_type: sentence", "norm_type: global", "mean_var_norm"),
        ("n_mels: 24", "n_mels: 2400000", "compute_features"),
        ("n_mels: 24", "n_mels: 25", "embedding_model.ckpt"),
        ("n_mels: 24", f"n_mels: {HARM}", "compute_features: n_mels"),
        ("n_mels: !ref <n_mels>", "n_mels: !ref <n_mels> * 2", "!ref <name>"),
        ("n_mels: !ref <n_mels>", "n_mels: 40\n    deltas: True", "deltas"),
        ("features.Fbank", "features.MFCC", "compute_features"),
        ("ECAPA_TDNN.ECAPA_TDNN", "Xvector.Xvector", "embedding_model"),
        ("!new:speechbrain.lobes.features.Fbank", "!apply:os.makedirs", "compute_features"),
        ("embedding_model: !new:", "other_model: !new:", "no embedding_model"),
        ("lin_neurons: 64", "lin_neurons: 100", "embedding_model.ckpt"),
        ("lin_neurons: 64", "lin_neurons: 64000000", "lin_neurons"),
        ("channels: [32, 32", "channels: [33, 33", "embedding_model"),
        ("dilations: [1, 2, 3, 4, 1]", "dilations: [1, 2]", "embedding_model"),
        ("lin_neurons: 64", "lin_neurons: 64\n    activation: !name:torch.nn.GELU", "activation"),
        ("lin_neurons: 64", "lin_neurons: 64\n    tricks: 1", "tricks"),
        ("n_mels: 24", "n_mels: 24\nn_mels: 24", "twice"),
        ("n_mels: 24", "n_mels: [24", "YAML"),
        ("n_mels: 24", "n_mels: !!python/object/apply:os.getcwd []", "n_mels"),
    ],
)
def test_what_is_not_supported_is_said_in_one_line_and_not_run(source: Path, old: str, new: str, said: str) -> None:
    from voxgate.export.ecapa import export_ecapa

    path, trap = source / "hyperparams.yaml", source / "ran"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new.format(trap=trap), 1))
    with pytest.raises(InputError) as refused:
        export_ecapa(str(source), source / "out")
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not trap.exists() and not (source / "out").exists()


def test_what_is_of_no_concern_is_not_run_either(source: Path) -> None:
    from voxgate.export.ecapa import export_ecapa

    path, trap = source / "hyperparams.yaml", source / "ran"
    path.write_text(f"__set_up: {HARM.format(trap=trap)}\n{path.read_text()}\nmore: !include:other.yaml\n")
    assert max(export_ecapa(str(source), source / "out").values()) <= 1e-4
    assert not trap.exists()


class _Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize(
    "content", ["trap", b"", b"not weights", b"PK\x03\x04 broken", "list", "nan", "missing", "absent"]
)
def test_a_checkpoint_that_is_not_the_networks_tensors_is_refused(source: Path, content: str | bytes) -> None:
    import torch

    from voxgate.export.ecapa import export_ecapa

    path = source / "embedding_model.ckpt"
    state = torch.load(path, weights_only=True)
    if content == "trap":
        path.write_bytes(pickle.dumps({"blocks": _Trap(source / "ran")}))
    elif content == "list":
        torch.save([1, 2], path)
    elif content == "nan":
        torch.save(state | {"fc.conv.bias": torch.full((voices.DIM,), float("nan"))}, path)
    elif content == "missing":
        del state["fc.conv.bias"]
        torch.save(state, path)
    elif content == "absent":
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"embedding_model\.ckpt") as refused:
        export_ecapa(str(source), source / "out")
    assert "\n" not in str(refused.value)
    assert not (source / "ran").exists() and not (source / "out").exists()


@pytest.mark.parametrize("name", ["nobody/no-such-model", "nowhere", "/no/such/folder"])
def test_a_source_that_is_nowhere_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from voxgate.export.ecapa import export_ecapa

    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nobody answers there
    with pytest.raises(InputError, match="no such folder") as refused:
        export_ecapa(name, tmp_path / "out")
    assert name in str(refused.value) and "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


def test_enrol_verify_and_refuse_across_models(voxgate: Callable[..., Any], calibrated: Path) -> None:
    joe = [voices.FIXTURES / "joe" / f"enrol-{number}.flac" for number in (1, 2, 3)]
    asked = [voices.FIXTURES / "joe" / "enrol-4.flac", voices.FIXTURES / "heart" / "enrol-4.flac"]
    with_ecapa = ("--speaker-model", calibrated)

    done = voxgate("enroll", "joe", *joe, *with_ecapa, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["model"] == "small-ecapa"
    checked = voxgate("verify", "joe", *asked, *with_ecapa, "--json")
    assert checked.status == 0, checked.err
    own, other = json.loads(checked.out)
    assert own["llr"] > 0 > other["llr"] and other["decision"] == "other"
    again = voxgate("verify", "joe", *asked, "--json", env={"VOXGATE_SPEAKER_MODEL": str(calibrated)})
    assert json.loads(again.out) == [own, other]

    for verb in ("verify", "run"):
        arguments = ("joe", asked[0]) if verb == "verify" else (asked[0], "--wearer", "joe")
        foreign = voxgate(verb, *arguments)
        assert (foreign.status, foreign.out) == (2, "")
        line = one_line(foreign.err)
        assert "small-ecapa" in line and "speaker-" in line and "enrol joe again" in line

    assert voxgate("enroll", "jo", *joe).status == 0  # with the model that ships
    foreign = voxgate("verify", "jo", asked[0], *with_ecapa)
    assert foreign.status == 2
    assert "small-ecapa" in one_line(foreign.err) and "enrol jo again" in foreign.err


def test_a_calibration_says_what_it_rests_on(calibrated: Path) -> None:
    facts = json.loads((calibrated / "calibration.json").read_text())
    assert facts["model"]["name"] == "small-ecapa"
    assert facts["cohort"]["speakers"] >= 10 and facts["data"]["speakers"] >= 10
    rows = [row for row in facts["default_threshold"]["measured"]["wearer"]["snr_known"] if row["condition"] == "clean"]
    assert all(row["same"] > 0 and row["other"] > 0 for row in rows if row["seconds"] <= 1.6)
    assert not (calibrated / ".calibrating").exists()
