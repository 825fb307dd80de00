"""Real models of transformers and timm by config with random weights: for test_models.py and tools/bench_models.py.
Each function gives a module that takes one tensor (ids or images) and returns one tensor."""

import torch

VOCABULARY = 96


class Output(torch.nn.Module):
    """A model of transformers as a function of its ids that returns one field of the result."""

    def __init__(self, model, field, **options):
        super().__init__()
        self.model, self.field, self.options = model, field, options

    def forward(self, ids):
        # Without positions the models ask whether the batch is 1, and PyTorch makes a graph of its own for it.
        positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
        return getattr(self.model(ids, position_ids=positions, **self.options), self.field)


class Logits(torch.nn.Module):
    """A model of transformers as a function of its first argument."""

    def __init__(self, model, **options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x):
        return self.model(x, **self.options).logits


class Seq2Seq(torch.nn.Module):
    """T5: the same ids to the encoder and to the decoder."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, decoder_input_ids=ids, use_cache=False).logits


def llama(layers=2, width=64):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=width, intermediate_size=width * 2,
                         num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)
    return Output(LlamaForCausalLM(config), "logits", use_cache=False)


def qwen2(layers=2, width=64):
    from transformers import Qwen2Config, Qwen2ForCausalLM
    config = Qwen2Config(vocab_size=VOCABULARY, hidden_size=width, intermediate_size=width * 2,
                         num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=128)
    return Output(Qwen2ForCausalLM(config), "logits", use_cache=False)


def gpt2(layers=2, width=64):
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=VOCABULARY, n_embd=width, n_layer=layers, n_head=4, n_positions=128, resid_pdrop=0.0,
                        embd_pdrop=0.0, attn_pdrop=0.0)
    return Output(GPT2LMHeadModel(config), "logits", use_cache=False)


def bert(layers=2, width=64):
    from transformers import BertConfig, BertForMaskedLM
    config = BertConfig(vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
                        intermediate_size=width * 2, max_position_embeddings=128, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0)
    return Output(BertForMaskedLM(config), "logits")


def t5(layers=2, width=64):
    from transformers import T5Config, T5ForConditionalGeneration
    config = T5Config(vocab_size=VOCABULARY, d_model=width, d_kv=16, d_ff=width * 2, num_layers=layers, num_heads=4,
                      dropout_rate=0.0, decoder_start_token_id=0)
    return Seq2Seq(T5ForConditionalGeneration(config))


def bloom(layers=2, width=64):
    from transformers import BloomConfig, BloomForCausalLM
    return Logits(BloomForCausalLM(BloomConfig(vocab_size=VOCABULARY, hidden_size=width, n_layer=layers, n_head=4,
                                               hidden_dropout=0.0, attention_dropout=0.0)), use_cache=False)


def deberta(layers=2, width=64):
    from transformers import DebertaV2Config, DebertaV2ForMaskedLM
    return Logits(DebertaV2ForMaskedLM(DebertaV2Config(
        vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
        intermediate_size=width * 2, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"],
        norm_rel_ebd="layer_norm", share_att_key=True, max_position_embeddings=64, position_biased_input=False,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)))


def swin(layers=2, width=16):
    """Windows that are cut, shifted and padded."""
    from transformers import SwinConfig, SwinForImageClassification
    return Logits(SwinForImageClassification(SwinConfig(
        image_size=64, patch_size=4, embed_dim=width, depths=[layers, layers], num_heads=[2, 4], window_size=3,
        hidden_dropout_prob=0.0, drop_path_rate=0.0, num_labels=10)))


def vit(layers=2, width=64):
    from timm.models.vision_transformer import VisionTransformer
    return VisionTransformer(img_size=32, patch_size=8, embed_dim=width, depth=layers, num_heads=4, num_classes=10)


def convnext(layers=1, width=16):
    from timm.models.convnext import ConvNeXt
    return ConvNeXt(depths=(layers,) * 4, dims=(width, width * 2, width * 2, width * 4), num_classes=10)


LANGUAGE = {"llama": llama, "gpt2": gpt2, "bert": bert, "qwen2": qwen2, "t5": t5, "bloom": bloom, "deberta": deberta}
VISION = {"vit": vit, "convnext": convnext, "swin": swin}


def make(name, seed=18):
    """The model in evaluation mode, its weights drawn anew with the scale that trained ones have: a fresh model's head
    is often zero, and a comparison would see nothing."""
    torch.manual_seed(seed)
    model = (LANGUAGE | VISION)[name]().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.5 / p.shape[-1] ** 0.5 if p.dim() > 1 else 0.1))
    return model


def inputs(name, batch, length):
    """Ids of `batch` x `length`; images for a vision model."""
    if name in VISION:
        return torch.randn(batch, 3, *((32, 32) if name == "vit" else (64, 64)))
    return torch.randint(1, VOCABULARY, (batch, length))
