"""Further tiny models of transformers, timm and torchvision, and parts of diffusion models as diffusers writes them: zoo.py
has their rows, too, and tools/model_table.py measures these by default."""

import torch

from models import VOCABULARY
from zoo_rows import IMAGES, WIDTH, Row, hugging, ids, ids_twice, images, image, text, timm, vit

LARGER = ((2, 64), (3, 64), (1, 64))  # images of models that halve them five times
SIZES_OF_STACK = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
                  "encoder_ffn_dim": 2 * WIDTH, "decoder_ffn_dim": 2 * WIDTH, "d_model": WIDTH}
SPEECH = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 2 * WIDTH, "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3),
          "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}


def _two(name, head="ForConditionalGeneration", arguments=ids_twice, **config):
    """Row of an encoder with a decoder."""
    class Both(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, source, target):
            return self.model(input_ids=source, decoder_input_ids=target, use_cache=False).logits

    row = hugging(name, head, arguments, **({"vocab_size": VOCABULARY, "max_position_embeddings": 64, "pad_token_id": 0,
                                             "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2} | config))
    return Row(lambda: Both(row.make().model), row.arguments, row.sizes)


def _waves(batch, length):
    return (torch.randn(batch, length * 40),)


def _vision(name, sizes=LARGER, **options):
    """Row of a model of torchvision."""
    def make():
        import torchvision
        return torchvision.models.get_model(name, weights=None, **({"num_classes": 10} | options))

    return Row(make, images, sizes)


def _densenet():
    import torchvision
    return torchvision.models.DenseNet(8, (2, 2, 2, 2), 16, num_classes=10)


def _resmlp():
    from timm.models import mlp_mixer as m
    return m.MlpMixer(img_size=32, patch_size=8, embed_dim=WIDTH, num_blocks=2, mlp_ratio=4, num_classes=10, block_layer=m.ResBlock, norm_layer=m.Affine)


# ---- Diffusion models

class Residual(torch.nn.Module):
    """A block of a U-net: group norms, and the time between them."""

    def __init__(self, inside, outside, time):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.GroupNorm(4, inside), torch.nn.GroupNorm(4, outside)
        self.first, self.second = torch.nn.Conv2d(inside, outside, 3, 1, 1), torch.nn.Conv2d(outside, outside, 3, 1, 1)
        self.skip, self.time = torch.nn.Conv2d(inside, outside, 1), torch.nn.Linear(time, outside)

    def forward(self, x, time):
        h = self.first(torch.nn.functional.silu(self.norm1(x))) + self.time(torch.nn.functional.silu(time))[:, :, None, None]
        return self.second(torch.nn.functional.silu(self.norm2(h))) + self.skip(x)


class Transformer2d(torch.nn.Module):
    """Attention over the places of an image, to itself and to a text, with a gated MLP."""

    def __init__(self, width, of_text, heads=2):
        super().__init__()
        self.heads, self.norm = heads, torch.nn.GroupNorm(4, width)
        self.q, self.kv = torch.nn.Linear(width, width, bias=False), torch.nn.Linear(width, 2 * width, bias=False)
        self.q2, self.kv2 = torch.nn.Linear(width, width, bias=False), torch.nn.Linear(of_text, 2 * width, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(3))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(2 * width, width)

    def attend(self, q, kv):
        k, v = kv.chunk(2, -1)
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def forward(self, x, context):
        b, c, h, w = x.shape
        y = self.norm(x).permute(0, 2, 3, 1).reshape(b, h * w, c)
        z = self.norms[0](y)
        y = y + self.attend(self.q(z), self.kv(z))
        y = y + self.attend(self.q2(self.norms[1](y)), self.kv2(context))
        a, gate = self.up(self.norms[2](y)).chunk(2, -1)
        y = y + self.down(a * torch.nn.functional.gelu(gate))
        return x + y.reshape(b, h, w, c).permute(0, 3, 1, 2)


class UnetOfText(torch.nn.Module):
    """A U-net conditioned on a text, as of latent diffusion."""

    def __init__(self, width=16, of_text=16):
        super().__init__()
        self.width = width
        self.time = torch.nn.Sequential(torch.nn.Linear(width, 32), torch.nn.SiLU(), torch.nn.Linear(32, 32))
        self.begin, self.smaller = torch.nn.Conv2d(4, width, 3, 1, 1), torch.nn.Conv2d(width, width, 3, 2, 1)
        self.down, self.middle = Residual(width, width, 32), Residual(width, 2 * width, 32)
        self.attention, self.larger = Transformer2d(2 * width, of_text), torch.nn.Conv2d(2 * width, width, 3, 1, 1)
        self.up, self.norm, self.end = Residual(2 * width, width, 32), torch.nn.GroupNorm(4, width), torch.nn.Conv2d(width, 4, 3, 1, 1)

    def forward(self, x, t, context):
        half = self.width // 2
        rate = torch.exp(torch.arange(half, device=x.device) * (-9.21 / half))
        angle = t[:, None].float() * rate
        time = self.time(torch.cat([angle.cos(), angle.sin()], -1).to(x.dtype))
        a = self.down(self.begin(x), time)
        b = self.attention(self.middle(self.smaller(a), time), context)
        b = self.larger(torch.nn.functional.interpolate(b, scale_factor=2.0, mode="nearest"))
        return self.end(torch.nn.functional.silu(self.norm(self.up(torch.cat([a, b], 1), time))))


class DiffusionTransformer(torch.nn.Module):
    """Patches of an image, norms whose scales come from the time, as DiT."""

    def __init__(self, width=WIDTH, layers=2, heads=4):
        super().__init__()
        self.heads, self.patch = heads, torch.nn.Conv2d(4, width, 2, 2)
        self.time = torch.nn.Sequential(torch.nn.Linear(32, width), torch.nn.SiLU(), torch.nn.Linear(width, width))
        self.label = torch.nn.Embedding(11, width)
        self.layers = torch.nn.ModuleList(torch.nn.ModuleDict({
            "scales": torch.nn.Linear(width, 6 * width), "qkv": torch.nn.Linear(width, 3 * width),
            "out": torch.nn.Linear(width, width), "up": torch.nn.Linear(width, 4 * width),
            "down": torch.nn.Linear(4 * width, width)}) for _ in range(layers))
        self.last, self.end = torch.nn.Linear(width, 2 * width), torch.nn.Linear(width, 16)

    def forward(self, x, t, y):
        b, _, h, w = x.shape
        rate = torch.exp(torch.arange(16, device=x.device) * (-9.21 / 16))
        angle = t[:, None].float() * rate
        c = self.time(torch.cat([angle.cos(), angle.sin()], -1).to(x.dtype)) + self.label(y)
        z = self.patch(x).flatten(2).transpose(1, 2)
        norm = torch.nn.functional.layer_norm
        for layer in self.layers:
            shift1, scale1, gate1, shift2, scale2, gate2 = layer["scales"](torch.nn.functional.silu(c))[:, None].chunk(6, -1)
            q, k, v = (layer["qkv"](norm(z, z.shape[-1:]) * (1 + scale1) + shift1)
                       .unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0))
            a = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            z = z + gate1 * layer["out"](a)
            up = torch.nn.functional.gelu(layer["up"](norm(z, z.shape[-1:]) * (1 + scale2) + shift2), approximate="tanh")
            z = z + gate2 * layer["down"](up)
        shift, scale = self.last(torch.nn.functional.silu(c))[:, None].chunk(2, -1)
        z = self.end(norm(z, z.shape[-1:]) * (1 + scale) + shift)
        return z.reshape(b, h // 2, w // 2, 2, 2, 4).permute(0, 5, 1, 3, 2, 4).reshape(b, 4, h, w)


class Decoder(torch.nn.Module):
    """Of a variational autoencoder: a latent to an image, with attention of one head."""

    def __init__(self, width=16):
        super().__init__()
        self.begin, self.first = torch.nn.Conv2d(4, 2 * width, 3, 1, 1), Residual(2 * width, 2 * width, 1)
        self.norm, self.qkv, self.out = torch.nn.GroupNorm(4, 2 * width), torch.nn.Linear(2 * width, 6 * width), torch.nn.Linear(2 * width, 2 * width)
        self.up, self.second = torch.nn.ConvTranspose2d(2 * width, width, 4, 2, 1), Residual(width, width, 1)
        self.end = torch.nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, x):
        time = x.new_zeros(x.shape[0], 1)
        x = self.first(self.begin(x), time)
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x).flatten(2).transpose(1, 2)).chunk(3, -1)
        a = self.out(torch.nn.functional.scaled_dot_product_attention(q, k, v))
        x = x + a.transpose(1, 2).reshape(b, c, h, w)
        return self.end(self.second(self.up(x), time)).clamp(-1, 1)


