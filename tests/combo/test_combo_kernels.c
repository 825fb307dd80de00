/* Kernels of many items, compiled for GPUs that are not here: pointwise stages, rows and columns, several bodies in one
 * kernel. Without NVRTC it skips itself. */
#include "support/check.h"

#include "api/context.h"
#include "combo/stored.h"

#include <md/combo.h>

#include <stdbool.h>

enum { MOST = 1100 };

static md_context *context;
static float memory[4]; /* nothing is run: addresses only count */

static int take(void *user, const char *text, size_t n)
{
    char *to = user;
    assert_true(strlen(to) + n < 16384);
    memcpy(to + strlen(to), text, n);
    return 0;
}

/* Addresses of item i's tensor a: apart from each other. */
static void *place(int64_t i, int32_t a)
{
    return (char *)(void *)memory + (i * 8 + a) * ((int64_t)1 << 32);
}

typedef struct list {
    md_op *op;
    int32_t n_args;
    md_tensor tensor[MOST][8];
    md_arg args[MOST][16];
} list;

/* `sizes`: of item i, as text with %d for 1 to 37, then %d for 1 to 5. Outputs PO, MO, VO lie where P, M, V do. */
static list *make_list(const char *formula, const char *sizes, int64_t first, int64_t n)
{
    list *l = calloc(1, sizeof *l);
    char text[64];
    md_arg_info info[16];
    assert_ok(md_op_create(&l->op, context, formula, &(md_op_options){.async = 1, .tune = MD_TUNE_OFF}));
    l->n_args = md_op_n_args(l->op);
    for (int64_t i = 0; i < n; i++) {
        int32_t t = 0;
        snprintf(text, sizeof text, sizes, (int)(i % 37) + 1, (int)(i % 5) + 1);
        for (int32_t a = 0; a < l->n_args; a++) {
            assert_ok(md_op_arg(&info[a], l->op, a));
            if (info[a].is_scalar) {
                l->args[i][a] = md_s(0.5);
                continue;
            }
            assert_ok(md_op_tensor(&l->tensor[i][t], l->op, a, text));
            l->tensor[i][t].data = place(first + i, t + 1);
            for (int32_t b = 0; info[a].is_output && b < a; b++)
                if (!info[b].is_scalar && info[b].name[0] == info[a].name[0])
                    l->tensor[i][t].data = l->args[i][b].tensor->data;
            l->args[i][a] = md_t(&l->tensor[i][t]);
            t++;
        }
    }
    assert_ok(md_op_wait(l->op));
    return l;
}

static void free_list(list *l)
{
    md_op_destroy(&l->op);
    free(l);
}

static void flat(const list *l, int64_t n, md_arg *out)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i * l->n_args, l->args[i], (size_t)l->n_args * sizeof *out);
}

/* Binds, waits for the builds, and expects one launch that is ready. */
static void expect_ready(list *const *lists, int32_t n, int64_t each, const char *table)
{
    md_combo_part part[4];
    md_arg *args[4];
    md_combo *combo = NULL;
    char text[16384] = "";
    for (int32_t i = 0; i < n; i++) {
        args[i] = malloc((size_t)(each * lists[i]->n_args) * sizeof(md_arg));
        flat(lists[i], each, args[i]);
        part[i] = (md_combo_part){lists[i]->op, args[i], lists[i]->n_args, each};
    }
    assert_ok(md_combo_bind(&combo, context, part, n));
    md_bd_wait_all(context->builder);
    assert_ok(md_combo_explain(combo, 0, take, text));
    if (!strstr(text, "(ready)") || strstr(text, "being built") || strstr(text, "error") || !strstr(text, table))
        fail_msg("%s", text);
    assert_fails(md_combo_run(combo, NULL, NULL, 0), MD_UNSUPPORTED, "elsewhere");
    md_combo_destroy(&combo);
    for (int32_t i = 0; i < n; i++)
        free(args[i]);
}

static const char adamw[] = "scalar lr, b1, b2, eps, wd, c1, c2; MO[i] = M[i] + (1 - b1) * (G[i] - M[i]); "
                            "VO[i] = b2 * V[i] + (1 - b2) * G[i] * G[i]; "
                            "PO[i] = P[i] * (1 - lr * wd) - lr * (MO[i] / c1) / (sqrt(VO[i] / c2) + eps)";
static const char softmax[] = "let m[r] = max[k](X[r,k]); let e[r,k] = exp(X[r,k] - m[r]); "
                              "Y[r,k] = e[r,k] / sum[k](e[r,k])";
static const char layer_norm[] = "let m[r] = mean[k](X[r,k]); let v[r] = mean[k]((X[r,k] - m[r]) * (X[r,k] - m[r])); "
                                 "Y[r,k] = (X[r,k] - m[r]) / sqrt(v[r] + 0.00001)";

static void open_for(const char *arch, const char *folder)
{
    if (md_context_create(&context, &(md_context_options){.device = arch, .hints = "1024", .cache_dir = folder}) ==
        MD_OK)
        return;
    print_message("SKIPPED: %s\n", md_last_error());
    skip();
}

/* The table is as large as it must be. */
static void tables(void **state)
{
    (void)state;
    open_for("sm_90a", NULL);
    list *update = make_list(adamw, "i=%d00", 0, MOST);
    expect_ready(&update, 1, 12, "4096 bytes of parameters");
    expect_ready(&update, 1, 200, "32760 bytes of parameters, items in parameters");
    expect_ready(&update, 1, 300, "512 bytes of parameters, items in device memory, each by a block or more");
    free_list(update);
    md_context_destroy(&context);
}

