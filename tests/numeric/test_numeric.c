/* Numeric policies, bit for bit. NUMERIC_DEVICE is the device; skips itself where there is none. NUMERIC_SHORT=1
 * leaves out most cases and classes. */
#include "api/context.h"
#include "dispatch/numeric/numeric.h"
#include "family/numeric.h"
#include "numeric/case.h"
#include "support/check.h"

#include "base/clock.h"

static bool is_host, is_short;
static size_t step = 1, from; /* from case to case */
static int32_t most_classes = 1000;

static const numeric_case cases[] = {
    {"Y[b] = sum[n](X[b,n])", NULL, MD_F32, "b", "n=1000"},
    {"Y[b] = sum[n](X[b,n])", NULL, MD_F32, "b", "n=4096"},
    {"Y[b] = sum[n](X[b,n])", NULL, MD_F32, "b", "n=70001"},
    {"Y[b,n] = exp(X[b,n] - max[k](X[b,k])) / sum[k](exp(X[b,k] - max[l](X[b,l])))", NULL, MD_F32, "b", "n=77"},
    {"Y[b,n] = exp(X[b,n] - max[k](X[b,k])) / sum[k](exp(X[b,k] - max[l](X[b,l])))", NULL, MD_BF16, "b", "n=4096"},
    {"Y[b,n] = exp(X[b,n] - max[k](X[b,k])) / sum[k](exp(X[b,k] - max[l](X[b,l])))", NULL, MD_F32, "b", "n=40003"},
    {"Y[b,n] = (X[b,n] - mean[k](X[b,k])) * rsqrt(var[k](X[b,k]) + 1e-5) * G[n] + B[n]", NULL, MD_BF16, "b", "n=1024"},
    {"Y[b,n] = (X[b,n] - mean[k](X[b,k])) * rsqrt(var[k](X[b,k]) + 1e-5) * G[n] + B[n]", NULL, MD_F32, "b", "n=13"},
    {"Y[b] = argmax[n](X[b,n])", NULL, MD_F32, "b", "n=555"},
    {"Y[b] = sum[n](X[n,b])", NULL, MD_F32, "b", "n=999"},
    {"Y[b] = var[n](X[n,b])", NULL, MD_BF16, "b", "n=300"},
    {"Y[b,n] = cumsum[n](X[b,n])", NULL, MD_F32, "b", "n=3001"},
    {"Y[n,b] = cumsum[n](X[n,b])", NULL, MD_F32, "b", "n=200"},
    {"Y[b] = sum[k](X[b,k] * W[k])", NULL, MD_F32, "b", "k=4096"},
    {"Y[b,n] = sum[k](X[b,k] * W[n,k])", NULL, MD_F32, "b", "n=96, k=513"},
    {"Y[b,n] = sum[k](X[b,k] * W[k,n])", NULL, MD_F32, "b n", "k=1000"},
    {"Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]) + C[n])", NULL, MD_BF16, "b", "n=256, k=512"},
    {"Y[b,n] = sum[k](X[b,k] * W[n,k])", NULL, MD_BF16, "b n", "k=2048"},
    {"Y[b,n] = sum[k](X[b,k] * W[n,k])", NULL, MD_F16, "b n", "k=205"},
    {"Y[h,b,n] = sum[k](X[h,b,k] * W[h,n,k])", NULL, MD_F32, "b h", "n=40, k=64"},
    {"G[ids[t],b] += D[t,b]", NULL, MD_F32, "b", "t=2000, G.0=50"},
    {"Y[b,n] = E[ids[b],n] * 2", NULL, MD_F32, "b", "n=100, E.0=50"},
    {"Y[b,n] = gelu(X[b,n]) + C[n]", NULL, MD_F32, "b", "n=77"},
    {"Y[b,n] = X[b,n] / sum[k](X[b,k] * W[n,k])", NULL, MD_F32, "b", "n=64"},
    {"let S[b,j] = sum[d](Q[b,d] * K[j,d]); let p[b,j] = exp(S[b,j] - max[k](S[b,k]));"
     "Y[b,e] = sum[j](p[b,j] * V[j,e]) / sum[j](p[b,j])",
     NULL, MD_F32, "b", "j=301, d=24, e=40"},
};

