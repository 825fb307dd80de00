/* Combos on a real GPU: kernels of many items give the bits of calls of each item, for random sizes, several ops, long
 * lists, addresses that move and captures. Nothing outside the outputs is written: whole memories are compared. Skips
 * itself where there is no GPU. */
#include "md_build_config.h"
#include "support/check.h"

#include <md/combo.h>

#if MD_HAVE_CUDA
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_ITEMS = 4000, MOST_ARGS = 4, GAP = 64, ROOM = 48 << 20, TRIES = 1200 };

static md_context *context;
static float *content;

/* Two memories with the same content: combos run in one, calls of single items in the other. */
static char *memory[2];

static int set_up(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    content = malloc(ROOM);
    for (size_t i = 0; content && i < ROOM / sizeof *content; i++)
        content[i] = (float)(check_random(&seed) % 2000) / 500.0F - 2.0F;
    return !content || md_alloc((void **)&memory[0], context, ROOM) != MD_OK ||
           md_alloc((void **)&memory[1], context, ROOM) != MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    free(content);
    md_context_destroy(&context);
    return 0;
}

typedef struct part {
    md_op *op;
    int32_t n_args;
    int64_t n, max_rows, max_columns; /* sizes of items are drawn up to these; 0: no such axis */
    int64_t offset[MOST_ITEMS][MOST_ARGS], size[MOST_ITEMS][2];
    md_tensor tensor[MOST_ITEMS][MOST_ARGS];
    md_arg args[MOST_ITEMS][MOST_ARGS];
} part;

static bool is_scalar(const part *p, int32_t arg)
{
    md_arg_info info;
    assert_ok(md_op_arg(&info, p->op, arg));
    return info.is_scalar;
}

/* Arguments of an item; O and P are one tensor, other tensors lie one after another with gaps between them. */
static void lay_out(part *p, int64_t item, int64_t *end)
{
    md_arg_info info;
    int64_t at_p = -1;
    for (int32_t a = 0; a < p->n_args; a++) {
        assert_ok(md_op_arg(&info, p->op, a));
        if (info.is_scalar)
            continue;
        const bool is_p = !strcmp(info.name, "P") || !strcmp(info.name, "O");
        const int64_t *size = p->size[item], own[2] = {size[0], size[1]};
        int64_t n = 1;
        for (int32_t axis = 0; axis < info.rank; axis++)
            n *= own[axis];
        if (is_p && at_p >= 0) {
            p->offset[item][a] = at_p;
        } else {
            p->offset[item][a] = *end;
            *end += (n * 4 + 15) / 16 * 16 + GAP;
        }
        if (is_p)
            at_p = p->offset[item][a];
        p->tensor[item][a] = md_tensor_make(NULL, MD_F32, info.rank, own);
    }
}

static part *make_part(const char *formula, int64_t n, int64_t max_rows, int64_t max_columns, uint64_t *seed,
                       int64_t *end)
{
    part *p = calloc(1, sizeof *p);
    assert_non_null(p);
    assert_ok(md_op_create(&p->op, context, formula, NULL));
    assert_ok(md_op_wait(p->op));
    p->n_args = md_op_n_args(p->op);
    p->n = n;
    for (int64_t i = 0; i < n; i++) {
        p->size[i][0] = (int64_t)(check_random(seed) % (uint64_t)max_rows) + (i % 11 != 5); /* some are empty */
        p->size[i][1] = max_columns ? 1 + (int64_t)(check_random(seed) % (uint64_t)max_columns) : 1;
        lay_out(p, i, end);
    }
    assert_true(*end < ROOM / 2);
    return p;
}

static void free_part(part *p)
{
    md_op_destroy(&p->op);
    free(p);
}

/* Arguments of all items in a memory. */
static void point(part *p, char *base, double scalar)
{
    for (int64_t i = 0; i < p->n; i++)
        for (int32_t a = 0; a < p->n_args; a++) {
            p->tensor[i][a].data = base + p->offset[i][a];
            p->args[i][a] = is_scalar(p, a) ? md_s(scalar) : md_t(&p->tensor[i][a]);
        }
}

static void call_each(part *p, char *base, double scalar)
{
    point(p, base, scalar);
    for (int64_t i = 0; i < p->n; i++)
        assert_ok(md_call(p->op, NULL, p->args[i], p->n_args));
}

static void start(void)
{
    for (int k = 0; k < 2; k++)
        assert_ok(md_copy(context, memory[k], content, ROOM));
}

