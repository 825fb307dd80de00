/* Combos against calls of each item alone: equal bits, whatever the mix of ops and sizes. */
#include "support/host_context.h"

#include <md/combo.h>
#include <stdbool.h>

enum { ITEMS = 200, MOST = 3000 };

static float *fill(float *x, int64_t n, uint64_t *seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(check_random(seed) % 2000) / 500.0F - 2.0F;
    return x;
}

/* ---- An update in place with a scalar: O is P */

typedef struct list {
    int64_t n;
    float *p[ITEMS], *g[ITEMS];
    md_tensor tensor[ITEMS][2];
    md_arg args[ITEMS][4];
} list;

static list *make_list(md_op *op, int64_t n, uint64_t seed)
{
    list *l = calloc(1, sizeof *l);
    md_arg_info info;
    l->n = n;
    for (int64_t i = 0; i < n; i++) {
        const int64_t size = (int64_t)(check_random(&seed) % (i % 10 == 0 ? MOST : 64)) + (i % 7 != 3);
        l->p[i] = fill(calloc(MOST + 1, sizeof(float)), size, &seed);
        l->g[i] = fill(calloc(MOST + 1, sizeof(float)), size, &seed);
        for (int32_t a = 0; a < 4; a++) {
            assert_ok(md_op_arg(&info, op, a));
            const bool is_p = strcmp(info.name, "G") != 0;
            if (info.is_scalar) {
                l->args[i][a] = md_s(0.25);
            } else {
                l->tensor[i][is_p] = md_tensor_make(is_p ? l->p[i] : l->g[i], MD_F32, 1, &size);
                l->args[i][a] = md_t(&l->tensor[i][is_p]);
            }
        }
    }
    return l;
}

static void free_list(list *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        free(l->p[i]);
        free(l->g[i]);
    }
    free(l);
}

static void expect_equal(const list *a, const list *b)
{
    for (int64_t i = 0; i < a->n; i++)
        if (memcmp(a->p[i], b->p[i], MOST * sizeof(float)))
            fail_msg("item %d differs", (int)i);
}

static md_combo_part part_of(md_op *op, list *l)
{
    return (md_combo_part){op, &l->args[0][0], 4, l->n};
}

static void call_each(md_op *op, const list *l)
{
    for (int64_t i = 0; i < l->n; i++)
        assert_ok(md_call(op, NULL, l->args[i], 4));
}

static void equals_calls(void **state)
{
    md_op *op = make("scalar lr; P[i] = O[i] - lr * G[i]");
    list *a = make_list(op, ITEMS, 1), *b = make_list(op, ITEMS, 1);
    const md_combo_part part = part_of(op, a);
    md_combo *combo = NULL;
    (void)state;
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    for (int k = 0; k < 4; k++) {
        assert_ok(md_combo_run(combo, NULL, NULL, 0));
        call_each(op, b);
    }
    expect_equal(a, b);
    for (int64_t i = 0; i < b->n; i++)
        for (int32_t s = 0; s < 4; s++)
            if (b->args[i][s].kind == MD_ARG_REAL)
                b->args[i][s] = md_s(-0.1);
    assert_ok(md_combo_run(combo, NULL, (md_arg[]){md_s(-0.1)}, 1));
    call_each(op, b);
    expect_equal(a, b);
    md_combo_destroy(&combo);
    assert_null(combo);
    free_list(a);
    free_list(b);
    md_op_destroy(&op);
}

/* The list is found again; its addresses and scalars are those of each call. */
static void calls_take_what_they_are_given(void **state)
{
    md_op *op = make("scalar lr; P[i] = O[i] - lr * G[i]");
    list *a = make_list(op, 40, 2), *b = make_list(op, 40, 2), *c = make_list(op, 40, 2);
    (void)state;
    for (int k = 0; k < 3; k++) {
        const md_combo_part first = part_of(op, a), second = part_of(op, c);
        assert_ok(md_combo_call(context, NULL, &first, 1));
        assert_ok(md_combo_call(context, NULL, &second, 1));
        call_each(op, b);
    }
    expect_equal(a, b);
    expect_equal(c, b);
    free_list(a);
    free_list(b);
    free_list(c);
    md_op_destroy(&op);
}

