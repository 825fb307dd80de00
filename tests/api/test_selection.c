/* Choosing, remembering, reporting: through the public API on the host device. */
#include <md/md.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static md_context *make_context(md_context_options o)
{
    md_context *c = NULL;
    o.device = "host";
    if (!o.threads)
        o.threads = 2;
    if (!o.hints)
        o.hints = "16,256,4096";
    if (md_context_create(&c, &o) != MD_OK)
        fail_msg("%s", md_last_error());
    return c;
}

static md_op *make_op(md_context *c, const char *formula, md_op_options o)
{
    md_op *op = NULL;
    if (md_op_create(&op, c, formula, &o) != MD_OK)
        fail_msg("%s: %s", formula, md_last_error());
    return op;
}

typedef struct rows {
    float *x, *y;
    md_tensor tx, ty;
    md_arg arg[2];
} rows;

/* Y[i] = sum[j](X[i,j]) on ones. */
static void rows_make(rows *r, int64_t n, int64_t m)
{
    const int64_t size[] = {n, m};
    r->x = malloc((size_t)(n * m + 1) * sizeof *r->x);
    r->y = calloc((size_t)n + 1, sizeof *r->y);
    assert_true(r->x && r->y);
    for (int64_t i = 0; i < n * m; i++)
        r->x[i] = 1.0f;
    r->tx = md_tensor_make(r->x, MD_F32, 2, size);
    r->ty = md_tensor_make(r->y, MD_F32, 1, size);
    r->arg[0] = md_t(&r->ty);
    r->arg[1] = md_t(&r->tx);
}

static void rows_free(rows *r)
{
    free(r->x);
    free(r->y);
}

static const char *const row_sum = "Y[i] = sum[j](X[i,j])";

static md_choice choice_at(md_op *op, int64_t n, int64_t m)
{
    rows r;
    md_choice choice;
    rows_make(&r, n, m);
    if (md_call(op, NULL, r.arg, 2) != MD_OK || md_choice_of(&choice, op, r.arg, 2) != MD_OK)
        fail_msg("%s", md_last_error());
    for (int64_t i = 0; i < n; i++)
        assert_true(r.y[i] == (float)m);
    rows_free(&r);
    return choice;
}

static void modes(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){0});
    md_op *op = make_op(c, row_sum, (md_op_options){.select = MD_SELECT_DISTANCE});
    md_choice choice = choice_at(op, 32, 512);
    assert_string_equal(choice.source[0], "nearest");
    assert_float_equal(choice.distance[0], 4.0, 1e-9); /* log2 32/16 + log2 512/16 = 6; to 256: 3 + 1 = 4 */
    md_op_destroy(&op);
    op = make_op(c, row_sum, (md_op_options){.select = MD_SELECT_DISTANCE, .metric = MD_METRIC_INDUCTOR});
    choice = choice_at(op, 32, 512);
    assert_float_equal(choice.distance[0], 7.0, 1e-9); /* i stands in X and Y, j in X: 2 * 3 + 1 */
    md_op_destroy(&op);
    op = make_op(c, row_sum, (md_op_options){.select = MD_SELECT_MODEL});
    choice = choice_at(op, 32, 512);
    assert_string_equal(choice.source[0], "model");
    md_op_destroy(&op);
    op = make_op(c, row_sum, (md_op_options){.select = MD_SELECT_MEASURE});
    choice = choice_at(op, 32, 512);
    assert_string_equal(choice.source[0], "measured");
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static int has_family(const md_op *op, const char *family)
{
    for (int32_t i = 0; i < md_op_n_variants(op, 0); i++)
        if (!strncmp(md_op_variant(op, 0, i), family, strlen(family)))
            return 1;
    return 0;
}

