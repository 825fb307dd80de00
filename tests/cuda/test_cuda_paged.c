/* Attention over keys and values in pages on a real GPU, against a reference of its own: pages of odd sizes, lengths at
 * their edges and of 0, no keys, garbage where nothing may be read, indices and lengths out of range. Skips itself
 * where there is no GPU. `time`: times decoding instead. */
#include "md_build_config.h"
#include "support/check.h"

#include <math.h>

#if MD_HAVE_CUDA

#include "base/dtype.h"

static md_context *context;

/* i queries, the last ones of each sequence; r heads share the keys of a group g. */
static const char formula[] = "let S[b,g,r,i,j] = where(j <= len:i32[b] - size(i) + i, sum[d](Q:bf16[b,i,g,r,d] * "
                              "K:bf16[page:i32[b, j // %s], j %% %s, g, d]) * rsqrt(f32(size(d))), -inf);"
                              "let E:bf16[b,g,r,i,j] = exp(S[b,g,r,i,j] - max[k](S[b,g,r,i,k]));"
                              "let l[b,g,r,i] = sum[j](E[b,g,r,i,j]);"
                              "Y:bf16[b,i,g,r,e] = sum[j](where(j <= len[b] - size(i) + i, E[b,g,r,i,j] * "
                              "V:bf16[page[b, j // %s], j %% %s, g, e], 0)) / l[b,g,r,i]";

enum { LEN, Q, K, TABLE, Y, V, TENSORS };

typedef struct call {
    int64_t b, i, g, r, d, keys, page, n_table, n_pages;
    void *host[TENSORS], *device[TENSORS];
    md_tensor t[TENSORS];
    md_arg arg[TENSORS + 1];
} call;

static md_op *make(const char *page, int64_t d)
{
    char text[1000], sizes[60];
    md_op *op = NULL;
    snprintf(text, sizeof text, formula, page, page, page, page);
    snprintf(sizes, sizeof sizes, "d=%lld, e=%lld", (long long)d, (long long)d);
    assert_ok(md_op_create(&op, context, text, &(md_op_options){.sizes = sizes, .hints = "(b=16,g=8,r=4,i=1,j=1024)"}));
    return op;
}

static int64_t count(const md_tensor *t)
{
    int64_t n = 1;
    for (int32_t a = 0; a < t->rank; a++)
        n *= t->size[a];
    return n;
}

static void describe(call *c)
{
    const int64_t queries[] = {c->b, c->i, c->g, c->r, c->d}, pages[] = {c->n_pages, c->page, c->g, c->d},
                  table[] = {c->b, c->n_table};
    c->t[LEN] = md_tensor_make(NULL, MD_I32, 1, table);
    c->t[Q] = md_tensor_make(NULL, MD_BF16, 5, queries);
    c->t[K] = md_tensor_make(NULL, MD_BF16, 4, pages);
    c->t[TABLE] = md_tensor_make(NULL, MD_I32, 2, table);
    c->t[Y] = md_tensor_make(NULL, MD_BF16, 5, queries);
    c->t[V] = md_tensor_make(NULL, MD_BF16, 4, pages);
    for (int i = 0; i < TENSORS; i++) {
        const size_t n = (size_t)count(&c->t[i]) * md_dtype_size(c->t[i].dtype);
        c->host[i] = malloc(n + 1);
        assert_non_null(c->host[i]);
        assert_ok(md_alloc(&c->device[i], context, n + 1));
        c->t[i].data = c->device[i];
        c->arg[i] = md_t(&c->t[i]);
    }
    c->arg[TENSORS] = md_i(c->keys);
}

static void send(call *c)
{
    for (int i = 0; i < TENSORS; i++)
        assert_ok(md_copy(context, c->device[i], c->host[i], (size_t)count(&c->t[i]) * md_dtype_size(c->t[i].dtype)));
}

static void finish(call *c)
{
    for (int i = 0; i < TENSORS; i++) {
        free(c->host[i]);
        md_free(context, c->device[i]);
    }
}

static int64_t place(const call *c, int64_t b, int64_t j, int64_t g)
{
    const int32_t *table = c->host[TABLE];
    return ((table[b * c->n_table + j / c->page] * c->page + j % c->page) * c->g + g) * c->d;
}

