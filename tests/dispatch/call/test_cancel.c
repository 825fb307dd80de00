/* A call of the host device ends when the caller's function says so, and the next call is served as ever. */
#include "support/check.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { ROWS = 4096, COLUMNS = 8 };

static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];

/* Cancels at the n-th question; 0: never. */
typedef struct asked {
    _Atomic int n_asked;
    int at;
} asked;

static int ask(void *user)
{
    asked *a = user;
    const int n = atomic_fetch_add(&a->n_asked, 1) + 1;
    return a->at > 0 && n >= a->at;
}

static md_status call(md_op *op)
{
    const int64_t size[] = {ROWS, COLUMNS};
    md_tensor ty = md_tensor_make(y, MD_F32, 2, size), tx = md_tensor_make(x, MD_F32, 2, size);
    return md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2);
}

/* Formulas with stages of each kind, and the question that is answered with yes: rows, points (few pieces at this
 * size), and a nest that computes a reduction again for every element. */
static const struct {
    const char *text;
    int at;
} formulas[] = {
    {"Y[i,j] = X[i,j] / (sum[k](X[i,k]) + 1)", 3},
    {"Y[i,j] = exp(X[i,j])", 1},
    {"Y[i,j] = sum[k](where(k < j, X[i,k], X[i,abs(j - k)]))", 3},
};

static bool is_written(void)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (y[i] == -7)
            return false;
    return true;
}

static void check(int f, const char *cc, int threads)
{
    asked a = {0};
    md_context *context = NULL;
    md_op *op = NULL;
    const md_context_options o = {.device = "host", .cc = cc, .threads = threads, .cancel = ask, .cancel_user = &a};
    assert_ok(md_context_create(&context, &o));
    assert_ok(md_op_create(&op, context, formulas[f].text, &(md_op_options){.max_variants = 2}));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)(i % 7);
        y[i] = -7;
    }
    a.n_asked = 0;
    a.at = formulas[f].at;
    assert_fails(call(op), MD_CANCELLED, "cancelled");
    assert_false(is_written());
    assert_in_range(atomic_load(&a.n_asked), a.at, a.at + threads); /* a thread that asked meanwhile ends its piece */
    a.at = 0;
    for (int n = 0; n < 3; n++) /* of these one fills caches, one uses them */
        assert_ok(call(op));
    assert_true(is_written());
    a.n_asked = 0;
    a.at = 1;
    assert_fails(call(op), MD_CANCELLED, "cancelled"); /* a warm call */
    assert_string_equal(md_status_name(MD_CANCELLED), "cancelled");
    md_op_destroy(&op);
    md_context_destroy(&context);
}

static void calls_end_when_asked(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++)
        for (int threads = 1; threads <= 2; threads++)
            check(f, NULL, threads);
}

static void the_reference_ends_when_asked(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++)
        check(f, "/nonexistent/cc", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_end_when_asked),
        cmocka_unit_test(the_reference_ends_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