static md_context *open_context(md_context_options o)
{
    md_context *c = NULL;
    o.device = NUMERIC_DEVICE;
    md_status s = md_context_create(&c, &o);
    if (s == MD_UNSUPPORTED || s == MD_DEVICE) {
        print_message("no device %s: %s\n", NUMERIC_DEVICE, md_last_error());
        exit(77);
    }
    assert_ok(s);
    return c;
}

static md_op *open_op(md_context *c, const numeric_case *test, md_op_options o)
{
    md_op *op = NULL;
    o.dtype = test->dtype;
    o.sizes = test->static_sizes;
    if (md_op_create(&op, c, test->formula, &o) != MD_OK)
        fail_msg("%s: %s", test->formula, md_last_error());
    return op;
}

static void expect_same(const numeric_call *whole, const numeric_call *part, const numeric_case *test, const char *what,
                        long long n)
{
    char text[128];
    if (!numeric_same(text, sizeof text, whole, part, test->batch))
        fail_msg("%s %s, %s: %s %lld: other bits in %s", test->formula, md_dtype_name(test->dtype), test->sizes, what,
                 n, text);
}

/* Parts of a batch have the bits that they have in the whole, whatever their length, and wherever they lie in
 * memory. */
static void a_batch_changes_no_bits(void **state)
{
    (void)state;
    static const int64_t part[][2] = {{0, 1}, {3, 1}, {5, 2}, {1, 7}, {0, 8}, {2, 9}, {30, 64}, {11, 100}};
    md_context *c = open_context((md_context_options){.numeric = MD_NUMERIC_BATCH_INVARIANT, .hints = "16,256,4096"});
    for (size_t i = from; i < sizeof cases / sizeof *cases; i += step) {
        const numeric_case *test = &cases[i];
        uint64_t start = md_clock_ns();
        md_op *op = open_op(c, test, (md_op_options){.max_variants = 24});
        numeric_call whole, some;
        numeric_call_make(&whole, c, op, test, (numeric_part){0, 131, 0});
        numeric_call_run(&whole, op);
        for (size_t k = 0; k < sizeof part / sizeof *part; k++)
            for (size_t offset = 0; offset <= 16; offset += 8) {
                numeric_call_make(&some, c, op, test, (numeric_part){part[k][0], part[k][1], offset});
                numeric_call_run(&some, op);
                expect_same(&whole, &some, test, offset ? "at an offset, a batch of" : "a batch of", part[k][1]);
                numeric_call_free(&some);
            }
        numeric_call_free(&whole);
        print_message("%s %s %s: %d variants, %.1f s\n", test->formula, md_dtype_name(test->dtype), test->sizes,
                      md_op_n_variants(op, 0), (double)(md_clock_ns() - start) * 1e-9);
        md_op_destroy(&op);
    }
    md_context_destroy(&c);
}

/* One call after the other, other threads, other hints, other ways of choosing. */
static void settings_change_no_bits(void **state)
{
    (void)state;
    static const md_context_options setting[] = {{.hints = "16,256,4096"},
                                                 {.hints = "64"},
                                                 {.hints = "3000", .threads = 1},
                                                 {.hints = "16,1024", .threads = 5},
                                                 {.hints = "100", .select = MD_SELECT_MEASURE},
                                                 {.hints = "1,65536", .select = MD_SELECT_DISTANCE}};
    numeric_call first[sizeof cases / sizeof *cases];
    md_context *context[sizeof setting / sizeof *setting];
    for (size_t s = 0; s < sizeof setting / sizeof *setting; s++) {
        md_context_options o = setting[s];
        o.numeric = MD_NUMERIC_DETERMINISTIC;
        context[s] = open_context(o);
        for (size_t i = from; i < sizeof cases / sizeof *cases; i += step) {
            const numeric_case *test = &cases[i];
            md_op *op = open_op(context[s], test, (md_op_options){.max_variants = 24});
            numeric_call again;
            if (s == 0) {
                numeric_call_make(&first[i], context[s], op, test, (numeric_part){0, 37, 0});
                numeric_call_run(&first[i], op);
            }
            numeric_call_make(&again, context[s], op, test, (numeric_part){0, 37, 0});
            for (int k = 0; k < (is_host ? 2 : 20); k++) {
                numeric_call_run(&again, op);
                expect_same(&first[i], &again, test, s ? "setting" : "again", (long long)s);
            }
            numeric_call_free(&again);
            md_op_destroy(&op);
        }
    }
    for (size_t i = from; i < sizeof cases / sizeof *cases; i += step)
        numeric_call_free(&first[i]);
    for (size_t s = 0; s < sizeof setting / sizeof *setting; s++)
        md_context_destroy(&context[s]);
}

