/* Every public function with NULL, with numbers out of range and with nonsense: a status and a message, or a
 * harmless answer. */
#include "api/refused.h"

#include <limits.h>

static md_context *context;
static md_op *op; /* Y[i,j] = c * X[i,j] + E[ids[i],j] */
static float x[12], y[12], e[12];
static int64_t ids[3];
static md_tensor tx, ty, te, tids;
static md_arg args[6]; /* one more than the op takes: calls with a wrong count may look at it */
enum { N_ARGS = 5 };

static int set_up(void **state)
{
    (void)state;
    /* No compiler: the reference serves, and nothing here is about kernels. */
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1};
    if (md_context_create(&context, &o) != MD_OK ||
        md_op_create(&op, context, "scalar c; Y[i,j] = c * X[i,j] + E[ids[i],j]", NULL) != MD_OK)
        return 1;
    const int64_t size[] = {3, 4};
    ty = md_tensor_make(y, MD_F32, 2, size);
    tx = md_tensor_make(x, MD_F32, 2, size);
    te = md_tensor_make(e, MD_F32, 2, size);
    tids = md_tensor_make(ids, MD_I64, 1, size);
    for (int32_t i = 0; i < md_op_n_args(op) && i < N_ARGS; i++) {
        md_arg_info info;
        if (md_op_arg(&info, op, i) != MD_OK)
            return 1;
        args[i] = info.is_scalar ? md_s(1.0)
                                 : md_t(info.name[0] == 'Y'   ? &ty
                                        : info.name[0] == 'X' ? &tx
                                        : info.name[0] == 'E' ? &te
                                                              : &tids);
    }
    return md_op_n_args(op) != N_ARGS || md_call(op, NULL, args, N_ARGS) != MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_op_destroy(&op);
    md_context_destroy(&context);
    return 0;
}

static md_status take_time(double *us, void *user, int32_t i, int32_t repeats)
{
    (void)user;
    *us = 1.0 + i + 0.0 * repeats;
    return MD_OK;
}

static int take(void *user, const char *text, size_t n)
{
    (void)text;
    *(size_t *)user += n;
    return 0;
}

static int stop(void *user, const char *text, size_t n)
{
    (void)user;
    (void)text;
    (void)n;
    return 1;
}

static void answers_without_status(void **state)
{
    (void)state;
    static const int wrong[] = {-1, MD_U4 + 1, 1000, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_string_equal(md_dtype_name((md_dtype)wrong[i]), "?");
        assert_int_equal(md_dtype_size((md_dtype)wrong[i]), 0);
        assert_string_equal(md_status_name((md_status)wrong[i]), "unknown status");
        assert_string_equal(md_op_variant(op, wrong[i], 0), "");
        assert_string_equal(md_op_variant(op, 0, wrong[i] > 0 && wrong[i] < 100 ? 100 : wrong[i]), "");
        assert_int_equal(md_op_n_variants(op, wrong[i]), 0);
    }
    assert_int_equal(md_dtype_size(MD_DTYPE_DEFAULT), 0);
    assert_int_equal(md_dtype_parse(NULL), MD_DTYPE_DEFAULT);
    assert_int_equal(md_dtype_parse(""), MD_DTYPE_DEFAULT);
    assert_int_equal(md_dtype_parse("F32"), MD_DTYPE_DEFAULT);
    assert_int_equal(md_op_n_args(NULL), 0);
    assert_int_equal(md_op_n_stages(NULL), 0);
    assert_int_equal(md_op_n_variants(NULL, 0), 0);
    assert_string_equal(md_op_variant(NULL, 0, 0), "");
    assert_string_equal(md_op_name(NULL), "");
    assert_string_equal(md_op_formula(NULL), "");
    assert_non_null(md_version());
    assert_non_null(md_last_error());
}

static void tensors(void **state)
{
    (void)state;
    const int64_t size[MD_MAX_RANK] = {3, 4};
    assert_int_equal(md_tensor_make(NULL, (md_dtype)99, -3, size).size[0], 0);
    assert_int_equal(md_tensor_make(NULL, MD_F32, 2, NULL).size[0], 0);
    /* the rank stays wrong, and is refused at the call */
    assert_int_equal(md_tensor_make(NULL, MD_F32, 100, size).rank, 100);
    const int32_t rank[] = {-1, 0, 1, 3, 9, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof rank / sizeof *rank; i++) {
        md_tensor t = tx;
        md_arg a[N_ARGS];
        memcpy(a, args, sizeof a);
        for (int32_t k = 0; k < N_ARGS; k++)
            if (a[k].tensor == &tx)
                a[k].tensor = &t;
        t.rank = rank[i];
        REFUSED(md_call(op, NULL, a, N_ARGS), "rank");
    }
}