/* Many tiny items are warps' work; also of several ops, and where they do not fit the parameters. */
static void tiny_items(void **state)
{
    (void)state;
    open_for("sm_90a", NULL);
    list *const two[] = {make_list("Y[i] = X[i] + B[i]", "i=%d", 0, MOST),
                         make_list("Y[i,j] = X[j,i] * B[i]", "i=%d, j=3", 2 * MOST, MOST)};
    expect_ready(two, 1, 400, "items in parameters, each by a block or more");
    expect_ready(two, 1, 500, "items in device memory, each by a block or more");
    expect_ready(two, 1, MOST,
                 "1100 items, 138 blocks of 256 threads, 512 bytes of parameters, items in device memory");
    expect_ready(two, 2, 520, "1040 items, 130 blocks of 256 threads");
    free_list(two[0]);
    free_list(two[1]);
    md_context_destroy(&context);
}

static void several_bodies(const char *arch)
{
    open_for(arch, NULL);
    list *const mixed[] = {make_list(softmax, "r=%d, k=%d00", MOST, 12), make_list(layer_norm, "r=%d, k=%d00", 0, 12),
                           make_list("Y[r,k] = X[r,k] + B[k]", "r=%d, k=%d01", 2 * MOST, 12)};
    expect_ready(mixed, 3, 12, "one launch");
    for (size_t i = 0; i < 3; i++)
        md_op_destroy(&mixed[i]->op);
    for (size_t i = 0; i < 3; i++)
        free(mixed[i]);
    md_context_destroy(&context);
}

static void bodies_for_sm_80(void **state)
{
    (void)state;
    several_bodies("sm_80");
}

static void bodies_for_sm_90a(void **state)
{
    (void)state;
    several_bodies("sm_90a");
}

static void bodies_for_sm_100a(void **state)
{
    (void)state;
    several_bodies("sm_100a");
}

/* Says how two items run: rows of 4096 elements, and rows of `last`. They get the winner, if there is one. */
static void explain_two(char text[16384], const char *last, const md_tn_stored_swap *winner)
{
    list *add = make_list("Y[i,j] = X[i,j] + B[j]", "i=4096, j=%d", 0, 2);
    const char *const sizes[] = {"i=4096, j=4096", last};
    md_arg args[2][3];
    md_combo *combo = NULL;
    md_cb *cb = NULL;
    for (int i = 0; i < 2; i++)
        for (int a = 0; a < 3; a++) {
            void *data = add->tensor[i][a].data;
            assert_ok(md_op_tensor(&add->tensor[i][a], add->op, a, sizes[i]));
            add->tensor[i][a].data = data;
            args[i][a] = add->args[i][a];
        }
    const md_combo_part part = {add->op, &args[0][0], 3, 2};
    assert_ok(md_cb_create(&cb, &context->runtime, &part, &add->op->ds, 1));
    char *key = md_cb_store_key(cb);
    md_tn_stored_list stored = {0};
    if (winner)
        md_tn_stored_add_swap(&stored, winner);
    assert_true(!winner || md_cb_list_digest(&stored.swap[0].of.shape, cb, false));
    assert_ok(md_tn_stored_save(context->stored, key, &stored));
    md_tn_stored_list_finish(&stored);
    free(key);
    md_cb_destroy(&cb);
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    md_bd_wait_all(context->builder);
    (void)md_combo_run(combo, NULL, NULL, 0); /* the kernels are there: planned anew */
    md_bd_wait_all(context->builder);
    memset(text, 0, 16384);
    assert_ok(md_combo_explain(combo, 0, take, text));
    md_combo_destroy(&combo);
    free_list(add);
}

/* A stored winner is merged like any kernel, and no item gets a larger block than its own sizes ask for. Nothing is
 * run, so the winner is written by hand. */
static void choices(void **state)
{
    char folder[] = "/tmp/md_test_combo_kernels_XXXXXX", text[16384], command[96], from[96], to[96];
    md_tn_stored_swap winner;
    (void)state;
    assert_non_null(mkdtemp(folder));
    open_for("sm_90a", folder);
    explain_two(text, "i=4096, j=2", NULL);
    const char *name = strstr(text, "items, pointwise");
    assert_non_null(name);
    assert_int_equal(sscanf(name, "items, %95s", from), 1);
    strcpy(to, from);
    char *unroll = strstr(to, "unroll1");
    if (!unroll)
        fail_msg("%s", text);
    unroll[strlen("unroll")] = '4';
    memset(&winner, 0, sizeof winner);
    winner.of.us = 1.0;
    winner.of.at.environment = md_tn_stored_environment(context->stored);
    memcpy(winner.of.variant, from, sizeof from);
    memcpy(winner.to, to, sizeof to);
    explain_two(text, "i=4096, j=2", &winner);
    if (!strstr(text, to) || !strstr(text, "unroll2") || strstr(text, "unroll1") || strstr(text, "being built"))
        fail_msg("limits 4096 and 2: %s", text);
    explain_two(text, "i=4096, j=1000", &winner);
    if (!strstr(text, to) || strstr(text, "unroll2") || strstr(text, "unroll1") || !strstr(text, "(ready)"))
        fail_msg("limits 4096 and 1024: %s", text);
    md_context_destroy(&context);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables),
                                       cmocka_unit_test(tiny_items),
                                       cmocka_unit_test(bodies_for_sm_80),
                                       cmocka_unit_test(bodies_for_sm_90a),
                                       cmocka_unit_test(bodies_for_sm_100a),
                                       cmocka_unit_test(choices)};
    return cmocka_run_group_tests_name("combo_kernels", tests, NULL, NULL);
}
