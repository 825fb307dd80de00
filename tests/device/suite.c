/* The suite that every device must pass: its tests, and what they are run over. */
#include "device/suite.h"

#include "base/dtype.h"
#include "device/suite_call.h"
#include "support/check.h"
#include "support/conformance.h"
#include "support/random/random_formula.h"
#include "support/random/random_op.h"

static double default_effort = 1;

static double effort(void)
{
    const char *text = getenv("MD_TEST_EFFORT");
    const double x = text ? atof(text) : default_effort;
    return x > 0 ? x : 1;
}

/* n times the effort, 1 at least. */
static int64_t times(int n)
{
    const int64_t k = (int64_t)(n * effort() + 0.5);
    return k > 0 ? k : 1;
}

/* A seed for part i of a test, whoever runs it and when. */
static uint64_t seed_of(uint64_t seed, int64_t i)
{
    uint64_t state = seed + (uint64_t)i * UINT64_C(0x632be59bd9b4e019);
    return check_random(&state);
}

/* Whether part i of a test that has a fixed number of them is run: all, or the part of them that the effort says. */
static bool is_taken(uint64_t seed, int64_t i)
{
    return (double)(seed_of(seed ^ 0x5eed, i) >> 11) * 0x1p-53 < effort();
}

static void summarize(const suite *s)
{
    print_message("%lld calls, %lld pinned variants (%lld calls did not fit), %lld elements, %lld unchecked\n",
                  (long long)s->n_calls, (long long)s->n_variants, (long long)s->n_skipped, (long long)s->n_elements,
                  (long long)s->n_unchecked);
    assert_int_equal(s->n_failed, 0);
    assert_true(s->n_calls > 0);
}

/* Each test starts with counters at zero and the context of the group. */
static suite *begin(void **state)
{
    suite *s = *state;
    *s = (suite){.options = s->options, .context = s->context};
    return s;
}

/* ---- known values ---- */

typedef struct placed {
    md_tensor tensor[CONFORMANCE_MAX]; /* on the device */
} placed;

/* Into the device's memory, or back and away. */
static md_status move(suite *s, const conformance_case *c, placed *p, bool back)
{
    md_status status = MD_OK;
    for (int i = 0; i < c->n_tensors; i++) {
        const conformance_tensor *t = &c->tensor[i];
        const size_t n_bytes = (size_t)t->n * md_dtype_size(t->tensor.dtype);
        if (back) {
            if (status == MD_OK)
                status = md_copy(s->context, t->tensor.data, p->tensor[i].data, n_bytes);
            md_free(s->context, p->tensor[i].data);
            continue;
        }
        p->tensor[i] = t->tensor;
        p->tensor[i].data = NULL;
        if (status == MD_OK)
            status = md_alloc(&p->tensor[i].data, s->context, n_bytes + 64);
        if (status == MD_OK)
            status = md_copy(s->context, p->tensor[i].data, t->tensor.data, n_bytes);
    }
    return status;
}

static bool bind_case(md_arg *arg, placed *p, const conformance_case *c, md_op *op)
{
    for (int32_t i = 0; i < md_op_n_args(op); i++) {
        md_arg_info info;
        if (md_op_arg(&info, op, i) != MD_OK ||
            !conformance_arg(&arg[i], c, info.name, info.is_scalar && info.dtype == MD_I64))
            return false;
        for (int k = 0; k < c->n_tensors; k++)
            if (arg[i].tensor == &c->tensor[k].tensor)
                arg[i].tensor = &p->tensor[k];
    }
    return true;
}

/* Calls, and says in `text` what is wrong with the answer; nothing if it is right. */
static void conform(char *text, size_t n_text, suite *s, const conformance_case *c, md_op *op)
{
    md_arg arg[MD_FX_MAX_ARGS] = {0};
    placed p;
    const md_status sent = move(s, c, &p, false);
    const bool is_bound = bind_case(arg, &p, c, op);
    const md_status status = sent == MD_OK && is_bound ? md_call(op, NULL, arg, md_op_n_args(op)) : sent;
    const md_status synced = md_sync(s->context, NULL);
    const md_status checked = synced == MD_OK ? md_check(s->context) : synced;
    const bool is_refusal = c->fails[0] != 0 || c->has_fault;
    const char *part = c->fails[0] ? c->fails : c->fault_tensor;
    /* Products and exponentials of f32 against f64; stores of 16 bits hide that. */
    const double factor = c->dtype == MD_F64 ? 256.0 : c->dtype == MD_F32 ? 64.0 : 3.0;
    s->n_calls++;
    const md_status moved = move(s, c, &p, true);
    if (!is_bound)
        (void)snprintf(text, n_text, "an argument that the case does not have");
    else if (sent != MD_OK || synced != MD_OK || moved != MD_OK)
        (void)snprintf(text, n_text, "memory: %s", md_last_error());
    else if (is_refusal && status == MD_OK && checked == MD_OK)
        (void)snprintf(text, n_text, "was accepted");
    else if (is_refusal ? !strstr(md_last_error(), part) : status != MD_OK || checked != MD_OK)
        (void)snprintf(text, n_text, "%s", md_last_error());
    else if (c->fails[0] == 0)
        (void)conformance_check(c, factor, text, n_text);
}