static void pools(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){0});
    md_op *op = make_op(c, "softmax", (md_op_options){0});
    assert_true(has_family(op, "row_persistent") && has_family(op, "row_looped"));
    assert_false(has_family(op, "nest"));
    md_op_destroy(&op);
    op = make_op(c, "softmax", (md_op_options){.persistent = MD_PERSISTENT_NEVER});
    assert_true(!has_family(op, "row_persistent") && has_family(op, "row_looped"));
    md_op_destroy(&op);
    op = make_op(c, "softmax", (md_op_options){.persistent = MD_PERSISTENT_ONLY});
    assert_true(has_family(op, "row_persistent") && !has_family(op, "row_looped"));
    /* A row longer than any compiled capacity still gets an answer. */
    md_op_destroy(&op);
    op = make_op(c, row_sum, (md_op_options){.sizes = "i=4, j=100"});
    int32_t static_variants = md_op_n_variants(op, 0);
    assert_true(static_variants >= 1);
    char pin[128];
    snprintf(pin, sizeof pin, "%s", md_op_variant(op, 0, static_variants - 1));
    md_op_destroy(&op);
    op = make_op(c, row_sum, (md_op_options){.pin = pin});
    md_choice choice = choice_at(op, 5, 77);
    assert_string_equal(choice.variant[0], pin);
    assert_string_equal(choice.source[0], "pinned");
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static void pins_of_the_context(void **state)
{
    (void)state;
    md_context *plain = make_context((md_context_options){0});
    md_op *op = make_op(plain, row_sum, (md_op_options){0});
    char pin[160], want[128];
    snprintf(want, sizeof want, "%s", md_op_variant(op, 0, md_op_n_variants(op, 0) - 1));
    md_op_destroy(&op);
    md_context_destroy(&plain);
    snprintf(pin, sizeof pin, "other:pointwise; total:%s", want);
    md_context *c = make_context((md_context_options){.pin = pin});
    op = make_op(c, row_sum, (md_op_options){.name = "total"});
    assert_string_equal(choice_at(op, 3, 9).variant[0], want);
    md_op_destroy(&op);
    op = make_op(c, row_sum, (md_op_options){.name = "totals"}); /* another op: not pinned */
    assert_string_not_equal(choice_at(op, 3, 9).source[0], "pinned");
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static void eviction(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){.max_shapes = 4});
    md_op *op = make_op(c, row_sum, (md_op_options){0});
    for (int round = 0; round < 3; round++)
        for (int64_t n = 1; n < 20; n++)
            choice_at(op, n, 3 * n + round);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static void launches(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){0});
    md_op *op = make_op(c, row_sum, (md_op_options){0});
    rows a, b;
    md_launch *launch = NULL;
    md_choice choice;
    double us = -1.0;
    rows_make(&a, 7, 33);
    rows_make(&b, 7, 33);
    assert_int_equal(md_resolve(&launch, op, a.arg, 2), MD_OK);
    assert_int_equal(md_launch_choice(&choice, launch), MD_OK);
    assert_int_equal(choice.n_stages, 1);
    assert_int_equal(md_launch_run(launch, NULL, NULL, 0), MD_OK);
    assert_true(a.y[6] == 33.0f && b.y[6] == 0.0f);
    assert_int_equal(md_launch_run(launch, NULL, b.arg, 2), MD_OK); /* other memory, same shape */
    assert_true(b.y[6] == 33.0f);
    assert_int_equal(md_launch_run(launch, NULL, b.arg, 1), MD_INVALID_ARGUMENT);
    assert_int_equal(md_launch_time(&us, launch, NULL), MD_OK);
    assert_true(us > 0.0 && us < 1e7);
    md_launch_destroy(&launch);
    rows_free(&a);
    rows_free(&b);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "r");
    static char text[65536];
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    return text;
}

static void statistics(void **state)
{
    (void)state;
    char path[] = "/tmp/md-stats-XXXXXX.json";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    close(fd);
    md_context *c = make_context((md_context_options){0});
    md_op *op = make_op(c, row_sum, (md_op_options){.name = "total"});
    for (int i = 0; i < 3; i++)
        choice_at(op, 8, 64);
    choice_at(op, 9, 64);
    md_op_destroy(&op); /* what it did outlives it */
    assert_int_equal(md_stats_write(c, path, NULL), MD_OK);
    char *text = read_all(path);
    assert_non_null(strstr(text, "\"op\": \"total\""));
    assert_non_null(strstr(text, "\"shape\": \"i=8 j=64\""));
    assert_non_null(strstr(text, "\"calls\": 3"));
    assert_int_equal(md_stats_write(c, path, "csv"), MD_OK);
    text = read_all(path);
    assert_non_null(strstr(text, "op,shape,stage,variant,why,distance,runner_up,margin,calls,total_us,us"));
    assert_non_null(strstr(text, "total,i=9 j=64,0,"));
    assert_int_equal(md_stats_write(c, path, "table"), MD_OK);
    assert_non_null(strstr(read_all(path), "runner-up"));
    assert_int_equal(md_stats_write(c, path, "xml"), MD_INVALID_ARGUMENT);
    assert_int_equal(md_stats_write(c, "/nonexistent/x.json", NULL), MD_IO);
    md_context_destroy(&c);
    unlink(path);
}

typedef struct crowd {
    md_op *op;
    int64_t seed;
    int n_wrong;
} crowd;