/* ---- What the table of classes says */

enum { MAX_CLASSES = 96, OF_CLASS = 3, SEED = 7 };

typedef struct member {
    md_fa_numeric numeric;
    int32_t n, seen;
    char name[OF_CLASS][MD_FA_NAME];
} member;

typedef struct census {
    const md_fa_target *target;
    const md_fa_family *family;
    const md_kn_shape *shape;
    int32_t n;
    uint64_t random;
    member class[MAX_CLASSES];
} census;

/* A few of each class, any one as likely as the others. */
static bool note(void *user, const md_fa_config *config)
{
    census *c = user;
    md_fa_numeric numeric;
    md_kn_envelope envelope = {0};
    md_fa_envelope_of(&envelope, c->family, c->target, config);
    md_fa_numeric_of(&numeric, c->target, c->family, config);
    if (md_kn_envelope_miss(&envelope, c->shape) || !numeric.is_repeatable)
        return true;
    int32_t i = 0;
    while (i < c->n && c->class[i].numeric.id != numeric.id)
        i++;
    if (i == MAX_CLASSES)
        return true;
    if (i == c->n)
        c->class[c->n++] = (member){.numeric = numeric};
    member *m = &c->class[i];
    c->random = c->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    int32_t at = m->n < OF_CLASS ? m->n++ : (int32_t)((c->random >> 33) % (uint64_t)(m->seen + 1));
    m->seen++;
    if (at < OF_CLASS)
        md_fa_name(m->name[at], c->family, config);
    return true;
}

/* Two variants of a class give the same bits. `first` gets the call of the first one that can be built. */
static int32_t check_class(numeric_call *out, md_context *c, const numeric_case *test, const member *m)
{
    numeric_call first = {0}, other;
    int32_t n = 0;
    for (int32_t i = 0; i < m->n; i++) {
        md_op *op = NULL;
        md_op_options o = {.pin = m->name[i], .dtype = test->dtype, .sizes = test->static_sizes, .hints = "64"};
        md_status s = md_op_create(&op, c, test->formula, &o);
        if (s == MD_COMPILE) /* too many registers, say */
            continue;
        assert_ok(s);
        numeric_call_make(&other, c, op, test, (numeric_part){0, 7, 0});
        numeric_call_run(&other, op);
        if (n++ == 0) {
            first = other;
        } else {
            char what[2 * MD_FA_NAME + 32];
            snprintf(what, sizeof what, "class %s, %s, variant", m->numeric.name, m->name[i]);
            expect_same(&first, &other, test, what, i);
            numeric_call_free(&other);
        }
        md_op_destroy(&op);
    }
    *out = first;
    return n;
}