/* Every case in f32; the other default dtypes take turns. */
static void conformance_case_run(void *user, const conformance_case *c)
{
    suite *s = user;
    md_op *op = NULL;
    char text[256] = "";
    const md_op_options o = {.dtype = c->dtype,
                             .sizes = c->sizes[0] ? c->sizes : NULL,
                             .bounds = c->bounds,
                             .hints = "16",
                             .max_variants = 2};
    uint64_t turn = (uint64_t)(c->name[strlen(c->name) / 2] + c->name[strlen(c->name) - 1]) % 6;
    if (c->dtype != MD_F32 && effort() < 4 && turn != (uint64_t)c->dtype)
        return;
    if (md_op_create(&op, s->context, c->formula, &o) != MD_OK)
        (void)snprintf(text, sizeof(text), "%s", md_last_error());
    else
        conform(text, sizeof(text), s, c, op);
    md_op_destroy(&op);
    if (text[0] && s->n_failed++ < 40)
        print_error("%s (%s): %s\n    %s\n", c->name, md_dtype_name(c->dtype), text, c->formula);
}

typedef struct known {
    conformance_list list;
    uint64_t seed;
} known;

static void run_known(suite *s, int64_t i, void *user)
{
    known *k = user;
    if (is_taken(k->seed, i))
        (void)conformance_run(&k->list.at[i], conformance_case_run, s);
}

static void test_conformance(void **state)
{
    suite *s = begin(state);
    known k = {.seed = check_seed()};
    assert_true(conformance_load(&k.list, MD_TEST_DATA "/conformance.txt") && k.list.n > 250);
    suite_each(s, k.list.n, run_known, &k);
    conformance_finish(&k.list);
    summarize(s);
}

/* ---- random operations ---- */

static const char *static_sizes(const char *text)
{
    return strstr(text, "K[r,s]") ? "r=3, s=2" : NULL;
}

/* One variant in so many of a pool is called by itself. */
static int every(void)
{
    return effort() < 1 ? 3 : 1;
}

static void run_random(suite *s, const char *text, uint64_t *seed, bool with_variants, const data_options *options)
{
    static const md_dtype dtypes[] = {MD_F32, MD_F32, MD_BF16, MD_F16, MD_F64};
    suite_formula f;
    const md_op_options o = {.dtype = dtypes[check_random(seed) % 5],
                             .sizes = static_sizes(text),
                             .hints = "16,128",
                             .bounds = options->bad_indices ? (md_bounds)(check_random(seed) % 3) : MD_BOUNDS_REPORT};
    if (suite_begin(s, &f, text, &o)) {
        for (int view = 0; view < DATA_N_VIEWS; view++) {
            data_options d = *options;
            d.view = (data_view)view;
            suite_add(s, &f, check_random(seed), &d);
        }
        if (with_variants)
            suite_check_variants(s, &f, every());
        else
            suite_check_picked(s, &f);
        suite_check_in_place(s, &f);
    }
    suite_end(&f);
}

/* Part i is trial i / kinds of kind i % kinds. */
static void run_operation(suite *s, int64_t i, void *user)
{
    const random_op_kind kind = (random_op_kind)(i % RANDOM_OP_N_KINDS);
    uint64_t seed = seed_of(*(uint64_t *)user, i);
    md_strbuf text = {0};
    random_op(&text, &seed, kind);
    const data_options d = {.max_work = 100000,
                            .bad_indices =
                                (kind == RANDOM_OP_GATHER || kind == RANDOM_OP_SCATTER) && i / RANDOM_OP_N_KINDS % 2};
    run_random(s, md_strbuf_text(&text), &seed, true, &d);
    md_strbuf_finish(&text);
}

static void test_operations(void **state)
{
    suite *s = begin(state);
    uint64_t seed = check_seed();
    suite_each(s, times(3) * RANDOM_OP_N_KINDS, run_operation, &seed);
    summarize(s);
}

/* Anything legal, with NaN and infinities. */
static void run_wild(suite *s, int64_t i, void *user)
{
    uint64_t seed = seed_of(*(uint64_t *)user, i);
    md_strbuf text = {0};
    const random_formula_options o = {.max_depth = 3, .without_specials = i % 2 == 0};
    random_formula(&text, &seed, &o);
    run_random(s, md_strbuf_text(&text), &seed, false,
               &(data_options){.max_work = 20000, .specials = i % 2, .bad_indices = i % 5 == 4});
    md_strbuf_finish(&text);
}

