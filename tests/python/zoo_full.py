"""Forty models of transformers with layers of a real width (1,024 unless said) but few of them, each called with the same
eight batches: tools/model_table.py --table full measures them on a GPU. zoo.py has their rows, too."""

import torch

from zoo_rows import Row, hugging

WIDTH, LAYERS, HEADS, TOKENS = 1024, 4, 16, 4000
BATCHES = ((2, 60), (1, 17), (4, 128), (3, 77), (1, 1), (8, 33), (2, 256), (5, 100))
SHORT = ((2, 6), (1, 17), (4, 12), (3, 7), (1, 1), (8, 3), (2, 25), (5, 10))  # of scans whose steps are written out
MOST = 1100  # positions
STACK = {"vocab_size": TOKENS, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": HEADS,
         "decoder_attention_heads": HEADS, "encoder_ffn_dim": 4 * WIDTH, "decoder_ffn_dim": 4 * WIDTH, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}


def _ids(batch, length):
    return (torch.randint(3, TOKENS, (batch, length)),)


def _images(batch, _):
    return (torch.randn(batch, 3, 224, 224),)


def _waves(batch, length):
    return (torch.randn(batch, 4000 + 160 * length),)


def _full(name, head, arguments=_ids, sizes=BATCHES, field="logits", call=None, **config):
    return hugging(name, head, arguments, field, sizes, call, **config)


def _text(name, head="ForCausalLM", sizes=BATCHES, **config):
    usual = {"vocab_size": TOKENS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
             "intermediate_size": 4 * WIDTH, "max_position_embeddings": MOST, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return _full(name, head, sizes=sizes, call={"use_cache": False} if head == "ForCausalLM" else {}, **(usual | config))


def _old(name, head="ForCausalLM", **config):
    """Row of a model whose config has the names of GPT-2's."""
    return _full(name, head, call={"use_cache": False}, vocab_size=TOKENS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
                 n_positions=MOST, bos_token_id=1, eos_token_id=2, **config)


def _vit(name, head="ForImageClassification", field="logits", **config):
    return _full(name, head, _images, field=field, **({
        "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 4 * WIDTH,
        "num_labels": 100, "image_size": 224, "patch_size": 16} | config))


class Both(torch.nn.Module):
    """An encoder and a decoder of the same ids."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, decoder_input_ids=ids, use_cache=False).logits


def _two(name, **config):
    row = _full(name, "ForConditionalGeneration", **config)
    return Row(lambda: Both(row.make().model), row.arguments, row.sizes)


FEW = {"num_key_value_heads": 4}
FULL = {
    "full_olmoe": _text("Olmoe", intermediate_size=WIDTH, num_experts=8, num_experts_per_tok=2),
    "full_swin": _full("Swin", "ForImageClassification", _images, image_size=224, embed_dim=96, depths=[2, 2, 2, 2],
                       num_heads=[3, 6, 12, 24], num_labels=100),
    "full_mamba": _full("Mamba", "ForCausalLM", sizes=SHORT, call={"use_cache": False}, vocab_size=TOKENS, hidden_size=WIDTH,
                        num_hidden_layers=LAYERS),
    "full_deberta": _text("DebertaV2", "ForMaskedLM", relative_attention=True, position_buckets=64, pos_att_type=["p2c", "c2p"]),
    "full_resnet": _full("ResNet", "ForImageClassification", _images, num_labels=100),
    "full_bloom": _full("Bloom", "ForCausalLM", call={"use_cache": False}, vocab_size=TOKENS, hidden_size=WIDTH, n_layer=LAYERS,
                        n_head=HEADS),
    "full_whisper": _full("Whisper", "ForAudioClassification", lambda batch, _: (torch.randn(batch, 80, 3000),),
                          **(STACK | {"decoder_layers": 1, "encoder_layers": LAYERS})),
    "full_wav2vec2": _full("Wav2Vec2", "Model", _waves, field="last_hidden_state", hidden_size=WIDTH, num_hidden_layers=LAYERS,
                           num_attention_heads=HEADS, intermediate_size=4 * WIDTH),
    "full_t5": _full("T5", "EncoderModel", field="last_hidden_state", vocab_size=TOKENS, d_model=WIDTH, d_kv=64, d_ff=4 * WIDTH,
                     num_layers=LAYERS, num_heads=HEADS),
    "full_vit": _vit("ViT"),
    "full_gemma2": _text("Gemma2", head_dim=64, query_pre_attn_scalar=64, sliding_window=64, **FEW),
    "full_phi3": _text("Phi3"),
    "full_opt": _text("OPT", ffn_dim=4 * WIDTH, word_embed_proj_dim=WIDTH),
    "full_electra": _text("Electra", "ForMaskedLM", embedding_size=WIDTH // 2),
    "full_albert": _text("Albert", "ForMaskedLM", embedding_size=128),
    "full_mixtral": _text("Mixtral", intermediate_size=WIDTH, num_local_experts=8, **FEW),
    "full_modernbert": _text("ModernBert", "ForMaskedLM", local_attention=64, global_attn_every_n_layers=2),
    "full_bart": _two("Bart", max_position_embeddings=MOST, **STACK),
    "full_convnext": _full("ConvNext", "ForImageClassification", _images, num_labels=100, depths=[2, 2, 2, 2]),
    "full_xlnet": _full("XLNet", "LMHeadModel", call={"use_mems": False}, vocab_size=TOKENS, d_model=WIDTH, n_layer=LAYERS,
                        n_head=HEADS, d_inner=4 * WIDTH),
    "full_qwen3": _text("Qwen3", head_dim=64, **FEW),
    "full_gpt2": _old("GPT2", "LMHeadModel"),
    "full_gptj": _old("GPTJ", rotary_dim=32),
    "full_falcon": _text("Falcon"),
    "full_distilbert": _full("DistilBert", "ForMaskedLM", vocab_size=TOKENS, dim=WIDTH, hidden_dim=4 * WIDTH, n_layers=LAYERS,
                             n_heads=HEADS, max_position_embeddings=MOST),
    "full_bert": _text("Bert", "ForMaskedLM"),
    "full_mpnet": _text("MPNet", "ForMaskedLM"),
    "full_beit": _vit("Beit"),
    "full_dinov2": _vit("Dinov2"),
    "full_clip": _vit("CLIPVision", "ModelWithProjection", "image_embeds", projection_dim=512),
    "full_segformer": _full("Segformer", "ForSemanticSegmentation", _images, num_labels=20),
    "full_hubert": _full("Hubert", "Model", _waves, field="last_hidden_state", hidden_size=WIDTH, num_hidden_layers=LAYERS,
                         num_attention_heads=HEADS, intermediate_size=4 * WIDTH),
    "full_cohere": _text("Cohere", **FEW),
    "full_stablelm": _text("StableLm", **FEW),
    "full_deepseek": _text("DeepseekV3", num_key_value_heads=HEADS, n_routed_experts=8, num_experts_per_tok=2, n_group=2,
                           topk_group=1, moe_intermediate_size=WIDTH, q_lora_rank=256, kv_lora_rank=256, qk_rope_head_dim=32,
                           qk_nope_head_dim=32, v_head_dim=64, first_k_dense_replace=1),
    "full_efficientnet": _full("EfficientNet", "ForImageClassification", _images, num_labels=100),
    "full_llama": _text("Llama", **FEW),
    "full_mistral": _text("Mistral", intermediate_size=3 * WIDTH, sliding_window=64, **FEW),
    "full_roberta": _text("Roberta", "ForMaskedLM"),
    "full_neox": _text("GPTNeoX"),
}