def _latents(batch, size):
    return torch.randn(batch, 4, size, size), torch.randint(0, 1000, (batch,))


# ---- The table

MORE = {
    "granite": text("Granite", num_key_value_heads=2, embedding_multiplier=2.0),
    "glm": text("Glm", num_key_value_heads=2, head_dim=8),
    "nemotron": text("Nemotron", num_key_value_heads=2, head_dim=8),
    "persimmon": text("Persimmon"),
    "cohere2": text("Cohere2", num_key_value_heads=2, sliding_window=4),
    "smollm3": text("SmolLM3", num_key_value_heads=2),
    "helium": text("Helium", num_key_value_heads=2, head_dim=8),
    "olmo": text("Olmo"),
    "codegen": hugging("CodeGen", "ForCausalLM", call={"use_cache": False}, vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2,
                       n_head=4, n_positions=64, rotary_dim=4),
    "gpt_neo": hugging("GPTNeo", "ForCausalLM", call={"use_cache": False}, vocab_size=VOCABULARY, hidden_size=WIDTH, num_layers=2,
                       num_heads=4, max_position_embeddings=64, window_size=4, attention_types=[[["global", "local"], 1]]),
    "starcoder": hugging("GPTBigCode", "ForCausalLM", call={"use_cache": False}, vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2,
                         n_head=4, n_positions=64),
    "biogpt": text("BioGpt"),
    "qwen2_moe": text("Qwen2Moe", num_key_value_heads=2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=WIDTH,
                      shared_expert_intermediate_size=WIDTH),
    "deepseek_v3": text("DeepseekV3", num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
                        moe_intermediate_size=WIDTH, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8,
                        v_head_dim=8, first_k_dense_replace=1),
    "recurrent_gemma": text("RecurrentGemma", num_key_value_heads=1, lru_width=WIDTH, attention_window_size=8, num_hidden_layers=3),
    "bitnet": text("BitNet", num_key_value_heads=2),
    "megatron_bert": text("MegatronBert", "ForMaskedLM"),
    "nystromformer": text("Nystromformer", "ForMaskedLM", num_landmarks=2, segment_means_seq_len=2, inv_coeff_init_option=False),
    "squeezebert": text("SqueezeBert", "ForMaskedLM", embedding_size=WIDTH),
    "mobilebert": text("MobileBert", "ForMaskedLM", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    "funnel": hugging("Funnel", "ForMaskedLM", vocab_size=VOCABULARY, block_sizes=[1, 1], d_model=WIDTH, n_head=4, d_head=8,
                      d_inner=2 * WIDTH, sizes=((2, 8), (3, 12), (2, 10))),
    "roformer": text("RoFormer", "ForMaskedLM", embedding_size=WIDTH),
    "rembert": text("RemBert", "ForMaskedLM", input_embedding_size=16, output_embedding_size=16),
    "xlnet": hugging("XLNet", "LMHeadModel", call={"use_mems": False}, vocab_size=VOCABULARY, d_model=WIDTH, n_layer=2, n_head=4,
                     d_inner=2 * WIDTH),
    "esm": text("Esm", "ForMaskedLM", max_position_embeddings=66, mask_token_id=3, position_embedding_type="rotary"),
    "longformer": text("Longformer", "ForMaskedLM", attention_window=4, max_position_embeddings=66),
    "pegasus": _two("Pegasus", **SIZES_OF_STACK),
    "mbart": _two("MBart", **SIZES_OF_STACK),
    "m2m_100": _two("M2M100", **SIZES_OF_STACK),
    "mt5": _two("MT5", d_model=WIDTH, d_kv=8, d_ff=2 * WIDTH, num_layers=2, num_heads=4),
    "hubert": hugging("Hubert", "ForCTC", _waves, **SPEECH),
    "wavlm": hugging("WavLM", "ForCTC", _waves, **SPEECH),
    "speech_to_text": hugging("Speech2Text", "Model", lambda batch, length: (
        torch.randn(batch, length * 4, 8), None, torch.randint(3, VOCABULARY, (batch, length))), "last_hidden_state",
        call={"use_cache": False}, vocab_size=VOCABULARY, input_feat_per_channel=8, conv_channels=16, max_source_positions=64,
        max_target_positions=32, pad_token_id=0, **SIZES_OF_STACK),
    "audio_spectrogram": hugging("AST", "ForAudioClassification", lambda batch, length: (torch.randn(batch, 32, 32),),
                                 hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=2 * WIDTH, patch_size=8,
                                 frequency_stride=4, time_stride=4, max_length=32, num_mel_bins=32, num_labels=10),
    "patchtst": hugging("PatchTST", "ForPrediction", lambda batch, length: (torch.randn(batch, 32, 3),), "prediction_outputs",
                        num_input_channels=3, context_length=32, patch_length=4, patch_stride=4, d_model=WIDTH, num_hidden_layers=2,
                        num_attention_heads=4, ffn_dim=2 * WIDTH, prediction_length=8),
    "deit": vit("DeiT"),
    "poolformer": image("PoolFormer", hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], sizes=LARGER),
    "pvt_v2": image("PvtV2", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], sizes=LARGER),
    "mobilenet_v2": image("MobileNetV2", depth_multiplier=0.35, sizes=LARGER),
    "bit": image("Bit", embedding_size=16, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1], num_groups=4, sizes=LARGER),
    "focalnet": image("FocalNet", embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3], use_conv_embed=False),
    "cvt": image("Cvt", embed_dim=[16, 24, 32], num_heads=[1, 2, 4], depth=[1, 2, 3], sizes=LARGER),
    "data2vec_vision": vit("Data2VecVision"),
    "convnextv2": image("ConvNextV2", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], sizes=LARGER),
    "siglip": hugging("SiglipVision", "Model", images, "pooler_output", image_size=32, patch_size=8, hidden_size=WIDTH,
                      intermediate_size=2 * WIDTH, num_hidden_layers=2, num_attention_heads=4),
    "hiera": image("Hiera", embed_dim=16, num_layers=2, depths=[1, 1], num_heads=[1, 2], query_stride=[2, 2], patch_size=[7, 7],
                   patch_stride=[4, 4], patch_padding=[3, 3], mlp_ratio=2.0, num_query_pool=1, masked_unit_size=[4, 4],
                   image_size=[32, 32], embed_dim_multiplier=2.0),
    "glpn": hugging("GLPN", "ForDepthEstimation", images, "predicted_depth", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1],
                    num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16, sizes=LARGER),
    "yolos": hugging("Yolos", "ForObjectDetection", images, "logits", image_size=[32, 32], patch_size=8, hidden_size=WIDTH,
                     num_hidden_layers=2, num_attention_heads=4, intermediate_size=2 * WIDTH, num_detection_tokens=5),
    "videomae": hugging("VideoMAE", "ForVideoClassification", lambda batch, size: (torch.randn(batch, 4, 3, 32, 32),),
                        image_size=32, patch_size=8, num_frames=4, tubelet_size=2, hidden_size=WIDTH, num_hidden_layers=2,
                        num_attention_heads=4, intermediate_size=2 * WIDTH, num_labels=10),
    "densenet": Row(_densenet, images, LARGER),
    "shufflenet": _vision("shufflenet_v2_x0_5"),
    "squeezenet": _vision("squeezenet1_1"),
    "mnasnet": _vision("mnasnet0_5"),
    "googlenet": _vision("googlenet", aux_logits=False, init_weights=False),
    "ghostnet": timm("ghostnet_050", sizes=LARGER),
    "repvgg": timm("repvgg_a0", sizes=LARGER),
    "edgenext": timm("edgenext_xx_small", sizes=LARGER),
    "xcit": timm("xcit_nano_12_p16_224", img_size=64, sizes=LARGER, embed_dim=32, depth=2, num_heads=4),
    "res2net": timm("res2net50_14w_8s", sizes=LARGER, layers=(1, 1, 1, 1)),
    "resmlp": Row(_resmlp, images, IMAGES),
    "unet_of_text": Row(UnetOfText, lambda batch, size: (*_latents(batch, size), torch.randn(batch, 7, 16)), ((2, 16), (3, 16), (1, 16))),
    "dit": Row(DiffusionTransformer, lambda batch, size: (*_latents(batch, size), torch.randint(0, 11, (batch,))),
               ((2, 16), (3, 16), (1, 16))),
    "vae_decoder": Row(Decoder, lambda batch, size: _latents(batch, size)[:1], ((2, 16), (3, 16), (1, 16))),
}
