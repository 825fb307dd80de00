"""Tiny models of transformers, timm and torchvision that neither zoo.py nor zoo_more.py has: state spaces, sparse attention,
several inputs, mixtures, images of other shapes. zoo.py has their rows, too."""

import torch

from models import VOCABULARY
from zoo_more import LARGER, SIZES_OF_STACK, SPEECH, _two, _vision, _waves
from zoo_rows import WIDTH, Row, hugging, ids, image, images, text, timm, vit

USUAL = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 2 * WIDTH}
TWO_LENGTHS = ((2, 6), (3, 6), (1, 9))  # of models whose steps are written out: a graph for each length


def _both(batch, size):
    return (*ids(batch, 7), *images(batch, size))


def _sam():
    from transformers import SamVisionConfig, SamVisionModel
    from zoo_rows import Field
    return Field(SamVisionModel(SamVisionConfig(
        hidden_size=WIDTH, output_channels=16, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=4,
        mlp_dim=2 * WIDTH, window_size=3, global_attn_indexes=[1], num_pos_feats=8)), "last_hidden_state", {})


def _clip():
    from transformers import CLIPConfig, CLIPModel
    from zoo_rows import Field
    config = CLIPConfig(text_config=USUAL | {"vocab_size": VOCABULARY, "max_position_embeddings": 16, "eos_token_id": 2},
                        vision_config=USUAL | {"image_size": 32, "patch_size": 8}, projection_dim=16)
    return Field(CLIPModel(config), "logits_per_image", {})


def _convmixer():
    from timm.models.convmixer import ConvMixer
    return ConvMixer(dim=WIDTH, depth=2, kernel_size=5, patch_size=4, num_classes=10)


def _perceiver():
    from transformers import PerceiverConfig, PerceiverModel
    from zoo_rows import Field
    return Field(PerceiverModel(PerceiverConfig(num_latents=5, d_latents=WIDTH, d_model=24, num_blocks=1, num_self_attends_per_block=2,
                                                num_self_attention_heads=4, num_cross_attention_heads=4, attention_probs_dropout_prob=0.0)),
                 "last_hidden_state", {})


def _frames(batch, size):
    return (torch.randn(batch, 4, 3, size, size),)


FRAMES = ((2, 32), (3, 32), (1, 32))

