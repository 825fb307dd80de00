"""An ONNX node as a formula: which function translates which node, and why the others have none."""
import numpy as np
import onnx
from onnx import numpy_helper

import elementwise as e
import movement as m
import products as p
import resample as r
from formula import Tensor, Untranslatable, refuse

TABLE = {**{op: e.elementwise for op in [*e.UNARY, *e.BINARY, "Max", "Min", "Sum", "Mean", "Div", "Mod", "BitShift", "IsInf", "Gelu", "Clip"]},
         **{op: e.reduction for op in [*e.REDUCE, *e.REDUCED, "ReduceLogSumExp"]},
         **{op: e.arg_reduction for op in ("ArgMax", "ArgMin")}, **{op: e.softmax for op in ("Softmax", "LogSoftmax", "Hardmax")},
         **{op: e.scan for op in ("CumSum", "CumProd")}, **{op: e.layer_norm for op in ("LayerNormalization", "RMSNormalization")},
         **{op: e.channel_norm for op in ("BatchNormalization", "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization",
                                          "LpNormalization", "LRN")},
         **{op: m.reshape for op in ("Reshape", "Flatten", "Squeeze", "Unsqueeze")}, "Transpose": m.transpose, "Concat": m.concat,
         "Split": m.split, "Slice": m.slice_, "Pad": m.pad, "Gather": m.gather, "GatherElements": m.gather_elements, "GatherND": m.gather_nd,
         **{op: m.scatter for op in ("ScatterElements", "ScatterND", "Scatter")}, "OneHot": m.one_hot, "TopK": m.top_k,
         **{op: m.generated for op in ("Range", "EyeLike", "ConstantOfShape", "Shape", "Size", "HannWindow", "HammingWindow", "BlackmanWindow")},
         **{op: m.positional for op in ("Trilu", "Tile", "Expand", "ReverseSequence", "DepthToSpace", "SpaceToDepth", "CenterCropPad",
                                        "Dropout", "Compress")},
         "MatMul": p.matmul, "MatMulInteger": p.matmul_integer, "Gemm": p.gemm, "Einsum": p.einsum,
         **{op: p.convolution for op in ("Conv", "ConvInteger", "QLinearConv")}, "ConvTranspose": p.convolution_transposed,
         **{op: p.pool for op in ("AveragePool", "MaxPool", "LpPool", "GlobalAveragePool", "GlobalMaxPool")},
         **{op: p.loss for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")},
         **{op: p.quantize for op in ("QuantizeLinear", "DequantizeLinear")}, "DynamicQuantizeLinear": p.dynamic_quantize,
         "QLinearMatMul": p.qlinear_matmul, **{op: p.optimizer for op in ("Adagrad", "Adam", "Momentum")}, "Attention": p.attention,
         "RotaryEmbedding": p.rotary, "Resize": r.resize, "Upsample": r.resize, "DFT": r.fourier, "GridSample": r.grid_sample,
         "CausalConvWithState": r.causal_convolution, "Col2Im": r.col2im, "AffineGrid": r.affine_grid, "MaxUnpool": r.max_unpool,
         "Det": r.determinant, "STFT": r.short_fourier, "TensorScatter": r.tensor_scatter, "SwiGLU": r.swiglu, "BitCast": r.bit_cast,
         "LinearAttention": r.linear_attention, "RoiAlign": r.roi_align, "DeformConv": r.deform_conv,
         "ArrayFeatureExtractor": m.array_feature_extractor}

SEQUENTIAL = "steps that depend on each other"
SELECTS = "how many results there are depends on the values"
TEXTS = "texts"
LISTS = "sequences, maps or optional values instead of tensors"
REASONS = {**dict.fromkeys(("LSTM", "GRU", "RNN", "Scan", "Loop", "If"), SEQUENTIAL),
           **dict.fromkeys(("NonMaxSuppression", "NonZero", "Unique"), SELECTS),
           **dict.fromkeys(("StringSplit", "StringNormalizer", "StringConcat", "RegexFullMatch", "TfIdfVectorizer", "LabelEncoder"), TEXTS),
           **dict.fromkeys(("OptionalHasElement", "OptionalGetElement", "SequenceMap", "SequenceInsert", "SplitToSequence"), LISTS),
           **dict.fromkeys(("Bernoulli",), "random numbers"), "ImageDecoder": "files of images",
           "Constant": "a tensor of constants", "FlexAttention": "graphs inside a node",
           **dict.fromkeys(("MelWeightMatrix", "TreeEnsemble"), "not translated")}


class Node:
    """A node with its values; x are inputs, y outputs, None where one is left out."""

    def __init__(self, case):
        graph, (inputs, outputs) = case.model.graph, case.data_sets[0]
        node = graph.node[0]
        values = {i.name: v for i, v in zip(graph.input, inputs)} | {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.expected = {o.name: v for o, v in zip(graph.output, outputs)}
        for group in (values, self.expected):
            group.update({k: numpy_helper.to_array(v) for k, v in group.items() if isinstance(v, onnx.TensorProto)})
        for v in [*values.values(), *self.expected.values()]:
            if not isinstance(v, (np.ndarray, np.generic)):
                refuse(LISTS)
            if v.dtype == object or v.dtype.kind in "SU":
                refuse(TEXTS)
        self.op, self.opset = node.op_type, case.model.opset_import[0].version
        self.attributes = {a.name: self.attribute(a) for a in node.attribute}
        self.x = [Tensor(f"X{k}", values[name]) if name else None for k, name in enumerate(node.input)]
        self.y = [Tensor(f"Y{k}", np.zeros_like(self.expected[name])) if name else None for k, name in enumerate(node.output)]
        self.names = {f"Y{k}": name for k, name in enumerate(node.output) if name}
        while self.y and self.y[-1] is None:
            self.y.pop()

    @staticmethod
    def attribute(a):
        value = onnx.helper.get_attribute_value(a)
        return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value

    def start(self, y, x):
        """The output holds the input before the call."""
        y.array[...] = x.array

    def keep(self, *which):
        """Says which inputs the formula reads; the others only shaped it."""

    def drop(self, *which):
        """Says which inputs the formula does not read."""

    def arrays(self):
        return {t.name: np.ascontiguousarray(t.array) if t.rank else t.array.reshape(()) for t in [*self.x, *self.y] if t is not None}


def translate(case):
    """(formula, node); Untranslatable with the reason where there is none."""
    graph = case.model.graph
    op = graph.node[0].op_type
    if op in REASONS:
        refuse(REASONS[op])
    node = Node(case)
    if op not in TABLE:
        refuse("not translated")
    return TABLE[op](node), node
