/* Tuning in pieces on a simulated device whose kernels sleep: what the pieces are, that some processes find together
 * what one finds alone, and how much sooner. */
#include "device/open.h"
#include "dispatch/pool/pieces.h"
#include "support/check.h"
#include "support/devices/sim_device.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4, MOST = 4096 };

typedef struct world {
    md_dev_facts facts;
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    md_tn_wisdom *wisdom;
    md_ds_tune_request request;
} world;

static long sleep_ns; /* of a kernel */

static double price(void *user, const char *variant, const md_kn_call *call)
{
    (void)user, (void)call;
    if (sleep_ns)
        nanosleep(&(struct timespec){.tv_nsec = sleep_ns}, NULL);
    return 5.0 + (double)(md_hash64(variant, strlen(variant)) % 1000) * 0.01;
}

static void world_open(world *w, const char *hints)
{
    memset(w, 0, sizeof *w);
    assert_ok(md_dev_cuda_assume(&w->facts, 90));
    assert_ok(md_pool_create(&w->pool, 1));
    assert_ok(sim_device_open(&w->dev, &(sim_device_options){.facts = &w->facts, .price = price, .pool = w->pool}));
    assert_ok(md_bd_create(&w->builder, w->dev));
    assert_ok(md_tn_wisdom_create(&w->wisdom));
    w->request = (md_ds_tune_request){.builder = w->builder,
                                      .compile = {.hints = hints,
                                                  .hints_source = "test",
                                                  .policy = {.select = MD_SELECT_MODEL,
                                                             .metric = MD_METRIC_LOG2,
                                                             .persistent = MD_PERSISTENT_AUTO,
                                                             .numeric = MD_NUMERIC_FAST,
                                                             .tune = MD_TUNE_MEASURE,
                                                             .wisdom = w->wisdom}},
                                      .job = {.rigor = MD_TUNE_MEASURE, .budget_ms = 1e7, .max_builds = 2, .seed = 1}};
}

static void world_close(world *w)
{
    md_bd_destroy(&w->builder);
    md_tn_wisdom_destroy(&w->wisdom);
    md_dev_close(&w->dev);
    md_pool_destroy(&w->pool);
}

/* Ops that differ: a vector's function and a constant. */
static void formula_of(char out[128], int op)
{
    static const char *const functions[] = {"exp", "tanh", "sqrt", "erf", "relu", "gelu", "silu", "sigmoid"};
    snprintf(out, 128, "Y[i] = %s(X[i] * %d)", functions[op % 8], op + 2);
}

/* ---- What the pieces are */

static void a_piece_is_a_family_at_a_point(void **state)
{
    (void)state;
    world w;
    md_ds_pieces pieces, again;
    world_open(&w, "b=1,64 n=256");
    assert_ok(md_ds_pieces_list(&pieces, &w.request, "Y[b,n] = exp(X[b,n]) / sum[k](exp(X[b,k]))"));
    assert_true(pieces.n >= 4);
    for (int32_t i = 0; i < pieces.n; i++) {
        const md_ds_piece *p = &pieces.piece[i];
        assert_true(!strcmp(p->point, "(b=1,n=256)") || !strcmp(p->point, "(b=64,n=256)"));
        assert_true(p->ms > 0.0 && p->builds >= 1 && p->builds <= 2);
        for (int32_t k = 0; k < i; k++)
            assert_false(pieces.piece[k].stage == p->stage && !strcmp(pieces.piece[k].point, p->point) &&
                         !strcmp(pieces.piece[k].family, p->family));
    }
    /* the canonical formula gives the same pieces */
    assert_ok(md_ds_pieces_list(&again, &w.request, pieces.formula));
    assert_string_equal(again.formula, pieces.formula);
    assert_int_equal(again.n, pieces.n);
    for (int32_t i = 0; i < pieces.n; i++)
        assert_true(!strcmp(again.piece[i].family, pieces.piece[i].family) && again.piece[i].ms == pieces.piece[i].ms);
    md_ds_pieces_finish(&again);
    md_ds_pieces_finish(&pieces);
    /* points off the hints are pieces, too; large ones take longer */
    w.request.off_hints = true;
    w.request.compile.hints = "(b=64,n=256) (b=16384,n=16384)";
    assert_ok(md_ds_pieces_list(&pieces, &w.request, "Y[b,n] = exp(X[b,n])"));
    double small = 0.0, large = 0.0;
    bool has_ragged = false;
    for (int32_t i = 0; i < pieces.n; i++) {
        has_ragged |= pieces.piece[i].is_ragged && !strcmp(pieces.piece[i].point, "(b=65,n=257)");
        if (!strcmp(pieces.piece[i].point, "(b=64,n=256)"))
            small = pieces.piece[i].ms;
        if (!strcmp(pieces.piece[i].point, "(b=16384,n=16384)"))
            large = pieces.piece[i].ms;
    }
    assert_true(has_ragged && large > small);
    md_ds_pieces_finish(&pieces);
    world_close(&w);
}

