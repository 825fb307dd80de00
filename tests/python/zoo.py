"""Many tiny models of transformers, timm and our own, by config with random weights: for test_zoo.py and tools/model_table.py."""

import copy

import torch

import models
import zoo_full
import zoo_kinds
import zoo_more
import zoo_wide
from models import VOCABULARY
from zoo_rows import IMAGES, WIDTH, Row, hugging, ids, image, images, text, timm, vit


def _mixer():
    from timm.models.mlp_mixer import MlpMixer
    return MlpMixer(img_size=32, patch_size=8, embed_dim=WIDTH, num_blocks=2, num_classes=10)


# ---- Models of our own

class Recurrent(torch.nn.Module):
    """A language model of LSTM cells or GRU cells, its steps written out."""

    def __init__(self, cell):
        super().__init__()
        self.embed, self.cell = torch.nn.Embedding(VOCABULARY, WIDTH), cell(WIDTH, WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x, state, out = self.embed(ids), None, []
        for step in range(4):
            state = self.cell(x[:, step], state)
            out.append(state[0] if isinstance(state, tuple) else state)
        return self.head(torch.stack(out, 1))


class Recommender(torch.nn.Module):
    """Bags of embeddings and a product of each two of them, as in DLRM."""

    def __init__(self):
        super().__init__()
        self.bags = torch.nn.ModuleList(torch.nn.EmbeddingBag(50, 8, mode=m) for m in ("sum", "mean", "sum"))
        self.dense, self.top = torch.nn.Linear(5, 8), torch.nn.Sequential(
            torch.nn.Linear(8 + 6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def forward(self, x, ids):
        parts = torch.stack([torch.relu(self.dense(x)), *(bag(ids) for bag in self.bags)], 1)
        pairs = (parts @ parts.transpose(1, 2))[:, *torch.triu_indices(4, 4, 1)]
        return self.top(torch.cat([parts[:, 0], pairs], 1))


class GraphNetwork(torch.nn.Module):
    """Messages along edges, added at their ends."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(2))

    def forward(self, x, source, target):
        for layer in self.layers:
            message = layer(x)[source]
            count = torch.zeros(x.shape[0], dtype=x.dtype).index_add(0, target, torch.ones_like(target, dtype=x.dtype))
            x = torch.relu(torch.zeros_like(x).index_add(0, target, message) / count.clamp(min=1)[:, None] + x)
        return x


class Block(torch.nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.body = torch.nn.Sequential(conv(inside, outside, 3, stride, 1, bias=False), norm(outside), torch.nn.ReLU(),
                                        conv(outside, outside, 3, 1, 1, bias=False), norm(outside))
        self.skip = torch.nn.Sequential(conv(inside, outside, 1, stride, bias=False), norm(outside))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class Unet(torch.nn.Module):
    """Of a diffusion model: group norms, a time, a way up and down."""

    def __init__(self):
        super().__init__()
        self.time = torch.nn.Linear(16, 16)
        self.first, self.down = torch.nn.Conv2d(3, 16, 3, 1, 1), torch.nn.Conv2d(16, 32, 3, 2, 1)
        self.norm, self.middle = torch.nn.GroupNorm(4, 32), torch.nn.Conv2d(32, 32, 3, 1, 1)
        self.up, self.last = torch.nn.ConvTranspose2d(32, 16, 2, 2), torch.nn.Conv2d(32, 3, 1)

    def forward(self, x, t):
        place = torch.arange(8) * -1.2
        wave = t[:, None].to(x.dtype) * place.exp().to(x.dtype)
        time = self.time(torch.cat([wave.sin(), wave.cos()], -1))
        a = torch.nn.functional.silu(self.first(x)) + time[:, :, None, None]
        b = self.middle(torch.nn.functional.silu(self.norm(self.down(a))))
        b = torch.nn.functional.interpolate(self.up(b), size=a.shape[-2:], mode="nearest")
        return self.last(torch.cat([a, b], 1))


class Own(torch.nn.Module):
    """A decoder with rotary embeddings as complex numbers, and one scan."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.head, self.decay = torch.nn.Linear(WIDTH, VOCABULARY), torch.nn.Parameter(torch.rand(WIDTH))

    def forward(self, ids):
        b, n = ids.shape
        q, k, v = self.qkv(self.embed(ids)).view(b, n, 3, 4, 8).unbind(2)
        angle = torch.arange(n)[:, None] / 10.0 ** torch.arange(4)
        turn = torch.polar(torch.ones_like(angle), angle)[:, None]

        def turned(x):
            pairs = torch.view_as_complex(x.float().reshape(b, n, 4, 4, 2).contiguous())
            return torch.view_as_real(pairs * turn).flatten(3).to(x.dtype)

        y = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in (turned(q), turned(k), v)), is_causal=True)
        y = y.transpose(1, 2).reshape(b, n, WIDTH)
        return self.head(torch.einsum("btd,d->btd", y.cumsum(1), self.decay.sigmoid()))


def _own(make, arguments, sizes=Row.sizes):
    return Row(make, arguments, sizes)


def _edges(n, k):
    return torch.randn(n + 3, 16), torch.randint(0, n + 3, (k * 4,)), torch.randint(0, n + 3, (k * 4,))


ZOO = {
    "mistral": text("Mistral", num_key_value_heads=2, head_dim=8, sliding_window=4),
    "gemma2": text("Gemma2", num_key_value_heads=2, head_dim=8),
    "gemma": text("Gemma", num_key_value_heads=2, head_dim=8),
    "phi": text("Phi"),
    "phi3": text("Phi3"),
    "falcon": text("Falcon", bos_token_id=1, eos_token_id=2),
    "gpt_neox": text("GPTNeoX"),
    "gptj": hugging("GPTJ", "ForCausalLM", call={"use_cache": False}, vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2,
                     n_head=4, n_positions=64, rotary_dim=4),
    "opt": text("OPT", ffn_dim=2 * WIDTH, word_embed_proj_dim=WIDTH),
    "stablelm": text("StableLm", num_key_value_heads=4),
    "starcoder2": text("Starcoder2", num_key_value_heads=2),
    "cohere": text("Cohere"),
    "olmo2": text("Olmo2"),
    "qwen3": text("Qwen3", num_key_value_heads=2, head_dim=8),
    "mpt": hugging("Mpt", "ForCausalLM", call={"use_cache": False}, vocab_size=VOCABULARY, d_model=WIDTH, n_layers=2,
                    n_heads=4, max_seq_len=64),
    "mixtral": text("Mixtral", num_key_value_heads=2, num_local_experts=4),
    "olmoe": text("Olmoe", num_experts=4, num_experts_per_tok=2),
    "mamba": hugging("Mamba", "ForCausalLM", call={"use_cache": False}, vocab_size=VOCABULARY, hidden_size=WIDTH,
                      num_hidden_layers=2, state_size=4, sizes=((2, 6), (3, 6))),
    "roberta": text("Roberta", "ForMaskedLM", max_position_embeddings=66),
    "electra": text("Electra", "ForMaskedLM", embedding_size=WIDTH),
    "albert": text("Albert", "ForMaskedLM", embedding_size=WIDTH),
    "distilbert": hugging("DistilBert", "ForMaskedLM", vocab_size=VOCABULARY, dim=WIDTH, hidden_dim=2 * WIDTH, n_layers=2,
                           n_heads=4, max_position_embeddings=64),
    "mpnet": text("MPNet", "ForMaskedLM", max_position_embeddings=66),
    "modernbert": text("ModernBert", "ForMaskedLM", local_attention=4, global_attn_every_n_layers=2),
    "convbert": text("ConvBert", "ForMaskedLM", embedding_size=WIDTH, head_ratio=2, conv_kernel_size=3),
    "fnet": text("FNet", "ForMaskedLM"),
    "bart": hugging("Bart", "ForConditionalGeneration", ids, call={"use_cache": False}, vocab_size=VOCABULARY, d_model=WIDTH,
                     encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                     encoder_ffn_dim=2 * WIDTH, decoder_ffn_dim=2 * WIDTH, max_position_embeddings=64),
    "whisper": hugging(
        "Whisper", "ForConditionalGeneration",
        lambda batch, length: (torch.randn(batch, 8, 24), None, torch.randint(3, VOCABULARY, (batch, length))),
        call={"use_cache": False}, vocab_size=VOCABULARY, num_mel_bins=8, d_model=WIDTH, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=2 * WIDTH, decoder_ffn_dim=2 * WIDTH,
        max_source_positions=12, max_target_positions=32, pad_token_id=0, decoder_start_token_id=1),
    "wav2vec2": hugging(
        "Wav2Vec2", "ForCTC", lambda batch, length: (torch.randn(batch, length * 40),), vocab_size=VOCABULARY,
        hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=2 * WIDTH, conv_dim=(16, 16),
        conv_stride=(5, 2), conv_kernel=(10, 3), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2),
    "beit": vit("Beit"),
    "swinv2": image("Swinv2", patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=2),
    "resnet": image("ResNet", embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic"),
    "mobilevit": timm("mobilevit_xxs", sizes=((2, 64), (1, 64))),
    "segformer": hugging("Segformer", "ForSemanticSegmentation", images, num_labels=5, depths=[1, 1, 1, 1],
                          hidden_sizes=[8, 16, 16, 16], num_attention_heads=[1, 2, 2, 2], decoder_hidden_size=16),
    "dinov2": vit("Dinov2"),
    "clip": hugging("CLIPVision", "ModelWithProjection", images, "image_embeds", image_size=32, patch_size=8, hidden_size=WIDTH,
                     intermediate_size=2 * WIDTH, num_hidden_layers=2, num_attention_heads=4, projection_dim=16),
    "mixer": Row(_mixer, images, IMAGES),
    "efficientnet": timm("tinynet_e"),
    "mobilenetv3": timm("mobilenetv3_small_050"),
    "levit": timm("levit_128s", img_size=64, embed_dim=(32, 48, 64), depth=(1, 1, 1), sizes=((2, 64), (3, 64))),
    "regnet": timm("regnetx_002"),
    "lstm": _own(lambda: Recurrent(torch.nn.LSTMCell), ids),
    "gru": _own(lambda: Recurrent(torch.nn.GRUCell), ids),
    "recommender": _own(Recommender, lambda batch, length: (torch.randn(batch, 5), torch.randint(0, 50, (batch, length)))),
    "graph": _own(GraphNetwork, _edges),
    "residual": _own(lambda: torch.nn.Sequential(Block(3, 8), Block(8, 16, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                                                 torch.nn.Linear(16, 10)), images, IMAGES),
    "unet": _own(Unet, lambda batch, size: (*images(batch, size), torch.randint(0, 100, (batch,))), ((2, 16), (3, 16), (1, 16))),
    "rotary": _own(Own, ids),
}


ZOO |= zoo_more.MORE | zoo_kinds.KINDS | zoo_wide.WIDE | {name: Row(f, lambda batch, length, name=name: (models.inputs(name, batch, length),),
                  Row.sizes if name in models.LANGUAGE else IMAGES) for name, f in (models.LANGUAGE | models.VISION).items()}
TINY = sorted(ZOO)
ZOO |= zoo_full.FULL


def in_f64(model):
    """A copy in f64. Products of groups of rows have no f64 in PyTorch: mixtures of experts go one by one there."""
    model = copy.deepcopy(model).double()
    for module in model.modules():
        if hasattr(getattr(module, "config", None), "_experts_implementation"):
            module.config._experts_implementation = "eager"
    return model


def make(name, seed=18):
    """The model in evaluation mode. What begins as zeros or ones is drawn anew: a comparison would see nothing."""
    torch.manual_seed(seed)
    model = ZOO[name].make().eval()
    with torch.no_grad():
        for p in model.parameters():
            terms = p[0].numel() if p.dim() == 4 else p.shape[-1]  # of a sum: those of a convolution, or of a product
            p.add_(torch.randn_like(p) * (0.5 / terms ** 0.5 if p.dim() > 1 else 0.1))
    return model


def as_dtype(x, dtype):
    """An argument in the dtype of the model."""
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x