static void handles_that_are_not_there(void **state)
{
    (void)state;
    md_context *c = NULL;
    md_op *o = NULL;
    md_launch *l = NULL;
    md_context_destroy(NULL);
    md_context_destroy(&c);
    md_op_destroy(NULL);
    md_op_destroy(&o);
    md_launch_destroy(NULL);
    md_launch_destroy(&l);
    md_free(NULL, NULL);
    md_free(context, NULL);
    md_free(NULL, x);
    assert_fails(md_context_create(NULL, NULL), MD_INVALID_ARGUMENT, "out is NULL");
    REFUSED(md_op_create(NULL, context, "Y[i] = X[i]", NULL), "out is NULL");
    REFUSED(md_op_create(&o, NULL, "Y[i] = X[i]", NULL), "context is NULL");
    REFUSED(md_op_create(&o, context, NULL, NULL), "formula is NULL");
    assert_null(o);
    REFUSED(md_op_wait(NULL), "op is NULL");
    REFUSED(md_sync(NULL, NULL), "context is NULL");
    REFUSED(md_check(NULL), "context is NULL");
    assert_ok(md_op_wait(op));
    assert_ok(md_sync(context, NULL));
    assert_ok(md_check(context));
}

static void memory(void **state)
{
    (void)state;
    void *p = NULL;
    REFUSED(md_alloc(NULL, context, 8), "out is NULL");
    REFUSED(md_alloc(&p, NULL, 8), "context is NULL");
    assert_fails(md_alloc(&p, context, SIZE_MAX), MD_OUT_OF_MEMORY, "memory");
    assert_fails(md_alloc(&p, context, SIZE_MAX / 2), MD_OUT_OF_MEMORY, "memory");
    assert_null(p);
    assert_ok(md_alloc(&p, context, 0));
    assert_non_null(p);
    md_free(context, p);
    REFUSED(md_copy(NULL, x, y, 4), "context is NULL");
    REFUSED(md_copy(context, NULL, y, 4), "to is NULL");
    REFUSED(md_copy(context, x, NULL, 4), "from is NULL");
    assert_ok(md_copy(context, NULL, NULL, 0));
}

static void calls(void **state)
{
    (void)state;
    md_launch *l = NULL;
    md_choice choice;
    double us = 0.0;
    static const int32_t count[] = {0, 1, 4, 6, -1, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof count / sizeof *count; i++) {
        REFUSED(md_call(op, NULL, args, count[i]), "the op takes 5");
        REFUSED(md_resolve(&l, op, args, count[i]), "the op takes 5");
        REFUSED(md_reference(op, args, count[i]), "the op takes 5");
        REFUSED(md_choice_of(&choice, op, args, count[i]), "the op takes 5");
    }
    REFUSED(md_call(NULL, NULL, args, N_ARGS), "op is NULL");
    REFUSED(md_call(op, NULL, NULL, N_ARGS), "arguments is NULL");
    REFUSED(md_reference(NULL, args, N_ARGS), "op is NULL");
    REFUSED(md_reference(op, NULL, N_ARGS), "arguments is NULL");
    REFUSED(md_choice_of(NULL, op, args, N_ARGS), "out is NULL");
    REFUSED(md_choice_of(&choice, NULL, args, N_ARGS), "op is NULL");
    REFUSED(md_choice_of(&choice, op, NULL, N_ARGS), "arguments is NULL");
    REFUSED(md_resolve(NULL, op, args, N_ARGS), "out is NULL");
    REFUSED(md_resolve(&l, NULL, args, N_ARGS), "op is NULL");
    REFUSED(md_resolve(&l, op, NULL, N_ARGS), "arguments is NULL");
    assert_null(l);
    for (int32_t i = 0; i < N_ARGS; i++) {
        md_arg a[N_ARGS];
        static const md_arg wrong[] = {
            {MD_ARG_NONE, 0, NULL, 0, 0}, {MD_ARG_TENSOR, 0, NULL, 0, 0}, {(md_arg_kind)77, 0, NULL, 0, 0}};
        for (size_t k = 0; k < 3; k++) {
            memcpy(a, args, sizeof a);
            a[i] = wrong[k];
            REFUSED(md_call(op, NULL, a, N_ARGS), "argument");
        }
    }
    REFUSED(md_launch_run(NULL, NULL, args, N_ARGS), "launch is NULL");
    REFUSED(md_launch_time(&us, NULL, NULL), "launch is NULL");
    REFUSED(md_launch_choice(&choice, NULL), "launch is NULL");
    assert_ok(md_resolve(&l, op, args, N_ARGS));
    REFUSED(md_launch_time(NULL, l, NULL), "us is NULL");
    const md_launch *two[] = {l, NULL};
    REFUSED(md_launch_time_all(NULL, two, 1, NULL), "us is NULL");
    REFUSED(md_launch_time_all(&us, NULL, 1, NULL), "launches is NULL");
    REFUSED(md_launch_time_all(&us, two, 0, NULL), "n is below 1");
    REFUSED(md_launch_time_all(&us, two, 2, NULL), "launch 1 is NULL");
    md_bench_competitor competitor = {.us = &us};
    REFUSED(md_bench(NULL, 1, NULL, take_time, NULL), "competitor is NULL");
    REFUSED(md_bench(&competitor, 1, NULL, NULL, NULL), "sample is NULL");
    REFUSED(md_bench(&competitor, -1, NULL, take_time, NULL), "n is negative");
    REFUSED(md_bench(&competitor, 1, &(md_bench_options){.samples = 1025}, take_time, NULL), "samples is 1025");
    REFUSED(md_bench(&competitor, 1, &(md_bench_options){.budget_ms = -1.0}, take_time, NULL), "negative");
    REFUSED(md_bench(&(md_bench_competitor){0}, 1, NULL, take_time, NULL), "competitor 0 has no place");
    assert_int_equal(md_bench(NULL, 0, NULL, NULL, NULL), MD_OK);
    REFUSED(md_launch_choice(NULL, l), "out is NULL");
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        REFUSED(md_launch_run(l, NULL, args, count[i]), "takes 5 arguments");
    md_launch_destroy(&l);
    assert_null(l);
}

