"""What the tables of tiny models (zoo.py, zoo_more.py) are made of.

A row gives a module, and the arguments of a call for a batch and a length (of text), the size of images, or frames."""

import dataclasses
import importlib
from typing import Any, Callable

import torch

from models import VOCABULARY

WIDTH = 32
NO_DROPOUT = ("dropout", "hidden_dropout", "hidden_dropout_prob", "attention_dropout", "attention_probs_dropout_prob",
              "resid_pdrop", "embd_pdrop", "attn_pdrop", "activation_dropout", "dropout_rate", "classifier_dropout",
              "drop_path_rate", "embd_dropout", "resid_dropout", "layerdrop", "encoder_layerdrop", "decoder_layerdrop")


class Field(torch.nn.Module):
    """A model of transformers as a function of its arguments that gives one tensor."""

    def __init__(self, model, field, options):
        super().__init__()
        self.model, self.field, self.options = model, field, options

    def forward(self, *args):
        return getattr(self.model(*args, **self.options), self.field)


@dataclasses.dataclass(frozen=True)
class Row:
    make: Callable[[], torch.nn.Module]
    arguments: Callable[[int, int], tuple[Any, ...]]
    sizes: tuple[tuple[int, int], ...] = ((2, 6), (3, 9), (1, 7))  # batch and length of the calls


def ids(batch, length):
    return (torch.randint(3, VOCABULARY, (batch, length)),)


def ids_twice(batch, length):
    return (*ids(batch, length), *ids(batch, length))


def images(batch, size):
    return (torch.randn(batch, 3, size, size),)


IMAGES = ((2, 32), (3, 32), (1, 32))


def hugging(name, head, arguments=ids, field="logits", sizes=None, call=None, **config):
    """Row of a model of transformers: <name><head>, <name>Config."""
    def make():
        transformers = importlib.import_module("transformers")
        made = getattr(transformers, name + "Config")(**config)
        for option in NO_DROPOUT:
            if isinstance(getattr(made, option, None), float):
                setattr(made, option, 0.0)
        return Field(getattr(transformers, name + head)(made), field, call or {})

    return Row(make, arguments, sizes or (IMAGES if arguments is images else Row.sizes))


def text(name, head="ForCausalLM", **config):
    """Row of a model whose config has the usual names."""
    is_decoder = head == "ForCausalLM"
    usual = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 2 * WIDTH, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return hugging(name, head, call={"use_cache": False} if is_decoder else {}, **(usual | config))


def image(name, head="ForImageClassification", sizes=IMAGES, **config):
    return hugging(name, head, images, sizes=sizes, **({"image_size": sizes[0][1], "num_labels": 10} | config))


def vit(name, head="ForImageClassification", **config):
    usual = {"patch_size": 8, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 2 * WIDTH}
    return image(name, head, **(usual | config))


def timm(name, sizes=IMAGES, **options):
    def make():
        import timm
        return timm.create_model(name, pretrained=False, num_classes=10, **options)

    return Row(make, images, sizes)
