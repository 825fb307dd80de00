/* Reductions over several indices that lie together: calls with contiguous tensors take fewer stages, others take those
 * of the formula, and both are right. */
#include "support/check.h"

#include "md/combo.h"
#include "md/sequence.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1680 };

static md_context *context;

static int set_up(void **state)
{
    (void)state;
    const md_context_options o = {.device = "host", .threads = 1, .hints = "16"};
    return md_context_create(&context, &o) != MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static md_op *make(const char *formula, const md_op_options *o)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, formula, o));
    return op;
}

/* The tensors of a call: the inputs have a gap behind each element of one axis. */
typedef struct call {
    md_tensor tensor[8];
    md_arg arg[8];
    _Alignas(64) float data[8][MOST]; /* as md_prepare takes tensors to be */
    int32_t n;
} call;

static void set_tensor(call *c, md_op *op, int32_t i, const char *sizes, int32_t gap_axis)
{
    md_tensor *t = &c->tensor[i];
    int64_t stride = 1;
    assert_ok(md_op_tensor(t, op, i, sizes));
    for (int32_t a = t->rank - 1; a >= 0; a--) {
        t->stride[a] = stride;
        stride = stride * t->size[a] + (a == gap_axis ? 4 : 0);
    }
    assert_true(stride <= MOST);
    for (int32_t k = 0; k < MOST; k++)
        c->data[i][k] = (float)((k * 37 + i) % 64 - 30) / 8.0f;
    t->data = c->data[i];
    c->arg[i] = (md_arg){.kind = MD_ARG_TENSOR, .tensor = t};
}

static call *make_call(md_op *op, const char *sizes, int32_t gap_axis)
{
    call *c = aligned_alloc(64, sizeof *c);
    assert_non_null(c);
    memset(c, 0, sizeof *c);
    c->n = md_op_n_args(op);
    for (int32_t i = 0; i < c->n; i++) {
        md_arg_info info;
        assert_ok(md_op_arg(&info, op, i));
        if (info.is_scalar)
            c->arg[i] = md_s(0.75);
        else
            set_tensor(c, op, i, sizes, i ? gap_axis : -1);
    }
    return c;
}

/* Argument 0 is the output: what calls give there is what the reference gives. */
static void check_values(md_op *op, call *c, const char *formula)
{
    float *right = malloc(sizeof c->data[0]);
    assert_non_null(right);
    memset(c->data[0], 0, sizeof c->data[0]);
    assert_ok(md_reference(op, c->arg, c->n));
    memcpy(right, c->data[0], sizeof c->data[0]);
    for (int32_t round = 0; round < 4; round++) { /* the first call, then warm ones */
        memset(c->data[0], 0, sizeof c->data[0]);
        assert_ok(md_call(op, NULL, c->arg, c->n));
        if (c->tensor[0].dtype == MD_I64)
            assert_memory_equal(right, c->data[0], sizeof c->data[0]);
        for (int32_t k = 0; k < MOST && c->tensor[0].dtype == MD_F32; k++)
            if (!(c->data[0][k] - right[k] < 1e-4f && right[k] - c->data[0][k] < 1e-4f))
                fail_msg("%s: element %d is %g, not %g", formula, (int)k, (double)c->data[0][k], (double)right[k]);
    }
    free(right);
}

static int32_t n_stages(md_op *op, const call *c)
{
    md_choice choice;
    assert_ok(md_choice_of(&choice, op, c->arg, c->n));
    return choice.n_stages;
}

#define NORM                                                                                                           \
    "let M[i] = mean[j,k](X[i,j,k]); let V[i] = var[j,k](X[i,j,k]); Y[i,j,k] = (X[i,j,k] - M[i]) * rsqrt(V[i] + 1e-3)"