static void test_wild(void **state)
{
    suite *s = begin(state);
    uint64_t seed = check_seed();
    suite_each(s, times(12), run_wild, &seed);
    summarize(s);
}

/* ---- outputs in the memory of inputs ---- */

static const char *const in_place[] = {
    "Y[i,j] = gelu(X[i,j]) + R[j]",
    "Y[i,j] = X[j,i]",
    "Y[i] = X[size(i) - 1 - i]",
    "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))",
    "Y[i,j] = X[i,j] - mean[k](X[k,j])",
    "Y[i,j] = cumsum[j](X[i,j])",
    "Y[i,j] = cumsum[j](X[i,j], exclusive, reverse) + X[i,j]",
    "Y[i,j] = cumsum[j](X[i,j]) - cummax[j](X[i,j], exclusive, reverse)",
    "Y[m,n] = sum[k](X[m,k] * W[k,n])",
    "Y[m,n] = X[m,n] + sum[k](A[m,k] * B[k,n])",
    "Y[i,j] = X[i,j] * 2; Z[i,j] = X[i,j] + Y[i,j]",
    "let t[i] = sum[j](X[i,j]); Y[i,j] = X[i,j] / (abs(t[i]) + 1); Z[i] = t[i] + V[i]",
    "Y[t,d] = X[ids[t],d]",
};

static void run_in_place(suite *s, int64_t i, void *user)
{
    uint64_t seed = seed_of(*(uint64_t *)user, i);
    suite_formula f;
    int64_t size[MD_FX_MAX_DIMS];
    if (suite_begin(s, &f, in_place[i], &(md_op_options){.hints = "16"})) {
        for (int k = 0; k < 6; k++) {
            for (int d = 0; d < MD_FX_MAX_DIMS; d++)
                size[d] = (const int64_t[]){17, 64, 100}[k % 3];
            suite_add(
                s, &f, check_random(&seed),
                &(data_options){.view = k < 3 ? DATA_CONTIGUOUS : DATA_UNALIGNED, .size = size, .max_work = 20000000});
        }
        suite_check_in_place(s, &f);
    }
    suite_end(&f);
}

static void test_in_place(void **state)
{
    suite *s = begin(state);
    uint64_t seed = check_seed();
    suite_each(s, sizeof(in_place) / sizeof(in_place[0]), run_in_place, &seed);
    summarize(s);
}

/* ---- the catalogue, at sizes around the corners of kernels ---- */

static void run_entry(suite *s, int64_t i, void *user)
{
    static const md_dtype dtypes[] = {MD_F32, MD_BF16, MD_F16, MD_F64};
    uint64_t seed = seed_of(*(uint64_t *)user, i);
    const char *name, *text, *description;
    suite_formula f;
    if (!is_taken(*(uint64_t *)user, i))
        return;
    md_catalogue((int32_t)i, &name, &text, &description);
    const md_op_options o = {.dtype = dtypes[check_random(&seed) % (effort() > 1 ? 4 : 2)], .hints = "64,512"};
    if (suite_begin(s, &f, text, &o)) {
        for (int k = 0; k < 4; k++)
            suite_add(s, &f, check_random(&seed),
                      &(data_options){.view = k == 3   ? DATA_STRIDED
                                              : k == 2 ? DATA_UNALIGNED
                                                       : DATA_CONTIGUOUS,
                                      .max_work = k == 0 ? 1000000 : 100000});
        suite_check_variants(s, &f, every());
    }
    suite_end(&f);
}

static void test_catalogue(void **state)
{
    suite *s = begin(state);
    uint64_t seed = check_seed();
    const char *name, *text, *description;
    int32_t n = 0;
    while (md_catalogue(n, &name, &text, &description), name)
        n++;
    suite_each(s, n, run_entry, &seed);
    summarize(s);
}

/* ---- group ---- */

static int open_context(void **state)
{
    suite *s = *state;
    const md_context_options o = {.device = s->options->device};
    if (md_context_create(&s->context, &o) == MD_OK)
        return 0;
    print_error("%s\n", md_last_error());
    return -1;
}

static int close_context(void **state)
{
    suite *s = *state;
    md_context_destroy(&s->context);
    return 0;
}

int suite_run(const suite_options *options)
{
    suite s = {.options = options};
    default_effort = options->effort > 0 ? options->effort : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_conformance, &s), cmocka_unit_test_prestate(test_operations, &s),
        cmocka_unit_test_prestate(test_wild, &s),        cmocka_unit_test_prestate(test_in_place, &s),
        cmocka_unit_test_prestate(test_catalogue, &s),
    };
    void *state = &s;
    const char *only = getenv("MD_TEST_ONLY"); /* a pattern of names, as cmocka takes it */
    if (only)
        cmocka_set_test_filter(only);
    if (open_context(&state) != 0)
        return 1;
    const int failed = cmocka_run_group_tests_name(options->device, tests, NULL, NULL);
    (void)close_context(&state);
    return failed;
}
