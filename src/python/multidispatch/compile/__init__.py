"""Graphs of PyTorch as plans: the backend of torch.compile, md.capture, md.package, md.explain_graph. Needs PyTorch."""

from .backend import backend
from .capture import Captured, capture
from .packing import package
from .report import explain_graph, wait_graphs

__all__ = ["Captured", "backend", "capture", "explain_graph", "package", "wait_graphs"]