/* Pointers that move between runs. */
static void points_elsewhere(void **state)
{
    md_op *op = make("scalar lr; P[i] = O[i] - lr * G[i]");
    list *a = make_list(op, ITEMS, 3), *b = make_list(op, ITEMS, 3);
    const md_combo_part part = part_of(op, a);
    md_combo *combo = NULL;
    float *moved[ITEMS];
    md_arg_info info;
    (void)state;
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    for (int64_t i = 0; i < a->n; i++) { /* off every boundary of 16 bytes */
        char *p = malloc((MOST + 2) * sizeof(float));
        moved[i] = (float *)(void *)(p + sizeof(float));
        memcpy(moved[i], a->p[i], MOST * sizeof(float));
    }
    for (int32_t arg = 0; arg < 4; arg++) {
        assert_ok(md_op_arg(&info, op, arg));
        if (!strcmp(info.name, "P") || !strcmp(info.name, "O"))
            assert_ok(md_combo_point(combo, 0, arg, (void *const *)moved));
    }
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    call_each(op, b);
    expect_equal(a, b);
    call_each(op, b);
    for (int64_t i = 0; i < a->n; i++) {
        memcpy(a->p[i], moved[i], MOST * sizeof(float));
        free(moved[i] - 1);
    }
    expect_equal(a, b);
    md_combo_destroy(&combo);
    free_list(a);
    free_list(b);
    md_op_destroy(&op);
}

/* ---- Several ops: rows, two stages, a product */

static const char *const formulas[] = {
    "let m[r] = max[k](X[r,k]); let e[r,k] = exp(X[r,k] - m[r]); Y[r,k] = e[r,k] / sum[k](e[r,k])",
    "Y[r] = sum[k](X[r,k] * X[r,k])",
    "Y[r,c] = sum[k](X[r,k] * X[c,k])",
    "let s[k] = cumsum[k](X[0,k]); Y[r,k] = X[r,k] + s[k]",
};
enum { OPS = 4, EACH = 12 };

typedef struct mixed {
    float *x[OPS][EACH], *y[OPS][EACH];
    md_tensor tensor[OPS][EACH][2];
    md_arg args[OPS][EACH][2];
} mixed;

static mixed *make_mixed(md_op *const *op, uint64_t seed)
{
    mixed *m = calloc(1, sizeof *m);
    md_arg_info info;
    for (int o = 0; o < OPS; o++)
        for (int i = 0; i < EACH; i++) {
            const int64_t rows = 1 + (int64_t)(check_random(&seed) % 20),
                          row = 1 + (int64_t)(check_random(&seed) % 150);
            const int64_t size[2] = {rows, row}, square[2] = {rows, rows};
            m->x[o][i] = fill(malloc(MOST * sizeof(float)), MOST, &seed);
            m->y[o][i] = calloc(MOST, sizeof(float));
            for (int32_t a = 0; a < 2; a++) {
                assert_ok(md_op_arg(&info, op[o], a));
                const bool is_x = !strcmp(info.name, "X");
                m->tensor[o][i][a] =
                    md_tensor_make(is_x ? m->x[o][i] : m->y[o][i], MD_F32, info.rank, o == 2 && !is_x ? square : size);
                m->args[o][i][a] = md_t(&m->tensor[o][i][a]);
            }
        }
    return m;
}

static void free_mixed(mixed *m)
{
    for (int o = 0; o < OPS; o++)
        for (int i = 0; i < EACH; i++) {
            free(m->x[o][i]);
            free(m->y[o][i]);
        }
    free(m);
}

static void mixes_ops(void **state)
{
    md_op *op[OPS];
    md_combo_part part[OPS];
    md_combo *combo = NULL;
    (void)state;
    for (int o = 0; o < OPS; o++)
        op[o] = make(formulas[o]);
    mixed *a = make_mixed(op, 7), *b = make_mixed(op, 7);
    for (int o = 0; o < OPS; o++)
        part[o] = (md_combo_part){op[o], &a->args[o][0][0], 2, EACH};
    assert_ok(md_combo_bind(&combo, context, part, OPS));
    for (int k = 0; k < 3; k++)
        assert_ok(md_combo_run(combo, NULL, NULL, 0));
    for (int o = 0; o < OPS; o++)
        for (int i = 0; i < EACH; i++) {
            assert_ok(md_call(op[o], NULL, b->args[o][i], 2));
            if (memcmp(a->y[o][i], b->y[o][i], MOST * sizeof(float)))
                fail_msg("op %d, item %d differs", o, i);
        }
    for (int o = 0; o < OPS; o++)
        md_op_destroy(&op[o]);
    assert_ok(md_combo_run(combo, NULL, NULL, 0)); /* it keeps what it needs of the ops */
    md_combo_destroy(&combo);
    free_mixed(a);
    free_mixed(b);
}

