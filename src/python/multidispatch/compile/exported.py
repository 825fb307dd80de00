"""Programs in the files of torch.export: what md.capture made a plan of, as it was before, and back."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import torch

from .. import ArgumentError, __version__
from .options import Options

_BESIDE = "multidispatch.json"  # a file in the archive, which torch.export.load passes over


def save(program: Any, options: Options, path: str | os.PathLike[str]) -> None:
    given = {k: v for k, v in dataclasses.asdict(options).items() if v != getattr(Options(), k)}
    torch.export.save(program, os.fspath(path), extra_files={_BESIDE: json.dumps({"version": __version__, "options": given})})


def load(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The program, and the options that it was saved with."""
    path = os.fspath(path)
    with open(path, "rb"):  # what cannot be read is the system's error
        pass
    beside = {_BESIDE: ""}
    try:
        program = torch.export.load(path, extra_files=beside)
        options = json.loads(beside[_BESIDE])["options"] if beside[_BESIDE] else {}
    except Exception as error:  # there are as many kinds as ways to fail
        why = str(error).partition("\n")[0] or type(error).__name__
        raise ArgumentError(f"md.capture: torch.export cannot load {path!r} (PyTorch {torch.__version__}): {why}") from error
    return program, options