static void expect_equal(void)
{
    char *got[2];
    for (int k = 0; k < 2; k++) {
        got[k] = malloc(ROOM);
        assert_non_null(got[k]);
        assert_ok(md_copy(context, got[k], memory[k], ROOM));
    }
    for (size_t i = 0; memcmp(got[0], got[1], ROOM) && i < ROOM; i++)
        if (got[0][i] != got[1][i])
            fail_msg("byte %zu differs", i);
    assert_memory_not_equal(got[0], content, ROOM); /* something was computed */
    free(got[0]);
    free(got[1]);
}

static int take(void *user, const char *text, size_t n)
{
    char *to = user;
    if (strlen(to) + n < 65536)
        strncat(to, text, n);
    return 0;
}

/* Runs once, and waits until no kernel is being built. Returns the number of launches that are ready. */
static int settle(md_combo *combo)
{
    static char json[65536];
    int n = 0;
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    for (int i = 0; i < TRIES; i++, usleep(100000)) {
        json[0] = 0;
        assert_ok(md_combo_explain(combo, 1, take, json));
        if (!strstr(json, "being built"))
            break;
    }
    for (const char *at = json; (at = strstr(at, "\"state\":\"ready\"")) != NULL; at++)
        n++;
    if (n == 0)
        print_message("%s\n", json);
    return n;
}

static md_combo *bind(part *const *p, int32_t n, char *base, double scalar)
{
    md_combo *combo = NULL;
    md_combo_part all[8];
    for (int32_t i = 0; i < n; i++) {
        point(p[i], base, scalar);
        all[i] = (md_combo_part){p[i]->op, &p[i]->args[0][0], p[i]->n_args, p[i]->n};
    }
    for (int32_t i = 0; i < n; i++) { /* rows of md_arg are MOST_ARGS apart, and a combo wants them packed */
        md_arg *packed = malloc((size_t)p[i]->n * (size_t)p[i]->n_args * sizeof *packed);
        assert_non_null(packed);
        for (int64_t k = 0; k < p[i]->n; k++)
            memcpy(packed + k * p[i]->n_args, p[i]->args[k], (size_t)p[i]->n_args * sizeof *packed);
        all[i].args = packed;
    }
    assert_ok(md_combo_bind(&combo, context, all, n));
    for (int32_t i = 0; i < n; i++)
        free((void *)(uintptr_t)all[i].args);
    return combo;
}

/* ---- The tests */

static void equals_calls(const char *what, part *const *p, int32_t n)
{
    start();
    md_combo *combo = bind(p, n, memory[0], 0.25);
    const int ready = settle(combo);
    for (int k = 0; k < 2; k++)
        assert_ok(md_combo_run(combo, NULL, NULL, 0));
    for (int k = 0; k < 3; k++)
        for (int32_t i = 0; i < n; i++)
            call_each(p[i], memory[1], 0.25);
    expect_equal();
    print_message("%s: %d launches of many items\n", what, ready);
    assert_true(ready > 0);
    md_combo_destroy(&combo);
}

static void one_op(const char *formula, int64_t items, int64_t rows, int64_t columns)
{
    uint64_t seed = check_seed();
    int64_t end = 0;
    part *p = make_part(formula, items, rows, columns, &seed, &end);
    equals_calls(formula, &p, 1);
    free_part(p);
}

#define UPDATE "scalar lr; P[i] = O[i] - lr * G[i]"
#define SOFTMAX "let m[r] = max[k](X[r,k]); let e[r,k] = exp(X[r,k] - m[r]); Y[r,k] = e[r,k] / sum[k](e[r,k])"

static void updates(void **state)
{
    (void)state;
    one_op(UPDATE, 300, 9000, 0);
}

static void tiny_items(void **state)
{
    (void)state;
    one_op("Y[i] = A[i] + B[i]", MOST_ITEMS, 64, 0);
}

static void rows(void **state)
{
    (void)state;
    one_op(SOFTMAX, 60, 40, 1500);
}

static void several_ops(void **state)
{
    uint64_t seed = check_seed();
    int64_t end = 0;
    (void)state;
    part *p[4] = {make_part(UPDATE, 50, 5000, 0, &seed, &end), make_part(SOFTMAX, 30, 20, 700, &seed, &end),
                  make_part("Y[r] = sum[k](X[r,k] * X[r,k])", 30, 30, 900, &seed, &end),
                  make_part("Y[i] = tanh(X[i])", 200, 300, 0, &seed, &end)};
    equals_calls("several ops", p, 4);
    for (int i = 0; i < 4; i++)
        free_part(p[i]);
}

/* All tensors of the only part lie `shift` bytes further on from now on. */
static void point_at(md_combo *combo, const part *p, int64_t shift)
{
    void *data[MOST_ITEMS];
    for (int32_t a = 0; a < p->n_args; a++) {
        for (int64_t i = 0; i < p->n; i++)
            data[i] = memory[0] + shift + p->offset[i][a];
        if (!is_scalar(p, a))
            assert_ok(md_combo_point(combo, 0, a, data));
    }
}

