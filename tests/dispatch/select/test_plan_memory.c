/* Memory inside one op: temporaries that no stage needs together share it. Each stage runs on memory in which all that
 * does not live is poisoned, so that a wrong life gives a wrong result. */
#include "base/dtype.h"
#include "device/open.h"
#include "dispatch/call/call.h"
#include "dispatch/create.h"
#include "dispatch/open.h"
#include "dispatch/run/run.h"
#include "dispatch/select/plan.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 24, COLUMNS = 40, POISON = 0xff };

/* Rows and columns are scaled in turn, so no stage can be fused with its neighbour. */
static const char *const sinkhorn = "let a[i,j] = exp(X[i,j]);\n"
                                    "let b[i,j] = a[i,j] / sum[k](a[i,k]);\n"
                                    "let c[i,j] = b[i,j] / sum[l](b[l,j]);\n"
                                    "let d[i,j] = c[i,j] / sum[k](c[i,k]);\n"
                                    "let e[i,j] = d[i,j] / sum[l](d[l,j]);\n"
                                    "let f[i,j] = e[i,j] / sum[k](e[i,k]);\n"
                                    "Y[i,j] = f[i,j] / sum[l](f[l,j])";
/* The first temporary is read by the last stage. */
static const char *const long_life = "let a[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]));\n"
                                     "let b[i,j] = a[i,j] / sum[l](a[l,j]);\n"
                                     "let c[i,j] = b[i,j] / sum[k](b[i,k]);\n"
                                     "Y[i,j] = a[i,j] + c[i,j] / sum[l](c[l,j])";

static md_log no_log;
static md_pool *pool;
static md_dev *dev;
static md_bd *builder;
static md_ds_runtime runtime;
static md_dev_ops poisoning;

/* The run that is being watched. */
static struct {
    const md_ds_op *op;
    const md_ds_plan *plan;
    unsigned char *memory;
    int depth, stage;
} seen;

static bool touches(int32_t stage, int32_t tensor)
{
    const md_st_stage *s = &seen.op->program->stage[stage];
    for (int32_t i = 0; i < s->n_tensors; i++)
        if (s->tensor[i] == tensor)
            return true;
    return false;
}

/* True if a stage before `stage` wrote the tensor, and that stage or a later one reads it. */
static bool lives(int32_t stage, int32_t tensor)
{
    bool is_written = false, is_needed = false;
    for (int32_t s = 0; s < seen.op->n_stages; s++) {
        is_written |= s < stage && touches(s, tensor);
        is_needed |= s >= stage && touches(s, tensor);
    }
    return is_written && is_needed;
}

static void poison(int32_t stage)
{
    unsigned char *keep = calloc(1, seen.plan->workspace_bytes);
    assert_non_null(keep);
    for (int32_t t = 0; t < seen.op->formula->n_tensors; t++)
        if (seen.op->program->is_temp_stored[t] && lives(stage, t))
            memset(keep + seen.plan->temp_offset[t], 1, ROWS * COLUMNS * sizeof(float));
    for (size_t i = 0; i < seen.plan->workspace_bytes; i++)
        if (!keep[i])
            seen.memory[i] = POISON;
    free(keep);
}

/* The op's range is outermost, then a stage's. */
static void push(md_dev *device, const char *name)
{
    (void)device;
    (void)name;
    if (++seen.depth == 2)
        poison(seen.stage++);
}

static void pop(md_dev *device)
{
    (void)device;
    seen.depth--;
}

static int set_up(void **state)
{
    (void)state;
    assert_ok(md_pool_create(&pool, 2));
    assert_ok(md_dev_open(&dev, &(md_dev_options){.device = "host", .pool = pool, .log = &no_log}));
    poisoning = *dev->ops;
    poisoning.range_push = push;
    poisoning.range_pop = pop;
    dev->ops = &poisoning;
    assert_ok(md_bd_create(&builder, dev));
    md_ds_runtime_init(&runtime);
    runtime.dev = dev;
    runtime.builder = builder;
    runtime.log = &no_log;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_ds_runtime_finish(&runtime);
    md_bd_destroy(&builder);
    md_dev_close(&dev);
    md_pool_destroy(&pool);
    return 0;
}

static md_ds_op *make(const char *formula)
{
    md_ds_op *op = NULL;
    const md_ds_op_options o = {
        .compile.hints = "32",
        .compile.hints_source = "test",
        .compile.policy = {.select = MD_SELECT_MODEL, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO},
        .max_shapes = 10,
    };
    assert_ok(md_ds_op_create(&op, &runtime, formula, &o));
    md_ds_op_wait(op);
    return op;
}