static void descriptions(void **state)
{
    (void)state;
    md_arg_info info;
    md_tensor t;
    double flops, bytes;
    static const int32_t number[] = {-1, 5, 1000, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        REFUSED(md_op_arg(&info, op, number[i]), "has 5 arguments");
        REFUSED(md_op_tensor(&t, op, number[i], "i=3, j=4"), "has 5 arguments");
    }
    REFUSED(md_op_arg(NULL, op, 0), "out is NULL");
    REFUSED(md_op_arg(&info, NULL, 0), "op is NULL");
    REFUSED(md_op_tensor(NULL, op, 1, "i=3, j=4"), "out is NULL");
    REFUSED(md_op_tensor(&t, NULL, 1, "i=3, j=4"), "op is NULL");
    for (int32_t i = 0; i < N_ARGS; i++)
        if (args[i].kind == MD_ARG_REAL)
            REFUSED(md_op_tensor(&t, op, i, "i=3, j=4"), "is a scalar");
    static const struct {
        const char *sizes, *part;
    } row[] = {
        {NULL, "is missing"},
        {"", "is missing"},
        {"i=3", "'j' is missing"},
        {"j=4", "'i' is missing"},
        {"i=3, j=4, k=5", "no dim 'k'"},
        {"i=1..3, j=4", "one size"},
        {"i=3, j=99999999999999999999", "larger than 9223372036854775807"},
        {"i=-3, j=4", "is negative"},
        {"i=3, j=4611686018427387904", "exceed"},
        {"=", ""},
        {"i", ""},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t n = 0;
        int32_t tensor = args[1].kind == MD_ARG_TENSOR ? 1 : 0;
        REFUSED(md_op_tensor(&t, op, tensor, row[i].sizes), row[i].part);
        REFUSED(md_prepare(op, row[i].sizes), row[i].part);
        REFUSED(md_explain(op, row[i].sizes, 0, take, &n), row[i].part);
        REFUSED(md_op_work(&flops, &bytes, op, row[i].sizes), row[i].part);
        assert_int_equal(n, 0);
    }
    REFUSED(md_prepare(NULL, "i=3, j=4"), "op is NULL");
    REFUSED(md_op_work(NULL, &bytes, op, "i=3, j=4"), "flops is NULL");
    REFUSED(md_op_work(&flops, NULL, op, "i=3, j=4"), "bytes is NULL");
    REFUSED(md_op_work(&flops, &bytes, NULL, "i=3, j=4"), "op is NULL");
}

