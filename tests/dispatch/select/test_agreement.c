/* md_tn_agree: variants that give other results than most are found; where there is no majority, nothing is said. */
#include "dispatch/bind/bind.h"
#include "dispatch/call/warm.h"
#include "support/check.h"
#include "tune/verify/verify.h"

typedef enum behaviour { RIGHT, SILENT, OFF, OTHERWISE_OFF } behaviour; /* SILENT: writes nothing */
static behaviour of_mark[40];

static void behave(const char *text, const md_kn_word *params, int32_t n)
{
    const behaviour b = of_mark[atoi(text + 5)];
    assert_true(n >= 5);
    const float off = b == OFF ? 3.0f : b == OTHERWISE_OFF ? 7.0f : 0.0f;
    for (int64_t i = 0; i < params[2].i && b != SILENT; i++)
        ((float *)params[0].p)[i] = ((const float *)params[1].p)[i * params[3].i] * (float)params[4].d + off;
}

enum { N = 4 };
static const char *const names[N] = {"alpha/v0_w0", "alpha/v1_w0", "beta/v0_w0", "gamma/v0_w0"};
static const int32_t marks[N] = {0, 1, 10, 20};

/* An op with four variants. */
static md_ds_op *make_op(md_bd_variant *variant[N])
{
    script_allow(SCRIPT_ALPHA, 0, 1.0)->legal_hi = 100;
    script_allow(SCRIPT_ALPHA, 1, 1.0)->legal_lo = 200;
    script_allow(SCRIPT_BETA, 0, 2.0);
    script_allow(SCRIPT_GAMMA, 0, 3.0);
    warm_world.device.on_launch = behave;
    memset(of_mark, 0, sizeof of_mark);
    md_ds_op *op = warm_op(100);
    for (int32_t i = 0; i < N; i++) {
        variant[i] = NULL;
        for (int32_t k = 0; k < op->stage[0].n_variants; k++)
            if (!strcmp(op->stage[0].variant[k]->name, names[i]))
                variant[i] = op->stage[0].variant[k];
        assert_non_null(variant[i]);
    }
    return op;
}

static void a_majority_is_right(void **state)
{
    (void)state;
    enum { A = MD_TN_AGREES, D = MD_TN_DIFFERS, U = MD_TN_UNDECIDED };
    static const struct {
        int32_t n;
        behaviour how[N];
        int32_t found[N];
    } row[] = {
        {4, {RIGHT, RIGHT, RIGHT, RIGHT}, {A, A, A, A}},
        {4, {RIGHT, RIGHT, OFF, RIGHT}, {A, A, D, A}},
        {4, {RIGHT, SILENT, RIGHT, RIGHT}, {A, D, A, A}}, /* it does not pass for the one before it */
        {4, {SILENT, RIGHT, RIGHT, RIGHT}, {D, A, A, A}},
        {4, {OFF, OFF, OFF, RIGHT}, {A, A, A, D}}, /* most decide, right or not */
        {4, {RIGHT, OFF, RIGHT, OFF}, {U, U, U, U}}, /* two against two */
        {4, {RIGHT, OFF, OTHERWISE_OFF, RIGHT}, {U, U, U, U}}, /* two of four are not most */
        {3, {RIGHT, OFF, RIGHT}, {A, D, A}},
        {3, {RIGHT, OFF, OTHERWISE_OFF}, {U, U, U}},
        {2, {RIGHT, OFF}, {U, U}},
        {2, {RIGHT, RIGHT}, {A, A}},
        {1, {RIGHT}, {U}},
    };
    _Alignas(64) static warm_vectors v;
    md_bd_variant *variant[N];
    md_arg arg[3];
    md_ds_bound bound;
    md_ds_op *op = make_op(variant);
    warm_shape(&v, 64, 1, 0);
    warm_order(op, &v, arg, 1.0);
    assert_ok(md_ds_bind(&bound, op, arg, 3));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_tn_agreement found[N];
        for (int32_t k = 0; k < N; k++)
            of_mark[marks[k]] = row[i].how[k];
        assert_ok(md_tn_agree(found, variant, row[i].n, &bound.shape));
        for (int32_t k = 0; k < row[i].n; k++)
            if ((int32_t)found[k] != row[i].found[k])
                fail_msg("row %zu: variant %d: %d, not %d", i, k, (int)found[k], row[i].found[k]);
    }
    md_ds_op_destroy(&op);
}

/* A variant that does not run fails by itself; where none runs, the device is to blame, and nothing is said of them. */
static void what_does_not_run_fails(void **state)
{
    (void)state;
    _Alignas(64) static warm_vectors v;
    md_bd_variant *variant[N];
    md_arg arg[3];
    md_ds_bound bound;
    md_ds_op *op = make_op(variant);
    static const struct {
        const char *refused; /* texts with this do not launch */
        bool fails[N];
    } row[] = {{"COPY 20", {0, 0, 0, 1}}, {"COPY 1", {0, 1, 1, 0}}, {"none", {0, 0, 0, 0}}, {"COPY", {1, 1, 1, 1}}};
    warm_shape(&v, 64, 1, 0);
    warm_order(op, &v, arg, 1.0);
    assert_ok(md_ds_bind(&bound, op, arg, 3));
    for (int32_t i = 0; i < MD_COUNT(row); i++) {
        md_tn_agreement found[N];
        const bool has_one = !row[i].fails[0];
        atomic_store(&warm_world.device.refused, row[i].refused);
        assert_int_equal(md_tn_agree(found, variant, N, &bound.shape), has_one ? MD_OK : MD_DEVICE);
        for (int32_t k = 0; k < N && has_one; k++)
            assert_true((found[k] == MD_TN_FAILS) == row[i].fails[k]);
    }
    atomic_store(&warm_world.device.refused, NULL);
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_majority_is_right, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(what_does_not_run_fails, warm_set_up, warm_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