static void *call_many(void *user)
{
    crowd *c = user;
    for (int64_t k = 0; k < 200; k++) {
        rows r;
        int64_t n = 1 + (k * 7 + c->seed) % 13, m = 1 + (k * 5 + c->seed * 3) % 40;
        rows_make(&r, n, m);
        if (md_call(c->op, NULL, r.arg, 2) != MD_OK)
            c->n_wrong++;
        for (int64_t i = 0; i < n; i++)
            c->n_wrong += r.y[i] != (float)m;
        rows_free(&r);
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){.max_shapes = 50});
    md_op *op = make_op(c, row_sum, (md_op_options){0});
    pthread_t thread[8];
    crowd callers[8];
    for (int i = 0; i < 8; i++) {
        callers[i] = (crowd){op, i / 2, 0}; /* pairs meet the same shapes at the same time */
        assert_int_equal(pthread_create(&thread[i], NULL, call_many, &callers[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(callers[i].n_wrong, 0);
    }
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static int append(void *user, const char *text, size_t n)
{
    char *to = user;
    size_t used = strlen(to);
    if (used + n >= 1 << 20)
        return 1;
    memcpy(to + used, text, n);
    to[used + n] = 0;
    return 0;
}

static void explanations(void **state)
{
    (void)state;
    static char text[1 << 20];
    md_context *c = make_context((md_context_options){0});
    md_op *op = make_op(c, "softmax", (md_op_options){.select = MD_SELECT_DISTANCE});
    assert_int_equal(md_explain(op, "i=1, j=1048576", 0, append, text), MD_OK);
    assert_non_null(strstr(text, "pick:"));
    assert_non_null(strstr(text, "lopsided"));
    text[0] = 0;
    assert_int_equal(md_explain(op, "i=8, j=100", 1, append, text), MD_OK);
    assert_non_null(strstr(text, "\"candidates\""));
    assert_int_equal(md_explain(op, "i=8", 0, append, text), MD_INVALID_ARGUMENT);
    assert_non_null(strstr(md_last_error(), "dim 'j' is missing"));
    assert_int_equal(md_explain(op, "i=8, q=1", 0, append, text), MD_INVALID_ARGUMENT);
    assert_non_null(strstr(md_last_error(), "no dim 'q'"));
    text[0] = 0;
    assert_int_equal(md_op_source(op, 0, md_op_variant(op, 0, 0), append, text), MD_OK);
    assert_non_null(strstr(text, "md_params"));
    assert_int_equal(md_op_source(op, 0, "nosuch", append, text), MD_NOT_FOUND);
    assert_int_equal(md_prepare(op, "i=3, j=5"), MD_OK);
    double flops = 0, bytes = 0;
    assert_int_equal(md_op_work(&flops, &bytes, op, "i=8, j=100"), MD_OK);
    assert_true(bytes == 2 * 8 * 100 * 4 && flops >= 3 * 8 * 100);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static int n_alive;
static void *my_alloc(void *user, size_t n, size_t alignment)
{
    (void)user;
    n_alive++;
    return aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment);
}
static void my_free(void *user, void *p, size_t n)
{
    (void)user;
    (void)n;
    n_alive--;
    free(p);
}

static void own_allocator(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){.alloc = my_alloc, .free = my_free});
    md_op *op = make_op(c, "Y[i,j] = X[j,i]", (md_op_options){0});
    float m[4] = {1, 2, 3, 4};
    const int64_t size[] = {2, 2};
    md_tensor t = md_tensor_make(m, MD_F32, 2, size);
    md_arg a[2] = {md_t(&t), md_t(&t)};
    assert_int_equal(md_call(op, NULL, a, 2), MD_OK); /* the overwritten input is copied: temporary memory */
    assert_true(m[1] == 3 && n_alive > 0);
    md_op_destroy(&op);
    md_context_destroy(&c);
    assert_int_equal(n_alive, 0);
}

int main(void)
{
    for (int32_t i = 0;; i++) {
        const char *name, *values, *meaning;
        md_variables(i, &name, &values, &meaning);
        if (!name)
            break;
        unsetenv(name);
    }
    setenv("MD_CACHE_DIR", "", 1); /* what an earlier run measured would be picked */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes),        cmocka_unit_test(pools),        cmocka_unit_test(pins_of_the_context),
        cmocka_unit_test(eviction),     cmocka_unit_test(launches),     cmocka_unit_test(statistics),
        cmocka_unit_test(many_threads), cmocka_unit_test(explanations), cmocka_unit_test(own_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