static void texts(void **state)
{
    (void)state;
    size_t n = 0;
    REFUSED(md_check_formula(NULL, "softmax", NULL, 0, take, &n), "context is NULL");
    REFUSED(md_check_formula(context, NULL, NULL, 0, take, &n), "formula is NULL");
    REFUSED(md_check_formula(context, "softmax", NULL, 0, NULL, &n), "write is NULL");
    REFUSED(md_check_formula(context, "Y[i] = ", NULL, 0, take, &n), "expected");
    REFUSED(md_explain(NULL, "i=3, j=4", 0, take, &n), "op is NULL");
    REFUSED(md_explain(op, "i=3, j=4", 0, NULL, &n), "write is NULL");
    assert_fails(md_explain(op, "i=3, j=4", 1, stop, NULL), MD_IO, "stopped");
    REFUSED(md_op_source(NULL, 0, "nest", take, &n), "op is NULL");
    REFUSED(md_op_source(op, 0, NULL, take, &n), "variant is NULL");
    REFUSED(md_op_source(op, 0, md_op_variant(op, 0, 0), NULL, &n), "write is NULL");
    REFUSED(md_op_source(op, -1, "nest", take, &n), "no number -1");
    REFUSED(md_op_source(op, 99, "nest", take, &n), "no number 99");
    static const char *const name[] = {"",          "/",          "_",           "nosuch", "nest/",
                                       "nest/zzz1", "pointwise/", "pointwise/_", "//////", "a/b/c"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        md_status s = md_op_source(op, 0, name[i], take, &n);
        if (s != MD_OK && s != MD_NOT_FOUND)
            fail_msg("'%s': %s: %s", name[i], md_status_name(s), md_last_error());
    }
    REFUSED(md_info(context, 0, NULL, NULL), "write is NULL");
    REFUSED(md_info(NULL, 1, NULL, NULL), "write is NULL");
    assert_fails(md_info(context, 1, stop, NULL), MD_IO, "stopped");
    n = 0;
    assert_ok(md_info(NULL, 0, take, &n));
    assert_ok(md_info(NULL, 1, take, &n));
    assert_ok(md_info(context, 0, take, &n));
    assert_ok(md_info(context, 1, take, &n));
    assert_true(n > 200);
    REFUSED(md_stats_print(NULL, stdout), "context is NULL");
    REFUSED(md_stats_print(context, NULL), "file is NULL");
    REFUSED(md_stats_write(NULL, "x", NULL), "context is NULL");
    REFUSED(md_stats_write(context, NULL, NULL), "path is NULL");
    REFUSED(md_stats_write(context, "/nonexistent", ""), "expected table, json or csv");
    const md_met_shape met = {NULL, 1.0};
    const md_suggest_options suggest = {&met, 1, 0, 0, take, &n}, nothing = {NULL, 1, 0, 0, take, &n},
                             unwritten = {&met, 1, 0, 0, NULL, NULL};
    uint64_t digest[2];
    REFUSED(md_hints_suggest(NULL, "Y[i] = X[i]", NULL, &suggest), "context is NULL");
    REFUSED(md_hints_suggest(context, NULL, NULL, &suggest), "formula is NULL");
    REFUSED(md_hints_suggest(context, "Y[i] = X[i]", NULL, &nothing), "shapes is NULL");
    REFUSED(md_hints_suggest(context, "Y[i] = X[i]", NULL, &suggest), "sizes is NULL");
    REFUSED(md_hints_suggest(context, "Y[i] = X[i]", NULL, NULL), "suggest is NULL");
    REFUSED(md_hints_suggest(context, "Y[i] = X[i]", NULL, &unwritten), "write is NULL");
    REFUSED(md_digest(NULL, context), "out is NULL");
    REFUSED(md_digest(digest, NULL), "context is NULL");
    REFUSED(md_choices_export(NULL, take, &n), "context is NULL");
    REFUSED(md_choices_export(context, NULL, NULL), "write is NULL");
    REFUSED(md_choices_import(NULL, NULL, ""), "context is NULL");
    REFUSED(md_choices_import(NULL, context, NULL), "text is NULL");
    assert_fails(md_stats_write(context, "", NULL), MD_IO, "cannot write ''");
}

static void lists(void **state)
{
    (void)state;
    static const int32_t beyond[] = {-1, 100000, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        const char *a = "x", *b = "x", *c = "x";
        md_catalogue(beyond[i], &a, &b, &c);
        assert_true(!a && !b && !c);
        a = b = c = "x";
        md_variables(beyond[i], &a, &b, &c);
        assert_true(!a && !b && !c);
        md_catalogue(beyond[i], NULL, NULL, NULL);
        md_variables(beyond[i], NULL, NULL, NULL);
    }
    const char *a = NULL;
    md_catalogue(0, NULL, &a, NULL);
    assert_non_null(a);
    md_variables(0, &a, NULL, NULL);
    assert_non_null(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_without_status),
        cmocka_unit_test(tensors),
        cmocka_unit_test(handles_that_are_not_there),
        cmocka_unit_test(memory),
        cmocka_unit_test(calls),
        cmocka_unit_test(descriptions),
        cmocka_unit_test(texts),
        cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