static void contiguous_rows_are_one(void **state)
{
    (void)state;
    static const struct {
        const char *formula, *sizes;
        int32_t merged, gap_axis, split; /* stages where all is contiguous, and with a gap behind an axis of X */
    } row[] = {
        {"Y[i] = sum[j,k](X[i,j,k])", "i=5, j=6, k=7", 1, 2, 2},
        {"Y[i] = sum[j,k](X[i,j,k])", "i=5, j=6, k=7", 1, 1, 1}, /* a gap behind whole rows does no harm */
        {"Y[i] = sum[k,j](X[i,j,k])", "i=5, j=6, k=7", 1, 2, 2},
        {"Y[i] = max[j,k,l](X[i,j,k,l])", "i=2, j=6, k=7, l=3", 1, 3, 3},
        {"Y[i,l] = sum[j,k](X[i,j,k,l])", "i=2, j=6, k=7, l=3", 1, 2, 2},
        {"Y:i64[i] = argmax[j,k](X[i,j,k])", "i=5, j=6, k=7", 1, 2, 1},
        {"Y:i64[i] = argmin[j,k](X[i,j,k])", "i=5, j=6, k=7", 1, 2, 1},
        {"Y[i] = sum[j,k](X[i,j,k] * W[j,k])", "i=5, j=6, k=7", 1, 2, -1},
        {NORM, "i=5, j=6, k=7", 1, 2, -1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_op *op = make(row[i].formula, NULL);
        call *c = make_call(op, row[i].sizes, -1);
        if (n_stages(op, c) != row[i].merged)
            fail_msg("%s: %d stages where all is contiguous", row[i].formula, (int)n_stages(op, c));
        check_values(op, c, row[i].formula);
        free(c);
        c = make_call(op, row[i].sizes, row[i].gap_axis);
        if (row[i].split >= 0 && n_stages(op, c) != row[i].split)
            fail_msg("%s: %d stages with a gap", row[i].formula, (int)n_stages(op, c));
        check_values(op, c, row[i].formula);
        free(c);
        md_op_destroy(&op);
    }
}

/* A merged dim has one size, though only products of sizes reach the merged op. */
static void sizes_must_agree(void **state)
{
    (void)state;
    const char *formula = "Y[i] = sum[j,k](X[i,j,k] * W[j,k])";
    md_op *op = make(formula, NULL);
    call *c = make_call(op, "i=5, j=6, k=7", -1);
    c->tensor[2].size[0] = c->tensor[2].stride[0] = 7;
    c->tensor[2].size[1] = c->tensor[2].stride[0] = 6;
    assert_int_equal(md_call(op, NULL, c->arg, c->n), MD_INVALID_ARGUMENT);
    assert_non_null(strstr(md_last_error(), "'W': axis 0 (dim 'j') has size 7"));
    free(c);
    md_op_destroy(&op);
    op = make(formula, &(md_op_options){.sizes = "k=7"});
    c = make_call(op, "i=5, j=6", -1);
    check_values(op, c, formula);
    for (int32_t t = 1; t < 3; t++) {
        c->tensor[t].size[c->tensor[t].rank - 1] = 6;
        c->tensor[t].size[c->tensor[t].rank - 2] = 7;
        c->tensor[t].stride[c->tensor[t].rank - 2] = 6;
    }
    assert_int_equal(md_call(op, NULL, c->arg, c->n), MD_INVALID_ARGUMENT);
    assert_non_null(strstr(md_last_error(), "is static"));
    free(c);
    md_op_destroy(&op);
}

/* Formulas that may not be merged stay as they are: an index or a size alone, an order of positions, other tensors. */
static void others_stay(void **state)
{
    (void)state;
    static const char *const formula[] = {
        "Y[i] = sum[j,k](X[i,j,k] * f32(k))", "Y[i] = sum[j,k](X[i,j,k]) / f32(size(k))",
        "Y:i64[i] = argmax[k,j](X[i,j,k])",   "Y[i] = sum[j,k](X[i,j,k] * W[k])",
        "Y[i] = sum[j,k](X[i,j,k] * W[k,j])", "Y[i] = sum[j,k](X[i,j,k]) + sum[k](W[k])",
    };
    for (size_t i = 0; i < sizeof formula / sizeof *formula; i++) {
        md_op *op = make(formula[i], NULL);
        call *c = make_call(op, "i=5, j=6, k=7", -1);
        assert_int_equal(n_stages(op, c), md_op_n_stages(op));
        check_values(op, c, formula[i]);
        free(c);
        md_op_destroy(&op);
    }
}

static int32_t keep(void *user, const char *text, size_t n)
{
    (void)snprintf(user, 2000, "%.*s", (int)n, text);
    return 0;
}

/* A resolved launch takes the merged op's way, with its own data and with other data. */
static void launches_are_joined(void **state)
{
    (void)state;
    md_launch *launch = NULL;
    md_choice choice;
    md_op *op = make("Y[i] = sum[j,k](X[i,j,k])", NULL);
    call *c = make_call(op, "i=5, j=6, k=7", -1), *d = make_call(op, "i=5, j=6, k=7", -1);
    for (int32_t k = 0; k < 42; k++)
        d->data[1][k] = 1.0f;
    assert_ok(md_resolve(&launch, op, c->arg, c->n));
    md_op_destroy(&op);
    assert_ok(md_launch_choice(&choice, launch));
    assert_int_equal(choice.n_stages, 1);
    for (int32_t round = 0; round < 3; round++) {
        memset(c->data[0], 0, sizeof c->data[0]);
        assert_ok(md_launch_run(launch, NULL, NULL, 0));
        assert_ok(md_launch_run(launch, NULL, d->arg, d->n));
        assert_true(d->data[0][0] == 42.0f);
        assert_true(c->data[0][1] == d->data[0][1] && c->data[0][0] != 42.0f);
    }
    md_launch_destroy(&launch);
    free(c);
    free(d);
}

/* What explains, prepares and freezes an op does so for the merged one; hints are products. */
static void reports_follow(void **state)
{
    (void)state;
    char text[2000] = "";
    md_op *op = make("Y[i] = sum[j,k](X[i,j,k])", &(md_op_options){.hints = "(i=16,j=4,k=8)"});
    assert_ok(md_explain(op, "i=5, j=6, k=7", 0, keep, text));
    assert_non_null(strstr(text, "sum[j](X:f32[i,j])"));
    assert_non_null(strstr(text, "i=5 j=42"));
    assert_non_null(strstr(text, "i=16 j=32"));
    assert_ok(md_prepare(op, "i=5, j=6, k=7"));
    assert_ok(md_freeze(op, MD_FREEZE_FAIL));
    call *c = make_call(op, "i=5, j=6, k=7", -1);
    check_values(op, c, "frozen");
    free(c);
    c = make_call(op, "i=4, j=6, k=7", -1);
    assert_int_equal(md_call(op, NULL, c->arg, c->n), MD_UNSUPPORTED);
    free(c);
    md_op_destroy(&op);
}

enum { N_ITEMS = 3, N_ARGS = 4, OUTPUT = 1 };

/* Runs the combo, and calls of its items: the same bits. */
static void check_items(md_combo *combo, md_op *op, call **c, int32_t n)
{
    float got[N_ITEMS][5];
    for (int32_t i = 0; i < n; i++)
        memset(c[i]->data[OUTPUT], 0, sizeof c[i]->data[0]);
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    for (int32_t i = 0; i < n; i++) {
        memcpy(got[i], c[i]->data[OUTPUT], sizeof got[i]);
        assert_true(got[i][0] != 0);
        memset(c[i]->data[OUTPUT], 0, sizeof c[i]->data[0]);
        assert_ok(md_call(op, NULL, c[i]->arg, c[i]->n));
        assert_memory_equal(got[i], c[i]->data[OUTPUT], sizeof got[i]);
    }
}

static void check_combo(md_op *op, call **c, int32_t n, int32_t n_launches)
{
    md_arg args[N_ITEMS * N_ARGS];
    void *moved[N_ITEMS];
    char text[2000] = "", more[32];
    const md_combo_part part = {.op = op, .n_items = n, .n_args = N_ARGS, .args = args};
    md_combo *combo = NULL;
    for (int32_t i = 0; i < n; i++)
        memcpy(args + i * N_ARGS, c[i]->arg, N_ARGS * sizeof *args);
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    assert_ok(md_combo_explain(combo, 0, keep, text));
    (void)snprintf(more, sizeof more, "launch %d:", (int)n_launches - 1);
    assert_non_null(strstr(text, more));
    (void)snprintf(more, sizeof more, "launch %d:", (int)n_launches);
    assert_null(strstr(text, more));
    check_items(combo, op, c, n);
    for (int32_t i = 0; i < n; i++)
        moved[i] = c[i]->tensor[2].data = c[i]->data[5];
    assert_ok(md_combo_point(combo, 0, 2, moved));
    check_items(combo, op, c, n);
    md_combo_destroy(&combo);
}

/* A combo's items run as calls of them: merged where they are contiguous. */
static void combos_are_joined(void **state)
{
    (void)state;
    md_op *op = make("scalar s; Y[i] = s * sum[j,k](X[i,j,k] * W[i,j,k])", NULL);
    call *c[N_ITEMS] = {make_call(op, "i=5, j=6, k=7", -1), make_call(op, "i=5, j=6, k=7", 2),
                        make_call(op, "i=5, j=4, k=8", -1)};
    for (int32_t i = 0; i < N_ITEMS; i++)
        for (int32_t k = 0; k < MOST; k++)
            c[i]->data[5][k] = (float)(k % 9) + 0.5f;
    check_combo(op, c, 1, 1);
    check_combo(op, c, N_ITEMS, md_op_n_stages(op));
    for (int32_t i = 0; i < N_ITEMS; i++)
        free(c[i]);
    md_op_destroy(&op);
}

/* A sequence's calls are merged at sizes and strides where the tensors are contiguous. The result of the first is an
 * input of the second, and lies in the arena. */
static void check_sequence(md_op *const op[2], const char *stride, int64_t j_step, int64_t n_launches)
{
    float x[2][MOST], y[8], right[8], t[MOST];
    md_sequence *sequence = NULL;
    int32_t id[3];
    md_sequence_counters count;
    const md_sequence_tensor tensor[] = {
        {.name = "x", .role = MD_SEQUENCE_INPUT, .size = "n, 6, 7", .stride = stride},
        {.name = "t", .role = MD_SEQUENCE_TEMPORARY, .size = "n, 6, 7"},
        {.name = "y", .role = MD_SEQUENCE_OUTPUT, .size = "n"},
    };
    assert_ok(md_sequence_create(&sequence, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, sequence, "n", 1, 8));
    for (int32_t i = 0; i < 3; i++)
        assert_ok(md_sequence_add_tensor(&id[i], sequence, &tensor[i]));
    assert_ok(md_sequence_add_call(sequence, op[0], (md_sequence_arg[]){{.id = id[1]}, {.id = id[0]}}, 2));
    assert_ok(md_sequence_add_call(sequence, op[1],
                                   (md_sequence_arg[]){{.real = 0.5}, {.id = id[2]}, {.id = id[1]}, {.id = id[0]}}, 4));
    assert_ok(md_sequence_finish(sequence));
    for (int32_t round = 0; round < 8; round++) {
        const int64_t n = 5 - round / 2 % 2, size_y[] = {n}, size[] = {n, 6, 7};
        float *now = x[round / 4];
        for (int32_t k = 0; k < MOST; k++)
            now[k] = (float)((k * 37 + round) % 64 - 30) / 8.0f;
        assert_ok(md_sequence_run(sequence, NULL, &n, 1, (void *[]){now, y}, 2));
        assert_ok(md_sequence_count(&count, sequence));
        assert_int_equal(count.n_launches, n_launches);
        md_tensor tx = md_tensor_make(now, MD_F32, 3, size), tt = md_tensor_make(t, MD_F32, 3, size),
                  ty = md_tensor_make(right, MD_F32, 1, size_y);
        tx.stride[1] = j_step;
        tx.stride[0] = 6 * j_step;
        assert_ok(md_call(op[0], NULL, (md_arg[]){md_t(&tt), md_t(&tx)}, 2));
        assert_ok(md_call(op[1], NULL, (md_arg[]){md_s(0.5), md_t(&ty), md_t(&tt), md_t(&tx)}, 4));
        assert_memory_equal(y, right, (size_t)n * sizeof *y);
    }
    md_sequence_destroy(&sequence);
}

static void sequences_are_joined(void **state)
{
    (void)state;
    md_op *op[2] = {make("T[i,j,k] = X[i,j,k] + 1", NULL), make("scalar s; Y[i] = sum[j,k](T[i,j,k] * X[i,j,k] * s)",
                                                                &(md_op_options){.hints = "(i=8,j=8,k=8)"})};
    check_sequence(op, NULL, 7, 2);
    check_sequence(op, "48, 8, 1", 8, 3);
    md_op_destroy(&op[0]);
    md_op_destroy(&op[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contiguous_rows_are_one),
        cmocka_unit_test(sizes_must_agree),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(launches_are_joined),
        cmocka_unit_test(reports_follow),
        cmocka_unit_test(combos_are_joined),
        cmocka_unit_test(sequences_are_joined),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
