/* The steps of formulas over lists as kernels of many items, compiled for GPUs that are not here: each is one launch,
 * and no kernel spills (what spills is not merged). Without NVRTC it skips itself. */
#include "support/check.h"

#include "api/context.h"
#include "expr/list/list.h"

#include <md/combo.h>
#include <stdbool.h>

enum { ITEMS = 12 };

static md_context *context;
static float memory[4]; /* nothing is run: addresses only count */

static int take(void *user, const char *text, size_t n)
{
    char *to = user;
    assert_true(strlen(to) + n < 16384);
    memcpy(to + strlen(to), text, n);
    return 0;
}

typedef struct list {
    md_op *op;
    md_tensor tensor[ITEMS][16];
    md_arg args[ITEMS * 24];
} list;

/* Items of a step: tensors by their names, so that what is read and then written is one memory. Sizes are texts with %d
 * for an item's number; every third item has the second one. */
static void make_items(list *l, const md_fx_list *formula, const char *const sizes[2])
{
    md_arg_info info;
    const int32_t n_args = md_op_n_args(l->op);
    for (int i = 0; i < ITEMS; i++) {
        char text[64];
        int32_t t = 0;
        snprintf(text, sizeof text, sizes[i % 3 == 2], i + 1);
        for (int32_t a = 0; a < n_args; a++) {
            assert_ok(md_op_arg(&info, l->op, a));
            const md_fx_list_name *name = md_fx_list_find(formula, info.name);
            assert_non_null(name);
            md_tensor *at = &l->tensor[i][t++];
            l->args[i * n_args + a] = info.is_scalar ? md_s(0.5) : md_t(at);
            if (info.is_scalar)
                continue;
            assert_ok(md_op_tensor(at, l->op, a, text));
            const int64_t all = 4000 + name->id, own = ((int64_t)name->kind * 16 + name->id) * ITEMS + i + 1;
            const int64_t place = name->kind == MD_FX_NAME_VALUE ? all : own;
            at->data = (char *)(void *)memory + place * ((int64_t)1 << 32);
        }
    }
}

static void expect_one_launch(const md_fx_list *f, const char *formula, const char *const sizes[2])
{
    list *l = calloc(1, sizeof *l);
    char text[16384] = "";
    md_combo *combo = NULL;
    assert_ok(md_op_create(&l->op, context, formula, &(md_op_options){.async = 1, .tune = MD_TUNE_OFF}));
    make_items(l, f, sizes);
    assert_ok(md_op_wait(l->op));
    const md_combo_part part = {l->op, l->args, md_op_n_args(l->op), ITEMS};
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    md_bd_wait_all(context->builder);
    assert_ok(md_combo_explain(combo, 0, take, text));
    if (!strstr(text, "one launch") || !strstr(text, "(ready)") || strstr(text, "being built") || strstr(text, "error"))
        fail_msg("%s: %s", formula, text);
    md_combo_destroy(&combo);
    md_op_destroy(&l->op);
    free(l);
}

static const char clipped_adamw[] =
    "scalar max_norm, lr, b1, b2, eps, decay, c1, c2; let n = sum[t,i](f32(G@t[i]) * f32(G@t[i]));"
    "let c = min(1, max_norm / (sqrt(n) + 1e-6)); let g@t[i] = c * G@t[i];"
    "M@t[i] = b1 * M@t[i] + (1 - b1) * g@t[i]; V@t[i] = b2 * V@t[i] + (1 - b2) * g@t[i] * g@t[i];"
    "P@t[i] = P@t[i] * (1 - lr * decay) - lr * (M@t[i] / c1) / (sqrt(V@t[i] / c2) + eps)";

static void compile_for(const char *arch)
{
    md_fx_list *parsed = NULL;
    if (md_context_create(&context, &(md_context_options){.device = arch, .hints = "4096"}) != MD_OK) {
        print_message("SKIPPED: %s\n", md_last_error());
        skip();
    }
    assert_ok(md_fx_list_create(&parsed, clipped_adamw, NULL));
    assert_int_equal(parsed->n_steps, 3);
    /* full tiles, and what is left of items */
    expect_one_launch(parsed, parsed->reduction[0].flat,
                      (const char *[]){"tile_0=%d00, at_0=4096", "tile_0=1, at_0=%d01"});
    expect_one_launch(parsed, parsed->step[2].text, (const char *[]){"i=%d00000", "i=%d"});
    md_fx_list_destroy(&parsed);
    md_context_destroy(&context);
}

static void sm_80(void **state)
{
    (void)state;
    compile_for("sm_80");
}

static void sm_90a(void **state)
{
    (void)state;
    compile_for("sm_90a");
}

static void sm_100a(void **state)
{
    (void)state;
    compile_for("sm_100a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sm_80), cmocka_unit_test(sm_90a), cmocka_unit_test(sm_100a)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