static void variants_of_a_class_are_alike(void **state)
{
    (void)state;
    md_context *c = open_context((md_context_options){0});
    int32_t n_different = 0;
    for (size_t i = from; i < sizeof cases / sizeof *cases; i += step) {
        const numeric_case *test = &cases[i];
        md_op *op = open_op(c, test, (md_op_options){.hints = "64", .max_variants = 2});
        numeric_call call;
        md_kn_shape shape;
        census *all = calloc(1, sizeof *all);
        assert_non_null(all);
        *all = (census){.target = &op->ds->stage[0].target, .random = SEED, .shape = &shape};
        numeric_call_make(&call, c, op, test, (numeric_part){0, 7, 0});
        md_ds_bound bound;
        assert_ok(md_ds_bind(&bound, op->ds, call.arg, call.n));
        shape = bound.shape;
        numeric_call_free(&call);
        for (const md_fa_family *const *f = md_fa_families(all->target->facts->kind); op->ds->n_stages == 1 && *f; f++)
            if (md_fa_applies(*f, all->target)) {
                all->family = *f;
                md_fa_each(all->target, *f, shape.size, note, all);
            }
        int32_t n_run = 0, n_class = 0;
        numeric_call first = {0}, next;
        for (int32_t k = 0; k < all->n; k++) {
            const member *m = &all->class[(k + SEED) % all->n];
            if (m->seen < 2 || n_class == most_classes)
                continue;
            int32_t n = check_class(&next, c, test, m);
            char text[128];
            n_class += n > 0;
            n_run += n;
            if (n && !first.n) {
                first = next;
            } else if (n) {
                n_different += !numeric_same(text, sizeof text, &first, &next, test->batch);
                numeric_call_free(&next);
            }
        }
        if (first.n)
            numeric_call_free(&first);
        print_message("%s %s %s: %d classes, %d variants\n", test->formula, md_dtype_name(test->dtype), test->sizes,
                      n_class, n_run);
        free(all);
        md_op_destroy(&op);
    }
    print_message("%d classes differ from the first of their case\n", n_different);
    assert_true(n_different > 0 || step > 4); /* else the comparison sees nothing */
    md_context_destroy(&c);
}

/* ---- What is refused, and what is said */

static int collect(void *user, const char *text, size_t n)
{
    char *all = user;
    strncat(all, text, n);
    return 0;
}

static void what_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    md_context *c = open_context((md_context_options){.hints = "64"});
    md_op *op = NULL;
    const char *scatter = "T[ids[t],d] = K[t,d]";
    assert_fails(md_op_create(&op, c, scatter, &(md_op_options){.numeric = MD_NUMERIC_DETERMINISTIC}),
                 MD_INVALID_ARGUMENT, "'T' is written by '='");
    assert_fails(md_op_create(&op, c, scatter, &(md_op_options){.numeric = MD_NUMERIC_BATCH_INVARIANT}),
                 MD_INVALID_ARGUMENT, "batch_invariant");
    assert_ok(md_op_create(&op, c, scatter, NULL));
    md_op_destroy(&op);
    assert_fails(md_op_create(&op, c, "softmax", &(md_op_options){.numeric = (md_numeric)9}), MD_INVALID_ARGUMENT,
                 "md_numeric");
    const char *pin = is_host ? "gemv/swap_ab0_columns128" : "gemv/max_rows8_columns2_unroll2_slice_k2";
    md_op_options o = {.numeric = MD_NUMERIC_BATCH_INVARIANT, .pin = pin};
    assert_fails(md_op_create(&op, c, "Y[m,n] = sum[k](X[m,k] * W[n,k])", &o), MD_INVALID_ARGUMENT,
                 "not under the numeric policy batch_invariant");
    char text[16384] = "";
    assert_ok(md_op_create(&op, c, "softmax", &(md_op_options){.numeric = MD_NUMERIC_DETERMINISTIC}));
    assert_ok(md_explain(op, "i=64, j=300", 0, collect, text));
    assert_non_null(strstr(text, "numeric policy deterministic: class row"));
    assert_non_null(strstr(text, "of another numeric class"));
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* test_numeric [filter of tests' names [first case, step [classes a case]]]. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_kept_is_refused),
        cmocka_unit_test(variants_of_a_class_are_alike),
        cmocka_unit_test(a_batch_changes_no_bits),
        cmocka_unit_test(settings_change_no_bits),
    };
    is_host = !strcmp(NUMERIC_DEVICE, "host");
    is_short = getenv("NUMERIC_SHORT") != NULL;
    step = is_short ? 7 : 1;
    most_classes = is_short ? 3 : most_classes;
    from = argc > 3 ? (size_t)atoi(argv[2]) : is_short;
    step = argc > 3 ? (size_t)atoi(argv[3]) : step;
    most_classes = argc > 4 ? atoi(argv[4]) : most_classes;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
