"""What the tests with PyTorch share: the device, MD_TEST_TORCH_DEVICE ("cpu" without it), and PyTorch's own tests."""

import importlib
import importlib.util
import os
import sys
import types
import unittest

import torch

DEVICE = os.environ.get("MD_TEST_TORCH_DEVICE", "cpu")
IS_CUDA = DEVICE.startswith("cuda")
EFFORT = int(os.environ.get("TEST_EFFORT", "1"))

if IS_CUDA and not torch.cuda.is_available():
    sys.exit(f"MD_TEST_TORCH_DEVICE={DEVICE}, but PyTorch finds no GPU")


def database(module):
    """A module of torch.testing._internal. The class that expecttest gives to their base is of no use here."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
    return importlib.import_module("torch.testing._internal." + module)