/* Runs the op on poisoned memory. */
static md_ds_plan *run(md_ds_op *op, float *y, float *x)
{
    md_tensor tensor[2] = {md_tensor_make(x, MD_F32, 2, (int64_t[]){ROWS, COLUMNS}),
                           md_tensor_make(y, MD_F32, 2, (int64_t[]){ROWS, COLUMNS})};
    const md_arg arg[] = {md_t(&tensor[0]), md_t(&tensor[1])};
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    assert_ok(md_ds_bind(&bound, op, arg, 2));
    bound.is_patient = true;
    assert_ok(md_ds_find(&entry, op, NULL, &bound));
    md_ds_plan *plan = md_ds_plan_of(entry);
    assert_false(plan->is_stand_in || plan->by_reference);
    void *memory = aligned_alloc(256, plan->workspace_bytes + 256);
    seen.op = op;
    seen.plan = plan;
    seen.memory = memory;
    seen.stage = seen.depth = 0;
    assert_ok(md_ds_run_in(op, plan, NULL, &bound, memory));
    assert_int_equal(seen.stage, op->n_stages);
    free(memory);
    md_ds_shape_entry_release(entry);
    return plan;
}

static void scale_rows(double *x)
{
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int j = 0; j < COLUMNS; j++)
            sum += x[i * COLUMNS + j];
        for (int j = 0; j < COLUMNS; j++)
            x[i * COLUMNS + j] /= sum;
    }
}

static void scale_columns(double *x)
{
    for (int j = 0; j < COLUMNS; j++) {
        double sum = 0;
        for (int i = 0; i < ROWS; i++)
            sum += x[i * COLUMNS + j];
        for (int i = 0; i < ROWS; i++)
            x[i * COLUMNS + j] /= sum;
    }
}

static void expect(const float *y, const float *x, int n_rounds, bool adds_first)
{
    static double want[ROWS * COLUMNS], first[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        want[i] = exp((double)x[i]);
    for (int r = 0; r < n_rounds; r++) {
        scale_rows(want);
        if (r == 0)
            memcpy(first, want, sizeof first);
        scale_columns(want);
    }
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(fabs((double)y[i] - want[i] - (adds_first ? first[i] : 0.0)) < 1e-5);
}

static void fill(float *x)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
}

static void temporaries_share_memory(void **state)
{
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    (void)state;
    fill(x);
    md_ds_op *op = make(sinkhorn);
    assert_true(op->n_stages >= 6);
    const md_ds_plan *plan = run(op, y, x);
    expect(y, x, 3, false);
    assert_true(plan->unshared_bytes >= 5 * ROWS * COLUMNS * sizeof(float));
    assert_true(plan->workspace_bytes * 2 <= plan->unshared_bytes);
    md_ds_op_destroy(&op);
}

static void what_is_read_late_lives_long(void **state)
{
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    (void)state;
    fill(x);
    md_ds_op *op = make(long_life);
    assert_true(op->n_stages >= 4);
    const md_ds_plan *plan = run(op, y, x);
    expect(y, x, 2, true);
    assert_true(plan->workspace_bytes >= 3 * ROWS * COLUMNS * sizeof(float));
    md_ds_op_destroy(&op);
}

/* Pieces at random: those that live together never overlap, and the end is the highest end. */
static void pieces_that_live_together_lie_apart(void **state)
{
    uint32_t seed = 12345;
    (void)state;
    for (int round = 0; round < 200; round++) {
        md_ds_piece p[12];
        size_t end = 0, most = 0;
        for (int i = 0; i < 12; i++) {
            seed = seed * 1664525u + 1013904223u;
            const int32_t first = (int32_t)(seed >> 8 & 7);
            p[i] = (md_ds_piece){first, first + (int32_t)(seed >> 12 & 3), (size_t)(seed >> 20 & 15) * 256, 0};
        }
        assert_ok(md_ds_place_pieces(&end, p, 0, 12));
        for (int i = 0; i < 12; i++) {
            most = p[i].offset + p[i].n_bytes > most ? p[i].offset + p[i].n_bytes : most;
            assert_int_equal(p[i].offset % 256, 0);
            for (int k = 0; k < i; k++)
                assert_true(p[i].first > p[k].last || p[k].first > p[i].last ||
                            p[i].offset >= p[k].offset + p[k].n_bytes || p[k].offset >= p[i].offset + p[i].n_bytes);
        }
        assert_int_equal(end, most);
    }
    md_ds_piece large[2] = {{0, 1, (size_t)INT64_MAX - 255, 0}, {0, 1, 512, 0}};
    size_t end = 0;
    assert_ok(md_ds_place_pieces(&end, large, 0, 2));
    assert_true(end == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temporaries_share_memory),
        cmocka_unit_test(what_is_read_late_lives_long),
        cmocka_unit_test(pieces_that_live_together_lie_apart),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
