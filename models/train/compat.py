"""Lets SpeechBrain be imported where torch is a CPU build.

SpeechBrain imports torchaudio. The wheels of torchaudio are linked against one build of torch; beside another (a CUDA wheel
beside a CPU torch, the common case on a machine without a graphics card) its shared library cannot be loaded and the import
fails, although nothing that is used here needs that library: resampling and features are plain Python over torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from voxgate.device.errors import InputError

_EXTENSION = "torchaudio._extension"


def prepare_torchaudio() -> str:
    """Make `import torchaudio` work; call it before SpeechBrain is imported, as often as you like.

    Returns `native` when torchaudio loads as it is and `python` when it runs without its shared library. Raises InputError
    when torch or torchaudio is not installed.
    """
    loaded = sys.modules.get("torchaudio")
    if loaded is not None:
        _settle_lazy_modules()
        return "python" if getattr(sys.modules.get(_EXTENSION), "voxgate_stand_in", False) else "native"
    spec = importlib.util.find_spec("torchaudio")
    if spec is None or spec.origin is None or importlib.util.find_spec("torch") is None:
        raise InputError("training needs torch, torchaudio and SpeechBrain: pip install 'voxgate[train]'")
    try:
        importlib.import_module("torchaudio")
        _settle_lazy_modules()
        return "native"
    except (OSError, ImportError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
            del sys.modules[name]
    sys.modules[_EXTENSION] = _without_library(Path(spec.origin).parent / "_extension")
    try:
        importlib.import_module("torchaudio")
    except (OSError, ImportError) as error:
        del sys.modules[_EXTENSION]
        raise InputError(f"torchaudio does not load beside this torch ({str(error).splitlines()[0]})") from error
    _settle_lazy_modules()
    return "python"


def _settle_lazy_modules() -> None:
    """Give SpeechBrain's lazy modules an empty `__file__`.

    It registers modules that import optional packages when they are first asked for anything; whoever goes through the loaded
    modules (test runners do, for their source files) asks them for `__file__` and is met by that import's failure.
    """
    if importlib.util.find_spec("speechbrain") is None:
        return
    importlib.import_module("speechbrain")
    for module in list(sys.modules.values()):
        if any(kind.__name__ == "LazyModule" for kind in type(module).__mro__):
            vars(module).setdefault("__file__", None)


def _without_library(folder: Path) -> types.ModuleType:
    """A module in place of torchaudio's loader that says of every part of the shared library that it is not there."""
    module: Any = types.ModuleType(_EXTENSION)
    module.__path__ = [str(folder)]
    module.voxgate_stand_in = True
    module._IS_TORCHAUDIO_EXT_AVAILABLE = False
    module._IS_ALIGN_AVAILABLE = False
    module._IS_RIR_AVAILABLE = False
    module._check_cuda_version = lambda: None
    module.fail_if_no_align = _refusing("forced alignment")
    module.fail_if_no_rir = _refusing("simulated responses")
    return module  # type: ignore[no-any-return]


def _refusing(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator in torchaudio's manner: the function is there, and calling it says what is missing."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise RuntimeError(f"{function.__name__}: torchaudio runs without its shared library, so without {what}")

        return refuse

    return decorate