static int take(void *user, const char *text, size_t n)
{
    char *to = user;
    assert_true(strlen(to) + n < 4096);
    memcpy(to + strlen(to), text, n);
    return 0;
}

/* Threads share a long loop. A short one is over before another thread wakes up. Two items of `n` tensors: matrices
 * are [size][4096], of which the formula reads a column. */
static void expect_pieces(const char *formula, int32_t n, int64_t size, bool is_one)
{
    md_op *op = NULL;
    md_combo *combo = NULL;
    md_tensor tensor[2][3];
    md_arg args[2 * 3];
    md_arg_info info;
    char json[4096] = "";
    assert_ok(md_op_create(&op, context, formula, &(md_op_options){.select = MD_SELECT_DISTANCE})); /* always a loop */
    assert_ok(md_op_wait(op));
    for (int i = 0; i < 2; i++)
        for (int32_t a = 0; a < n; a++) {
            assert_ok(md_op_arg(&info, op, a));
            const int64_t sizes[2] = {size, 4096};
            const size_t elements = (size_t)size * (info.rank == 2 ? 4096 : 1);
            tensor[i][a] = md_tensor_make(calloc(elements, sizeof(float)), MD_F32, info.rank, sizes);
            args[i * n + a] = md_t(&tensor[i][a]);
        }
    assert_ok(md_combo_bind(&combo, context, &(md_combo_part){op, args, n, 2}, 1));
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    assert_ok(md_combo_explain(combo, 1, take, json));
    assert_null(strstr(json, "\"pieces\":0,"));
    assert_int_equal(strstr(json, "\"pieces\":1,") != NULL, is_one);
    md_combo_destroy(&combo);
    md_op_destroy(&op);
    for (int i = 0; i < 2; i++)
        for (int32_t a = 0; a < n; a++)
            free(tensor[i][a].data);
}

/* What is long depends on the rates: here those of a usual machine. */
static void cuts_long_loops_only(void **state)
{
    const char *const given = getenv("MD_RATES");
    char before[64] = "";
    if (given)
        snprintf(before, sizeof before, "%s", given);
    setenv("MD_RATES", "20000,12000,60000,60000,2000", 1);
    md_context_destroy(&context);
    assert_int_equal(set_up(state), 0);
    expect_pieces("Y[i] = X[i,0]", 2, 4, true);
    expect_pieces("P[i] = O[i] + G[i]", 3, 1 << 19, false);
    given ? setenv("MD_RATES", before, 1) : unsetenv("MD_RATES");
    md_context_destroy(&context);
    assert_int_equal(set_up(state), 0);
}

static void explains(void **state)
{
    md_op *op = make("scalar lr; P[i] = O[i] - lr * G[i]");
    list *a = make_list(op, 20, 4);
    const md_combo_part part = part_of(op, a);
    md_combo *combo = NULL;
    char text[4096] = "", json[4096] = "";
    (void)state;
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    assert_ok(md_combo_explain(combo, 0, take, text));
    assert_ok(md_combo_explain(combo, 1, take, json));
    assert_non_null(strstr(text, "20 items"));
    assert_non_null(strstr(json, "\"items\":20"));
    /* a loop or launches, as the model decides by this machine's rates */
    assert_non_null(strstr(json, "\"form\":\""));
    assert_null(strstr(json, "by a call of its own"));
    assert_non_null(strstr(json, "\"together\":[{\"part\":0,\"level\":0,\"items\":"));
    assert_non_null(strstr(json, "\"alone\":[]"));
    md_combo_destroy(&combo);
    free_list(a);
    md_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_calls),     cmocka_unit_test(calls_take_what_they_are_given),
        cmocka_unit_test(points_elsewhere), cmocka_unit_test(mixes_ops),
        cmocka_unit_test(explains),         cmocka_unit_test(cuts_long_loops_only),
    };
    return cmocka_run_group_tests_name("combo", tests, set_up, tear_down);
}