WIDE = {
    "mamba2": hugging("Mamba2", "ForCausalLM", call={"use_cache": False}, vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2,
                      state_size=8, num_heads=4, head_dim=16, n_groups=1, chunk_size=4, sizes=TWO_LENGTHS),
    "rwkv": hugging("Rwkv", "ForCausalLM", call={"use_cache": False}, vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2,
                    attention_hidden_size=WIDTH, intermediate_size=2 * WIDTH, context_length=32, sizes=TWO_LENGTHS),
    "bamba": text("Bamba", num_key_value_heads=2, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=1, mamba_chunk_size=4,
                  attn_layer_indices=[1], sizes=TWO_LENGTHS),
    "lfm2": text("Lfm2", num_key_value_heads=2, layer_types=["conv", "full_attention"], block_ff_dim=2 * WIDTH, block_multiple_of=8),
    "bart_wide": _two("Blenderbot", **SIZES_OF_STACK),
    "led": _two("LED", attention_window=[4, 4], max_encoder_position_embeddings=64, max_decoder_position_embeddings=64, **SIZES_OF_STACK),
    "prophetnet": _two("ProphetNet", hidden_size=WIDTH, num_encoder_layers=2, num_decoder_layers=2, num_encoder_attention_heads=4,
                       num_decoder_attention_heads=4, encoder_ffn_dim=2 * WIDTH, decoder_ffn_dim=2 * WIDTH, ngram=2, num_buckets=8),
    "long_t5": _two("LongT5", d_model=WIDTH, d_kv=8, d_ff=2 * WIDTH, num_layers=2, num_heads=4, local_radius=3,
                    encoder_attention_type="transient-global", global_block_size=4),
    "switch": _two("SwitchTransformers", d_model=WIDTH, d_kv=8, d_ff=2 * WIDTH, num_layers=2, num_heads=4, num_experts=4,
                   num_sparse_encoder_layers=1, num_sparse_decoder_layers=1),
    "big_bird": text("BigBird", "ForMaskedLM", attention_type="block_sparse", block_size=2, num_random_blocks=1, max_position_embeddings=66,
                     sizes=((2, 24), (3, 32), (1, 28))),
    "canine": hugging("Canine", "Model", field="last_hidden_state", num_hash_functions=2, num_hash_buckets=32, local_transformer_stride=4,
                      downsampling_rate=2, max_position_embeddings=66, sizes=((2, 12), (3, 16), (1, 24)), **USUAL),
    "ernie": text("Ernie", "ForMaskedLM", use_task_id=True),
    "xlm": hugging("XLM", "WithLMHeadModel", vocab_size=VOCABULARY, emb_dim=WIDTH, n_layers=2, n_heads=4, max_position_embeddings=64),
    "layoutlm": text("LayoutLM", "ForMaskedLM", max_2d_position_embeddings=32),
    "yoso": text("Yoso", "ForMaskedLM", use_expectation=True, max_position_embeddings=66),
    "ibert": text("IBert", "ForMaskedLM", max_position_embeddings=66),
    "gpt_oss": text("GptOss", num_key_value_heads=2, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4),
    "phimoe": text("Phimoe", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2),
    "qwen3_next": text("Qwen3Next", num_key_value_heads=2, head_dim=8, linear_num_value_heads=4, linear_num_key_heads=2,
                       linear_key_head_dim=8, linear_value_head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                       shared_expert_intermediate_size=16, layer_types=["linear_attention", "full_attention"], sizes=TWO_LENGTHS),
    "jetmoe": text("JetMoe", num_key_value_heads=2, kv_channels=8, num_local_experts=4, num_experts_per_tok=2),
    "diffllama": text("DiffLlama", num_key_value_heads=2),
    "granite_moe": text("GraniteMoe", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2),
    "clip_both": Row(_clip, _both, FRAMES),
    "perceiver": Row(_perceiver, lambda batch, length: (torch.randn(batch, length, 24),)),
    "sam": Row(_sam, images, FRAMES),
    "timesformer": hugging("Timesformer", "ForVideoClassification", _frames, sizes=FRAMES, image_size=32, patch_size=8, num_frames=4, num_labels=10, **USUAL),
    "vivit": hugging("Vivit", "ForVideoClassification", _frames, sizes=FRAMES, image_size=32, num_frames=4, tubelet_size=[2, 8, 8], num_labels=10, **USUAL),
    "dpt": hugging("DPT", "ForDepthEstimation", images, "predicted_depth", sizes=FRAMES, image_size=32, patch_size=8, backbone_out_indices=[1, 2, 3, 4],
                   neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=8, reassemble_factors=[4, 2, 1, 0.5], is_hybrid=False, **(USUAL | {"num_hidden_layers": 4})),
    "vit_mae": hugging("ViTMAE", "Model", images, "last_hidden_state", sizes=FRAMES, image_size=32, patch_size=8, mask_ratio=0.0, **USUAL),
    "swin2sr": hugging("Swin2SR", "ForImageSuperResolution", images, "reconstruction", sizes=((2, 16), (3, 16), (1, 16)), image_size=16, patch_size=1,
                       embed_dim=12, depths=[1, 1], num_heads=[2, 2], window_size=4, upscale=2),
    "efficientformer": image("MobileViTV2", width_multiplier=0.5, sizes=LARGER),
    "vitdet": hugging("VitDet", "Model", images, "last_hidden_state", sizes=FRAMES, image_size=32, patch_size=4, window_size=3, window_block_indices=[0],
                      residual_block_indices=[], use_relative_position_embeddings=True, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4),
    "wav2vec2_conformer": hugging("Wav2Vec2Conformer", "ForCTC", _waves, position_embeddings_type="rotary", **SPEECH),
    "sew": hugging("SEW", "ForCTC", _waves, squeeze_factor=2, **SPEECH),
    "unispeech": hugging("UniSpeech", "ForCTC", _waves, **SPEECH),
    "encodec": hugging("Encodec", "Model", lambda batch, length: (torch.randn(batch, 1, length * 64),), "audio_values", num_filters=4, hidden_size=16,
                       upsampling_ratios=[4, 2], codebook_size=16, codebook_dim=16, num_lstm_layers=1, target_bandwidths=[24.0]),
    "patchtsmixer": hugging("PatchTSMixer", "ForPrediction", lambda batch, length: (torch.randn(batch, 32, 3),), "prediction_outputs",
                            num_input_channels=3, context_length=32, patch_length=4, patch_stride=4, d_model=16, num_layers=2, prediction_length=8),
    "maxvit": timm("maxvit_rmlp_pico_rw_256", img_size=64, sizes=LARGER),
    "coatnet": timm("coatnet_pico_rw_224", img_size=64, sizes=LARGER),
    "twins": timm("twins_svt_small", img_size=64, sizes=LARGER, embed_dims=(16, 16, 32, 32), depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 4)),
    "gcvit": timm("gcvit_xxtiny", img_size=64, sizes=LARGER),
    "fastvit": timm("fastvit_t8", sizes=LARGER),
    "mambaout": timm("mambaout_femto", sizes=LARGER),
    "sequencer": timm("sequencer2d_s", img_size=56, sizes=((2, 56), (3, 56), (1, 56)), layers=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), hidden_sizes=(4, 8, 8, 8)),
    "halonet": timm("eca_halonext26ts", sizes=((2, 128), (1, 128))),
    "lambda_resnet": timm("lambda_resnet26t", img_size=64, sizes=LARGER),
    "hrnet": timm("hrnet_w18_small", sizes=LARGER),
    "skresnet": timm("skresnet18", sizes=LARGER),
    "convmixer": Row(_convmixer, images, LARGER),
    "starnet": timm("starnet_s1", sizes=LARGER),
    "efficientnet_v2": _vision("efficientnet_v2_s"),
    "r3d": Row(_vision("r3d_18").make, lambda batch, size: (torch.randn(batch, 3, 4, size, size),), FRAMES),
}
