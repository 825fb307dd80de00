/* Attention over keys and values in pages, against a reference of its own: pages of odd sizes, lengths at their edges,
 * garbage where nothing may be read, and what is wrong with a table. */
#include "api/refused.h"

#include <math.h>
#include <sys/mman.h>

enum { B = 3, H = 4, D = 20, GROUP = 2 };

static md_context *context;

static int set_up(void **state)
{
    (void)state;
    return md_context_create(&context, &(md_context_options){.device = "host", .threads = 2, .hints = "16,64"}) !=
           MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

/* A page is as long as the cache says, or as the formula does. */
static md_op *make(const char *page, const char *pin)
{
    char text[1000];
    md_op *op = NULL;
    snprintf(text, sizeof text,
             "let S[b,h,j] = where(j < len:i32[b], "
             "sum[d](Q[b,h,d] * K[page:i32[b, j // %s], j %% %s, h // 2, d]) * 0.25, -inf);"
             "let m[b,h] = max[j](S[b,h,j]); let E[b,h,j] = exp(S[b,h,j] - m[b,h]);"
             "Y[b,h,e] = sum[j](where(j < len[b], E[b,h,j] * V[page[b, j // %s], j %% %s, h // 2, e], 0)) / "
             "sum[j](E[b,h,j])",
             page, page, page, page);
    assert_ok(md_op_create(&op, context, text, &(md_op_options){.pin = pin}));
    return op;
}

typedef struct cache {
    int64_t page, n_pages, n_table; /* keys of a page; pages; entries of a row of the table */
    float *k, *v;
    int32_t *table, len[B];
    float q[B][H][D], y[B][H][D];
    md_tensor t[6];
    md_arg arg[7];
} cache;

static float real(uint64_t *random)
{
    return (float)(check_random(random) >> 40) * 0x1p-23f - 1;
}

static float *at(const cache *c, float *p, int b, int64_t j, int h)
{
    return p + ((c->table[b * c->n_table + j / c->page] * c->page + j % c->page) * (H / GROUP) + h / GROUP) * D;
}

/* In the order of the formula: len, Q, K, page, Y, V; then the number of keys. */
static void describe(cache *c, int64_t keys)
{
    const int64_t rows[] = {B, H, D}, pages[] = {c->n_pages, c->page, H / GROUP, D}, table[] = {B, c->n_table};
    c->t[0] = md_tensor_make(c->len, MD_I32, 1, rows);
    c->t[1] = md_tensor_make(c->q, MD_F32, 3, rows);
    c->t[2] = md_tensor_make(c->k, MD_F32, 4, pages);
    c->t[3] = md_tensor_make(c->table, MD_I32, 2, table);
    c->t[4] = md_tensor_make(c->y, MD_F32, 3, rows);
    c->t[5] = md_tensor_make(c->v, MD_F32, 4, pages);
    for (int i = 0; i < 6; i++)
        c->arg[i] = md_t(&c->t[i]);
    c->arg[6] = md_i(keys);
}

/* Pages in random order. What lies behind a length is NaN, and entries of the table there are garbage. */
static void fill(cache *c, int64_t page, int64_t keys, uint64_t *random)
{
    *c = (cache){.page = page, .n_table = (keys + page - 1) / page};
    c->n_pages = B * c->n_table + 1;
    const size_t n = (size_t)(c->n_pages * page * (H / GROUP) * D);
    c->k = malloc(n * sizeof *c->k);
    c->v = malloc(n * sizeof *c->v);
    c->table = malloc((size_t)(B * c->n_table + 1) * sizeof *c->table);
    assert_true(c->k && c->v && c->table);
    for (size_t i = 0; i < n; i++)
        c->k[i] = c->v[i] = NAN;
    for (int64_t i = 0; i < B * c->n_table; i++) { /* a shuffle */
        const int64_t other = (int64_t)(check_random(random) >> 33) % (i + 1);
        c->table[i] = c->table[other];
        c->table[other] = (int32_t)i + 1;
    }
    for (int b = 0; b < B; b++) {
        const int64_t edge[] = {keys, page, page + 1, 1, (int64_t)(check_random(random) % (uint64_t)(keys + 1))};
        c->len[b] = (int32_t)edge[(check_random(random) >> 32) % 5];
        c->len[b] = c->len[b] > keys ? (int32_t)keys : c->len[b];
        for (int64_t j = 0; j < c->len[b]; j++)
            for (int h = 0; h < H; h += GROUP)
                for (int d = 0; d < D; d++) {
                    at(c, c->k, b, j, h)[d] = real(random);
                    at(c, c->v, b, j, h)[d] = real(random);
                }
        for (int h = 0; h < H; h++)
            for (int d = 0; d < D; d++)
                c->q[b][h][d] = real(random);
    }
    for (int b = 0; b < B; b++)
        for (int64_t i = (c->len[b] + page - 1) / page; i < c->n_table; i++)
            c->table[b * c->n_table + i] = i % 2 ? INT32_MAX : INT32_MIN + 5;
    memset(c->y, 0x55, sizeof c->y);
    describe(c, keys);
}

static void finish(cache *c)
{
    free(c->k);
    free(c->v);
    free(c->table);
}

static double score(const cache *c, int b, int h, int64_t j)
{
    double sum = 0;
    for (int d = 0; d < D; d++)
        sum += (double)c->q[b][h][d] * (double)at(c, c->k, b, j, h)[d];
    return sum * 0.25;
}

/* A row without keys is 0 / 0, as the formula says; of no keys at all it is so, too. */
static void check_row(const cache *c, int64_t keys, int b, int h)
{
    double most = -INFINITY, all = 0, sum[D] = {0};
    const int64_t n = c->len[b] < keys ? c->len[b] : keys;
    for (int64_t j = 0; j < n; j++)
        most = fmax(most, score(c, b, h, j));
    for (int64_t j = 0; j < n; j++) {
        const double e = exp(score(c, b, h, j) - most);
        all += e;
        for (int d = 0; d < D; d++)
            sum[d] += e * (double)at(c, c->v, b, j, h)[d];
    }
    for (int d = 0; d < D; d++) {
        const double y = (double)c->y[b][h][d];
        if (n == 0 ? !isnan(y) : !(fabs(y - sum[d] / all) <= 4e-6))
            fail_msg("pages of %lld, %lld keys, row %d of length %d, head %d: %g, not %g", (long long)c->page,
                     (long long)keys, b, c->len[b], h, y, sum[d] / all);
    }
}

static void check(const cache *c, int64_t keys)
{
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            check_row(c, keys, b, h);
}

/* One program of all stages, and its parts. */
static void values(void **state)
{
    static const struct {
        const char *text;
        int page;
    } pages[] = {{"1", 1}, {"3", 3}, {"16", 16}, {"64", 64}, {"size(K.1)", 5}, {"size(K.1)", 16}};
    uint64_t random = check_seed();
    (void)state;
    for (int p = 0; p < 6; p++) {
        md_op *op = make(pages[p].text, NULL);
        const int64_t page = pages[p].page, counts[] = {1, page, page + 1, 2 * page, 2 * page + 1, 5 * page + 3};
        md_choice choice;
        for (int i = 0; i < 12; i++) {
            cache c;
            fill(&c, page, counts[i % 6], &random);
            assert_ok(md_call(op, NULL, c.arg, 7));
            check(&c, counts[i % 6]);
            memset(c.y, 0x55, sizeof c.y);
            assert_ok(md_reference(op, c.arg, 7));
            check(&c, counts[i % 6]);
            assert_ok(md_choice_of(&choice, op, c.arg, 7));
            assert_non_null(strstr(choice.variant[choice.n_stages - 1], "chain/"));
            finish(&c);
        }
        md_op_destroy(&op);
    }
}

static void nothing_to_read(void **state)
{
    uint64_t random = check_seed();
    md_op *op = make("16", NULL);
    cache c;
    (void)state;
    fill(&c, 16, 40, &random);
    for (int64_t i = 0; i < B * c.n_table; i++)
        c.table[i] = -1;
    for (int b = 0; b < B; b++)
        c.len[b] = 0;
    assert_ok(md_call(op, NULL, c.arg, 7));
    check(&c, 40);
    c.arg[6] = md_i(0);
    c.len[1] = 9; /* of no keys */
    memset(c.y, 0x55, sizeof c.y);
    assert_ok(md_call(op, NULL, c.arg, 7));
    check(&c, 0);
    finish(&c);
    md_op_destroy(&op);
}

static void mistakes(void **state)
{
    uint64_t random = check_seed();
    md_op *op = make("16", NULL);
    cache c;
    (void)state;
    fill(&c, 16, 40, &random);
    c.len[0] = c.len[1] = c.len[2] = 40;
    for (int64_t i = 0; i < B * c.n_table; i++)
        c.table[i] = (int32_t)i;
    static const int32_t wrong[] = {-1, INT32_MIN, INT32_MAX, 10};
    for (int i = 0; i < 4; i++) {
        c.table[B + 1] = wrong[i];
        REFUSED(md_call(op, NULL, c.arg, 7), i % 2 ? "" : "axis 0");
        assert_non_null(strstr(md_last_error(), "'K'") ? strstr(md_last_error(), "'K'")
                                                       : strstr(md_last_error(), "'V'"));
    }
    c.table[B + 1] = 4;
    c.t[3].size[1] = 2; /* lengths need three entries */
    REFUSED(md_call(op, NULL, c.arg, 7), "'page'");
    c.len[0] = c.len[1] = c.len[2] = 32; /* now they do not */
    assert_ok(md_call(op, NULL, c.arg, 7));
    REFUSED(md_call(op, NULL, c.arg, 6), "indexed by just 'j', so the call gives its size");
    finish(&c);
    md_op_destroy(&op);
}

/* Elements behind the first 2^31: of the cache only the pages that are read have memory. */
static void a_large_cache(void **state)
{
    enum { PAGE = 64 };
    uint64_t random = check_seed();
    const int64_t of_page = PAGE * (H / GROUP) * D, n_pages = (INT64_C(1) << 31) / of_page + 40;
    const size_t n_bytes = (size_t)(n_pages * of_page) * sizeof(float);
    md_op *op = make("64", NULL);
    cache c;
    (void)state;
    fill(&c, PAGE, 3 * PAGE, &random);
    void *k = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *v = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (k == MAP_FAILED || v == MAP_FAILED)
        skip();
    free(c.k);
    free(c.v);
    c.k = k;
    c.v = v;
    c.n_pages = n_pages;
    for (int b = 0; b < B; b++) {
        c.len[b] = 3 * PAGE - b;
        for (int i = 0; i < 3; i++)
            c.table[b * 3 + i] = (int32_t)(i == 1 ? b : n_pages - 1 - 3 * b - i);
        for (int64_t j = 0; j < c.len[b]; j++)
            for (int h = 0; h < H; h += GROUP)
                for (int d = 0; d < D; d++) {
                    at(&c, c.k, b, j, h)[d] = real(&random);
                    at(&c, c.v, b, j, h)[d] = real(&random);
                }
    }
    describe(&c, 3 * PAGE);
    assert_ok(md_call(op, NULL, c.arg, 7));
    check(&c, 3 * PAGE);
    (void)munmap(k, n_bytes);
    (void)munmap(v, n_bytes);
    c.k = c.v = NULL;
    finish(&c);
    md_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(nothing_to_read),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(a_large_cache),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