/* A table in random order; NaN where no length reaches, and garbage in the entries behind them. */
static void fill(call *c, uint64_t *random)
{
    static const uint16_t nan = 0x7fc0;
    int32_t *len = c->host[LEN], *table = c->host[TABLE];
    for (int64_t i = 0; i < count(&c->t[Q]); i++)
        md_dtype_store(MD_BF16, c->host[Q], i, (double)(check_random(random) >> 40) * 0x1p-23 - 1);
    for (int64_t i = 0; i < count(&c->t[K]); i++)
        ((uint16_t *)c->host[K])[i] = ((uint16_t *)c->host[V])[i] = nan;
    for (int64_t i = 0; i < c->b * c->n_table; i++) {
        const int64_t other = (int64_t)(check_random(random) >> 33) % (i + 1);
        table[i] = table[other];
        table[other] = (int32_t)i;
    }
    for (int64_t b = 0; b < c->b; b++) {
        const int64_t edge[] = {c->keys, c->page, c->page + 1, 0, 1, (int64_t)(check_random(random) >> 33) % c->keys};
        len[b] = (int32_t)edge[(check_random(random) >> 32) % 6];
        len[b] = len[b] > c->keys ? (int32_t)c->keys : len[b];
        for (int64_t j = 0; j < len[b]; j++)
            for (int64_t k = 0; k < c->g * c->d; k++)
                for (int which = K; which <= V; which += V - K)
                    md_dtype_store(MD_BF16, c->host[which], place(c, b, j, 0) + k,
                                   (double)(check_random(random) >> 40) * 0x1p-23 - 1);
        for (int64_t i = (len[b] + c->page - 1) / c->page; i < c->n_table; i++)
            table[b * c->n_table + i] = i % 2 ? INT32_MAX : INT32_MIN;
    }
    send(c);
}

static double value(const call *c, int which, int64_t at)
{
    return md_dtype_load(MD_BF16, c->host[which], at);
}

static void check_row(const call *c, int64_t b, int64_t i, int64_t head)
{
    const int64_t own = ((const int32_t *)c->host[LEN])[b] - c->i + i + 1, n = own < 0 ? 0 : own,
                  q = ((b * c->i + i) * c->g * c->r + head) * c->d;
    double *score = calloc((size_t)n + 1, sizeof *score), most = -INFINITY, all = 0;
    assert_non_null(score);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t d = 0; d < c->d; d++)
            score[j] += value(c, Q, q + d) * value(c, K, place(c, b, j, head / c->r) + d);
        score[j] /= sqrt((double)c->d);
        most = fmax(most, score[j]);
    }
    for (int64_t j = 0; j < n; j++)
        all += score[j] = exp(score[j] - most);
    for (int64_t d = 0; d < c->d; d++) {
        double sum = 0, size = 0;
        for (int64_t j = 0; j < n; j++) {
            const double v = value(c, V, place(c, b, j, head / c->r) + d);
            sum += score[j] * v;
            size += score[j] * fabs(v);
        }
        /* two roundings of the result, and of each weight here and there (2^-8 each) */
        const double y = value(c, Y, q + d), bound = 0x1p-7 * (size / all) * 2 + 1e-5;
        if (n == 0 ? !isnan(y) : !(fabs(y - sum / all) <= bound))
            fail_msg("pages of %lld, %lld keys, row %lld of length %d, query %lld, head %lld: %g, not %g",
                     (long long)c->page, (long long)c->keys, (long long)b, ((const int32_t *)c->host[LEN])[b],
                     (long long)i, (long long)head, y, sum / all);
    }
    free(score);
}

static void check(call *c)
{
    assert_ok(md_sync(context, NULL));
    assert_ok(md_copy(context, c->host[Y], c->device[Y], (size_t)count(&c->t[Y]) * 2));
    for (int64_t b = 0; b < c->b; b++)
        for (int64_t i = 0; i < c->i; i++)
            for (int64_t head = 0; head < c->g * c->r; head++)
                check_row(c, b, i, head);
}

static void values(void **state)
{
    static const struct {
        const char *text;
        int page;
        int d, r, i;
    } row[] = {{"1", 1, 64, 1, 1},    {"3", 3, 64, 4, 1},          {"16", 16, 128, 4, 1},
               {"64", 64, 128, 4, 1}, {"size(K.1)", 7, 128, 8, 1}, {"16", 16, 64, 4, 3}};
    uint64_t random = check_seed();
    (void)state;
    for (int f = 0; context && f < 6; f++) {
        md_op *op = make(row[f].text, row[f].d);
        const int64_t page = row[f].page, counts[] = {1, page, page + 1, 2 * page + 1, 20 * page + 3, 1500};
        md_choice choice;
        for (int n = 0; n < 6; n++) {
            call c = {.b = 5, .i = row[f].i, .g = 2, .r = row[f].r, .d = row[f].d, .keys = counts[n], .page = page};
            c.n_table = (c.keys + page - 1) / page;
            c.n_pages = c.b * c.n_table;
            describe(&c);
            fill(&c, &random);
            assert_ok(md_call(op, NULL, c.arg, TENSORS + 1));
            check(&c);
            assert_ok(md_check(context));
            assert_ok(md_choice_of(&choice, op, c.arg, TENSORS + 1));
            print_message("pages of %s, %lld keys: %s\n", row[f].text, (long long)c.keys,
                          choice.variant[choice.n_stages - 1]);
            finish(&c);
        }
        md_op_destroy(&op);
    }
}

