"""Tells PyTorch of the backend "multidispatch" where the package is imported, but no installed entry point says it."""

import importlib.metadata
import sys

_GROUP, _NAME, _VALUE = "torch_dynamo_backends", "multidispatch", "multidispatch.compile:backend"


class _Package(importlib.metadata.Distribution):
    """What an installed package's folder of metadata would say."""

    def __init__(self, version):
        self._texts = {"METADATA": f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n",
                       "entry_points.txt": f"[{_GROUP}]\n{_NAME} = {_VALUE}\n"}

    def read_text(self, filename):
        return self._texts.get(filename)

    def locate_file(self, path):
        return path


class _Finder:
    """A finder of metadata, appended to sys.meta_path so that an installed package's metadata are found first."""

    def __init__(self, version):
        self._package = _Package(version)

    @staticmethod
    def find_spec(name, path=None, target=None):
        del name, path, target

    def find_distributions(self, context):
        return [self._package] if context.name in (None, _NAME) else []


def _backend(module, inputs, **options):
    from .compile import backend  # imports all of PyTorch's compiler
    return backend(module, inputs, **options)


def register(version):
    """Imports nothing of PyTorch's, which may be imported later, or never."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder(version))
    registry = sys.modules.get("torch._dynamo.backends.registry")
    # PyTorch asks for entry points once. Where it may have done so, the function itself is registered.
    if registry and _NAME not in registry._COMPILER_FNS and _NAME not in registry._BACKENDS:
        registry.register_backend(_backend, name=_NAME)