static void pieces_that_are_none(void **state)
{
    (void)state;
    world w;
    md_strbuf out = {0};
    world_open(&w, "64");
    const md_ds_piece stage = {.stage = 3, .family = "pointwise"}, family = {.family = "no_such"};
    assert_fails(md_ds_piece_tune(&out, &w.request, "Y[i] = X[i]", &stage), MD_NOT_FOUND, "no stage 3");
    assert_fails(md_ds_piece_tune(&out, &w.request, "Y[i] = X[i]", &family), MD_NOT_FOUND, "no family 'no_such'");
    md_strbuf_finish(&out);
    world_close(&w);
}

/* ---- Processes that share the pieces */

typedef struct job {
    char formula[128];
    md_ds_piece piece;
} job;

typedef struct shared {
    _Atomic int32_t next;
    int32_t n;
    job job[MOST];
} shared;

static int longest_first(const void *a, const void *b)
{
    const job *x = a, *y = b;
    return (x->piece.ms < y->piece.ms) - (x->piece.ms > y->piece.ms);
}

static void list_all(shared *s, int n_ops)
{
    world w;
    world_open(&w, "64,4096");
    s->n = 0;
    for (int op = 0; op < n_ops; op++) {
        char formula[128];
        md_ds_pieces pieces;
        formula_of(formula, op);
        assert_ok(md_ds_pieces_list(&pieces, &w.request, formula));
        for (int32_t i = 0; i < pieces.n && s->n < MOST; i++) {
            job *j = &s->job[s->n++];
            j->piece = pieces.piece[i];
            memcpy(j->formula, formula, sizeof formula);
            pieces.piece[i].point = NULL; /* the job's now */
        }
        md_ds_pieces_finish(&pieces);
    }
    world_close(&w);
    qsort(s->job, (size_t)s->n, sizeof *s->job, longest_first);
}

/* Takes pieces until none is left, and writes what is found. */
static void work(shared *s, const char *path)
{
    world w;
    md_strbuf out = {0};
    world_open(&w, "64,4096");
    for (int32_t i; (i = atomic_fetch_add(&s->next, 1)) < s->n;) {
        const job *j = &s->job[i];
        w.request.compile.hints = j->piece.point;
        assert_ok(md_ds_piece_tune(&out, &w.request, j->formula, &j->piece));
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(md_strbuf_text(&out), f);
    fclose(f);
    md_strbuf_finish(&out);
    world_close(&w);
}

static double seconds_of(shared *s, int n_workers, const char *folder)
{
    struct timespec from, to;
    atomic_store(&s->next, 0);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int k = 0; k < n_workers; k++)
        if (fork() == 0) {
            char path[256];
            snprintf(path, sizeof path, "%s/%d-%d", folder, n_workers, k);
            work(s, path);
            _exit(0);
        }
    for (int k = 0; k < n_workers; k++) {
        int status = 0;
        assert_true(wait(&status) > 0 && status == 0);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

static size_t read_file(char **out, const char *folder, int n_workers, int k)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%d-%d", folder, n_workers, k);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    *out = calloc(1, 1 << 24);
    const size_t n = fread(*out, 1, (1 << 24) - 1, f);
    fclose(f);
    return n;
}

/* Results of all workers, in this order of workers, some of them twice, as exported text. */
static char *merged(const char *folder, int n_workers, int first)
{
    world w;
    md_strbuf all = {0};
    md_tn_merged counts;
    world_open(&w, "64");
    for (int k = 0; k < n_workers + 2; k++) {
        char *text;
        const size_t n = read_file(&text, folder, n_workers, (first + k) % n_workers);
        assert_ok(md_tn_wisdom_merge(&counts, NULL, w.wisdom, text, n));
        free(text);
    }
    assert_ok(md_tn_wisdom_print(&all, w.wisdom));
    world_close(&w);
    assert_true(all.size > 0);
    return all.text;
}

static int count_lines(const char *text)
{
    int n = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        n++;
    return n;
}

static void four_workers_find_what_one_finds(void **state)
{
    (void)state;
    const char *effort = getenv("MD_TEST_EFFORT");
    const bool is_long = effort && atof(effort) > 1.0;
    char folder[] = "/tmp/md-pieces-XXXXXX", command[64];
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s != MAP_FAILED && mkdtemp(folder));
    const int n_ops = is_long ? 40 : 8;
    sleep_ns = is_long ? 500000 : 200000;
    list_all(s, n_ops);
    const double one = seconds_of(s, 1, folder), four = seconds_of(s, WORKERS, folder);
    printf("%d ops, %d pieces: one worker %.2f s, %d workers %.2f s, %.2f times as fast\n", n_ops, (int)s->n, one,
           WORKERS, four, one / four);
    char *alone = merged(folder, 1, 0), *first = merged(folder, WORKERS, 0), *last = merged(folder, WORKERS, 3);
    assert_string_equal(first, last);
    assert_int_equal(count_lines(first), s->n);
    assert_int_equal(count_lines(alone), s->n);
    free(alone);
    free(first);
    free(last);
    for (int32_t i = 0; i < s->n; i++)
        free(s->job[i].piece.point);
    munmap(s, sizeof *s);
    sleep_ns = 0;
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_is_a_family_at_a_point),
        cmocka_unit_test(pieces_that_are_none),
        cmocka_unit_test(four_workers_find_what_one_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