/* New addresses with the same alignment, with another one, and new scalars. */
static void move_items(int64_t n, int64_t most)
{
    uint64_t seed = check_seed();
    int64_t end = 0;
    part *p = make_part(UPDATE, n, most, 0, &seed, &end);
    start();
    md_combo *combo = bind(&p, 1, memory[0], 0.25);
    assert_true(settle(combo) > 0);
    call_each(p, memory[1], 0.25);
    for (int64_t shift = ROOM / 2; shift <= ROOM / 2 + 4; shift += 4) {
        point_at(combo, p, shift);
        assert_ok(md_combo_run(combo, NULL, (md_arg[]){md_s(-0.5)}, 1));
        call_each(p, memory[1] + shift, -0.5);
    }
    expect_equal();
    md_combo_destroy(&combo);
    free_part(p);
}

static void moves(void **state)
{
    (void)state;
    move_items(100, 4000);
    move_items(1500, 600); /* tables in device memory, by blocks */
    move_items(1500, 64); /* and by warps */
}

typedef struct captured_run {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
} captured_run;

/* Captures one run of the combo on a stream of its own. */
static captured_run capture(md_combo *combo)
{
    captured_run c;
    assert_ok(md_sync(context, NULL));
    assert_int_equal(cudaStreamCreateWithFlags(&c.stream, cudaStreamNonBlocking), 0);
    assert_int_equal(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeGlobal), 0);
    assert_ok(md_combo_run(combo, (md_stream)c.stream, NULL, 0));
    assert_int_equal(cudaStreamEndCapture(c.stream, &c.graph), 0);
    assert_int_equal(cudaGraphInstantiate(&c.exec, c.graph, 0), 0);
    return c;
}

static void launch(const captured_run *c, int n)
{
    for (int k = 0; k < n; k++)
        assert_int_equal(cudaGraphLaunch(c->exec, c->stream), 0);
    assert_int_equal(cudaStreamSynchronize(c->stream), 0);
}

static void finish(captured_run *c)
{
    assert_int_equal(cudaGraphExecDestroy(c->exec), 0);
    assert_int_equal(cudaGraphDestroy(c->graph), 0);
    assert_int_equal(cudaStreamDestroy(c->stream), 0);
}

/* A graph has addresses and scalars as they were, whatever the combo does later. */
static void captured(void **state)
{
    uint64_t seed = check_seed();
    int64_t end = 0;
    (void)state;
    part *p = make_part(UPDATE, 2000, 600, 0, &seed, &end);
    start();
    md_combo *combo = bind(&p, 1, memory[0], 0.25);
    assert_true(settle(combo) > 0);
    captured_run c = capture(combo);
    assert_ok(md_combo_run(combo, (md_stream)c.stream, (md_arg[]){md_s(-0.5)}, 1));
    md_combo_destroy(&combo);
    launch(&c, 2);
    const double lr[] = {0.25, -0.5, 0.25, 0.25};
    for (int k = 0; k < 4; k++)
        call_each(p, memory[1], lr[k]);
    expect_equal();
    finish(&c);
    free_part(p);
}

/* New addresses within a capture make a new table there, and nothing ends the capture. */
static void moved_while_captured(void **state)
{
    const int64_t shift = ROOM / 2;
    uint64_t seed = check_seed();
    int64_t end = 0;
    (void)state;
    part *p = make_part(UPDATE, 2000, 600, 0, &seed, &end);
    start();
    md_combo *combo = bind(&p, 1, memory[0], 0.25);
    assert_true(settle(combo) > 0);
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    point_at(combo, p, shift);
    captured_run c = capture(combo);
    md_combo_destroy(&combo);
    launch(&c, 1);
    for (int k = 0; k < 2; k++)
        call_each(p, memory[1], 0.25);
    call_each(p, memory[1] + shift, 0.25);
    expect_equal();
    finish(&c);
    free_part(p);
}

int main(void)
{
    if (md_context_create(&context, &(md_context_options){.device = "cuda", .hints = "64,4096"}) != MD_OK) {
        printf("SKIPPED, nothing was tested: %s\n", md_last_error());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates),
        cmocka_unit_test(tiny_items),
        cmocka_unit_test(rows),
        cmocka_unit_test(several_ops),
        cmocka_unit_test(moves),
        cmocka_unit_test(captured),
        cmocka_unit_test(moved_while_captured),
    };
    return cmocka_run_group_tests_name("combos on a GPU", tests, set_up, tear_down);
}
#else
int main(void)
{
    return 0; /* built without CUDA */
}
#endif
