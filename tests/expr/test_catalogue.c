/* The catalogue: complete, legal, and each entry computes what its description says (a few, by value, elsewhere). */
#include "front_check.h"

#include "expr/catalogue.h"

static void test_lookup(void **state)
{
    (void)state;
    const md_catalogue_entry *const e = md_catalogue_find("softmax");
    assert_non_null(e);
    assert_string_equal(e->name, "softmax");
    assert_null(md_catalogue_find("Softmax"));
    assert_null(md_catalogue_find(""));
    assert_null(md_catalogue_at(-1));
    assert_non_null(md_catalogue_at(0));
    assert_null(md_catalogue_at(100000));
}

static const char *const promised[] = {
    "softmax",
    "log_softmax",
    "logsumexp",
    "layer_norm",
    "rms_norm",
    "linear",
    "linear_bias",
    "linear_bias_gelu",
    "linear_bias_relu",
    "linear_residual",
    "matmul",
    "batched_matmul",
    "swiglu",
    "geglu",
    "silu_mul",
    "add",
    "mul",
    "relu",
    "gelu",
    "silu",
    "bias_gelu",
    "residual_add_rms_norm",
    "adamw",
    "adamw_amsgrad",
    "adamw_captured",
    "adamw_master",
    "adam",
    "sgd_nesterov",
    "lion",
    "adagrad",
    "rmsprop",
    "ema_update",
    "norm_squared",
    "clip_by_norm",
    "sgd_momentum",
    "cross_entropy",
    "embedding",
    "embedding_grad",
    "gather_rows",
    "kv_cache_write",
    "cumsum",
    "cumprod",
    "linear_recurrence",
    "ema",
    "causal_softmax",
    "masked_softmax",
    "sum",
    "mean",
    "max",
    "min",
    "argmax",
    "argmin",
    "var",
    "transpose",
    "copy",
    "add_bias",
    "dequant_linear",
    "linear_int8",
    "linear_f8",
    "linear_int4",
    "moe_up",
    "moe_down",
    "moe_gradient",
    "rope",
    "l2_norm",
    "outer",
    "matvec",
    "dot",
    "column_sum",
    "histogram",
    "conv1d",
    "max_pool1d",
    "conv2d",
    "conv2d_nhwc",
    "conv2d_depthwise",
    "conv_transpose2d",
    "max_pool2d",
    "max_pool2d_indices",
    "avg_pool2d",
    "resize_nearest",
    "resize_bilinear",
    "pixel_shuffle",
    "pad_zero",
    "pad_reflect",
    "pad_replicate",
    "unfold",
    "fold",
    "attention_scores",
    "attention",
    "attention_lse",
    "attention_backward",
    "attention_causal",
    "attention_gqa",
    "attention_window",
    "attention_alibi",
    "attention_varlen",
    "attention_decode",
    "attention_paged",
};

static void test_promised_ops(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof promised / sizeof promised[0]; ++i)
        if (!md_catalogue_find(promised[i]))
            fail_msg("no op %s", promised[i]);
}

static void test_entries(void **state)
{
    (void)state;
    for (int32_t i = 0; md_catalogue_at(i); ++i) {
        const md_catalogue_entry *const e = md_catalogue_at(i);
        for (int32_t k = 0; k < i; ++k)
            assert_string_not_equal(e->name, md_catalogue_at(k)->name);
        assert_int_equal(strspn(e->name, "abcdefghijklmnopqrstuvwxyz_0123456789"), strlen(e->name));
        assert_true(strlen(e->description) > 0 && strlen(e->description) < 120);
        assert_null(strchr(e->formula, '\n'));
        md_fx_formula *f = front_make(e->formula, NULL);
        assert_int_equal(f->n_warnings, 0);
        /* a name used as an index of rows or columns is what boards give sizes for */
        for (int32_t d = 0; d < f->n_dims; ++d)
            assert_true(strchr(f->dim[d].name, '.') || strlen(f->dim[d].name) == 1);
        md_fx_formula_destroy(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_promised_ops),
        cmocka_unit_test(test_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