/* Reported, and nothing else is wrong. */
static void out_of_range(void **state)
{
    uint64_t random = check_seed();
    md_op *op = context ? make("16", 64) : NULL;
    call c = {.b = 4, .i = 1, .g = 2, .r = 4, .d = 64, .keys = 200, .page = 16, .n_table = 13, .n_pages = 52};
    (void)state;
    if (!context)
        return;
    describe(&c);
    fill(&c, &random);
    ((int32_t *)c.host[LEN])[2] = 200;
    for (int i = 0; i < 13; i++)
        ((int32_t *)c.host[TABLE])[2 * 13 + i] = i == 5 ? 52 : i;
    send(&c);
    assert_ok(md_call(op, NULL, c.arg, TENSORS + 1));
    assert_ok(md_sync(context, NULL));
    assert_fails(md_check(context), MD_INVALID_ARGUMENT, "52");
    ((int32_t *)c.host[TABLE])[2 * 13 + 5] = INT32_MIN;
    send(&c);
    assert_ok(md_call(op, NULL, c.arg, TENSORS + 1));
    assert_ok(md_sync(context, NULL));
    assert_fails(md_check(context), MD_INVALID_ARGUMENT, "-2147483648");
    ((int32_t *)c.host[TABLE])[2 * 13 + 5] = 5;
    ((int32_t *)c.host[LEN])[2] = 201;
    send(&c);
    assert_ok(md_call(op, NULL, c.arg, TENSORS + 1));
    assert_ok(md_sync(context, NULL));
    assert_fails(md_check(context), MD_INVALID_ARGUMENT, "length 201 in 'len' is above the size of 'j'");
    c.arg[TENSORS] = md_i(0); /* no keys: 0 / 0, and nothing is read */
    for (int b = 0; b < 4; b++)
        ((int32_t *)c.host[LEN])[b] = 0;
    assert_ok(md_call(op, NULL, c.arg, TENSORS + 1));
    check(&c);
    assert_ok(md_check(context));
    finish(&c);
    md_op_destroy(&op);
}

static void time_decoding(void)
{
    static const struct {
        int64_t b, keys, page;
    } row[] = {{16, 1024, 64}, {64, 4096, 64}, {16, 1024, 16}, {64, 4096, 16}, {1, 8192, 64}, {256, 1000, 64}};
    uint64_t random = 1;
    for (int f = 0; f < 6; f++) {
        char page[8];
        snprintf(page, sizeof page, "%d", (int)row[f].page);
        md_op *op = make(page, 128);
        md_launch *launch = NULL;
        md_choice choice;
        call c = {.b = row[f].b, .i = 1, .g = 8, .r = 4, .d = 128, .keys = row[f].keys, .page = row[f].page};
        c.n_table = (c.keys + c.page - 1) / c.page;
        c.n_pages = c.b * c.n_table;
        describe(&c);
        memset(c.host[K], 0, (size_t)count(&c.t[K]) * 2);
        memset(c.host[V], 0, (size_t)count(&c.t[V]) * 2);
        memset(c.host[Q], 0, (size_t)count(&c.t[Q]) * 2);
        int32_t *table = c.host[TABLE];
        for (int64_t i = 0; i < c.b * c.n_table; i++) {
            const int64_t other = (int64_t)(check_random(&random) >> 33) % (i + 1);
            table[i] = table[other];
            table[other] = (int32_t)i;
        }
        for (int64_t b = 0; b < c.b; b++)
            ((int32_t *)c.host[LEN])[b] = (int32_t)c.keys;
        send(&c);
        char sizes[100];
        snprintf(sizes, sizeof sizes, "b=%lld, g=8, r=4, i=1, j=%lld, page.1=%lld", (long long)c.b, (long long)c.keys,
                 (long long)c.n_table);
        assert_ok(md_prepare(op, sizes));
        assert_ok(md_resolve(&launch, op, c.arg, TENSORS + 1));
        assert_ok(md_launch_choice(&choice, launch));
        double best = INFINITY, us;
        for (int n = 0; n < 200; n++) {
            assert_ok(md_launch_time(&us, launch, NULL));
            best = fmin(best, us);
        }
        const double bytes = 4.0 * (double)(c.b * c.keys * c.g * c.d);
        print_message("%lld x %lld keys, pages of %lld: %.2f us at best, %.2f TB/s, %s\n", (long long)c.b,
                      (long long)c.keys, (long long)c.page, best, bytes / best * 1e-6,
                      choice.variant[choice.n_stages - 1]);
        md_launch_destroy(&launch);
        finish(&c);
        md_op_destroy(&op);
    }
}

static int set_up(void **state)
{
    (void)state;
    (void)md_context_create(&context, &(md_context_options){.device = "cuda"});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(out_of_range)};
    if (argc < 2 || strcmp(argv[1], "time") != 0)
        return cmocka_run_group_tests(tests, set_up, tear_down);
    (void)set_up(NULL);
    if (context)
        time_decoding();
    return tear_down(NULL);
}
#else
int main(void)
{
    return 0; /* built without CUDA */
}
#endif
