/* md_agree among processes on the host device: what ranks agree on, what they refuse, and that none waits for ever. */
#include "stats/agree.h"
#include "support/check.h"
#include "support/ranks.h"

#include <time.h>

static const char FORMULA[] = "Y[i] = sum[j](X[i,j])";
enum { COLUMNS = 8, FIRST_GATHER = 2 /* of md_agree; before it all wait for each other */ };

/* What ranks do before they agree. */
typedef struct script {
    int32_t only_rank; /* meets more shapes than others; -1 */
    int32_t other_rank; /* runs what it would not choose; -1 */
    int32_t pinned[2]; /* ranks that are pinned to one variant: the first to `pin`, the second to the next; -1 */
    int32_t pin;
    int32_t odd_rank; /* has another formula or other options; -1 */
    md_op_options odd;
    const char *odd_formula;
    int32_t victim, dies_at; /* of gathers */
    int32_t n_shapes;
    void (*change)(void *mine, int32_t gather, size_t n_bytes); /* of rank 1 */
    double seconds;
} script;

static const script PLAIN = {.only_rank = -1,
                             .other_rank = -1,
                             .pinned = {-1, -1},
                             .odd_rank = -1,
                             .victim = -1,
                             .n_shapes = 3,
                             .seconds = 60.0};

typedef struct rank_world {
    md_context *context;
    md_op *op;
} rank_world;

static void call(md_op *op, int64_t rows)
{
    static float x[4096 * COLUMNS], y[4096];
    const int64_t size[] = {rows, COLUMNS};
    const md_tensor ty = md_tensor_make(y, MD_F32, 1, size), tx = md_tensor_make(x, MD_F32, 2, size);
    for (int64_t i = 0; i < rows * COLUMNS; i++)
        x[i] = 1.0f;
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    for (int64_t i = 0; i < rows; i++)
        assert_true(y[i] == (float)COLUMNS);
}

static int take(void *user, const char *text, size_t n)
{
    return fwrite(text, 1, n, user) != n;
}

static char *export(md_context *c)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    assert_ok(md_choices_export(c, take, file));
    fclose(file);
    return text;
}

/* Replaces every variant by one that was not chosen. */
static void choose_otherwise(rank_world *w)
{
    char *text = export(w->context), *changed = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&changed, &n);
    for (char *at = text; *at;) {
        char *mark = strstr(at, "\"variants\":[\"");
        if (!mark) {
            fputs(at, file);
            break;
        }
        char *name = mark + strlen("\"variants\":[\""), *end = strchr(name, '"');
        fwrite(at, 1, (size_t)(name - at), file);
        const char *other = md_op_variant(w->op, 0, 0);
        if (!strncmp(other, name, (size_t)(end - name)) && !other[end - name])
            other = md_op_variant(w->op, 0, 1);
        fputs(other, file);
        at = end;
    }
    fclose(file);
    assert_ok(md_choices_import(NULL, w->context, changed));
    free(text);
    free(changed);
}

static void open_world(rank_world *w, const ranks *r, const script *s)
{
    md_op_options o = {.hints = "(i=16,j=8) (i=1024,j=8)"};
    assert_ok(md_context_create(&w->context,
                                &(md_context_options){.device = "host", .threads = 1, .select = MD_SELECT_MODEL}));
    char pin[128];
    if (r->rank == s->pinned[0] || r->rank == s->pinned[1]) {
        md_op *free_op = NULL;
        assert_ok(md_op_create(&free_op, w->context, FORMULA, &o));
        snprintf(pin, sizeof pin, "%s", md_op_variant(free_op, 0, s->pin + (r->rank == s->pinned[1])));
        md_op_destroy(&free_op);
        o.pin = pin;
    }
    if (r->rank == s->odd_rank) {
        const char *hints = o.hints;
        o = s->odd;
        o.hints = s->odd_formula ? NULL : hints;
    }
    assert_ok(
        md_op_create(&w->op, w->context, r->rank == s->odd_rank && s->odd_formula ? s->odd_formula : FORMULA, &o));
}

static void work(ranks *r, void *user)
{
    const script *s = user;
    md_agreement found = {0};
    rank_world w;
    open_world(&w, r, s);
    if (!(r->rank == s->odd_rank && s->odd_formula))
        for (int i = 0; i < (s->only_rank == r->rank ? s->n_shapes + 2 : s->n_shapes); i++)
            call(w.op, 1 + 3 * i);
    if (r->rank == s->other_rank)
        choose_otherwise(&w);
    const md_exchange x = ranks_exchange(r, s->seconds);
    struct timespec from, to;
    char all[RANKS_MOST];
    assert_int_equal(x.gather(x.user, all, "", 1, 60.0, all), 0); /* all are there; not one of md_agree's */
    r->dies_at = r->rank == s->victim ? 1 + s->dies_at : 0;
    r->change = r->rank == 1 ? s->change : NULL;
    clock_gettime(CLOCK_MONOTONIC, &from);
    const md_status status = md_agree(&found, w.context, &x);
    clock_gettime(CLOCK_MONOTONIC, &to);
    r->shared->seconds[r->rank] = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    snprintf(r->shared->message[r->rank], sizeof r->shared->message[0], "%s", status == MD_OK ? "" : md_last_error());
    const int32_t result[] = {(int32_t)status,          found.n_kinds,
                              (int32_t)found.n_shapes,  (int32_t)found.n_disputed,
                              (int32_t)found.n_changed, (int32_t)found.n_vetoed,
                              found.differing,          atomic_load(&r->shared->arrived[r->rank]) - 1};
    memcpy(r->shared->result[r->rank], result, sizeof result);
    assert_ok(md_digest(r->shared->digest[r->rank], w.context));
    assert_true(status != MD_OK || !memcmp(found.digest, r->shared->digest[r->rank], sizeof found.digest));
    if (s->odd_rank < 0)
        for (int i = 0; i < s->n_shapes + 2; i++)
            call(w.op, 1 + 3 * i);
    md_op_destroy(&w.op);
    md_context_destroy(&w.context);
}

enum { STATUS, KINDS, SHAPES, DISPUTED, CHANGED, VETOED, DIFFERING, GATHERS };

static void run(ranks *r, int32_t n, script s)
{
    ranks_open(r, n);
    ranks_run(r, work, &s);
    assert_int_equal(ranks_wait(r), 0);
}

static void expect_equal(const ranks *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        if (r->shared->result[i][STATUS] != MD_OK)
            fail_msg("rank %d: %s", (int)i, r->shared->message[i]);
        assert_int_equal(r->shared->result[i][GATHERS], MD_AGREE_GATHERS);
        assert_memory_equal(r->shared->digest[i], r->shared->digest[0], sizeof r->shared->digest[0]);
    }
}

/* ---- Agreement */

static void equal_ranks_change_nothing(void **state)
{
    (void)state;
    ranks r;
    run(&r, 3, PLAIN);
    expect_equal(&r);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r.shared->result[i][DISPUTED], 0);
        assert_int_equal(r.shared->result[i][CHANGED], 0);
        assert_int_equal(r.shared->result[i][SHAPES], 3);
        assert_int_equal(r.shared->result[i][KINDS], 1);
        assert_int_equal(r.shared->result[i][DIFFERING], -1);
    }
    ranks_close(&r);
}

static void one_rank_is_enough(void **state)
{
    (void)state;
    ranks r;
    run(&r, 1, PLAIN);
    expect_equal(&r);
    ranks_close(&r);
}

static void the_first_rank_decides(void **state)
{
    (void)state;
    for (int32_t other = 0; other < 2; other++) {
        ranks r;
        script s = PLAIN;
        s.other_rank = other;
        run(&r, 2, s);
        expect_equal(&r);
        assert_int_equal(r.shared->result[0][DISPUTED], 3);
        assert_int_equal(r.shared->result[0][CHANGED], 0);
        assert_int_equal(r.shared->result[1][CHANGED], 3);
        ranks_close(&r);
    }
}

static void shapes_of_one_are_shapes_of_all(void **state)
{
    (void)state;
    ranks r;
    script s = PLAIN;
    s.only_rank = 2;
    run(&r, 3, s);
    expect_equal(&r);
    assert_int_equal(r.shared->result[0][SHAPES], 5);
    assert_int_equal(r.shared->result[0][DISPUTED], 2);
    assert_int_equal(r.shared->result[0][CHANGED], 2);
    assert_int_equal(r.shared->result[2][CHANGED], 0);
    ranks_close(&r);
}

static void a_veto_gives_way_to_the_next(void **state)
{
    (void)state;
    int32_t n_vetoed = 0;
    for (int32_t pin = 0; pin < 2; pin++) { /* rank 0 runs at most one of the two */
        ranks r;
        script s = PLAIN;
        s.pinned[0] = 1; /* it can run nothing else */
        s.pin = pin;
        run(&r, 3, s);
        expect_equal(&r);
        assert_int_equal(r.shared->result[1][CHANGED], 0);
        /* the first choice of each dispute, and runners-up that it cannot run either, which pools decide */
        assert_in_range(r.shared->result[0][VETOED], r.shared->result[0][DISPUTED], 2 * r.shared->result[0][DISPUTED]);
        assert_int_equal(r.shared->result[0][CHANGED], r.shared->result[0][DISPUTED]);
        n_vetoed += r.shared->result[2][VETOED];
        ranks_close(&r);
    }
    assert_true(n_vetoed > 0);
}

static void no_choice_for_all_is_an_error_on_all(void **state)
{
    (void)state;
    ranks r;
    script s = PLAIN;
    s.pinned[0] = 0;
    s.pinned[1] = 1;
    run(&r, 3, s);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r.shared->result[i][STATUS], MD_UNSUPPORTED);
        assert_non_null(strstr(r.shared->message[i], "no choice can be built on all of them: rank "));
        assert_int_equal(r.shared->result[i][GATHERS], MD_AGREE_GATHERS);
        int who = -1, says = -2, n = 0; /* the message of who cannot build it, which says why */
        sscanf(strstr(r.shared->message[i], "rank "), "rank %d cannot build '%*[^']': %n", &who, &n);
        sscanf(strrchr(r.shared->message[i], '('), "(rank %d says so)", &says);
        assert_true(n > 0 && who == says);
    }
    ranks_close(&r);
}

/* ---- What differs is named */

static void other_formulas_and_options_are_named(void **state)
{
    (void)state;
    static const struct {
        md_op_options o;
        const char *formula, *part;
    } odd[] = {
        {{.name = "x"}, "Y[i] = X[i] * 3", "rank 1 lacks the op of rank 0: Y:f32[i] = sum[j](X:f32[i,j])"},
        {{.numeric = MD_NUMERIC_DETERMINISTIC}, NULL, "rank 1 has 'numeric deterministic', rank 0 'numeric fast'"},
        {{.bounds = MD_BOUNDS_CLAMP}, NULL, "rank 1 has 'bounds clamp', rank 0 'bounds report'"},
        {{.dtype = MD_F64}, "Y[i] = X[i] * 3", "rank 1 lacks the op of rank 0"},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        ranks r;
        script s = PLAIN;
        s.odd_rank = 1;
        s.odd = odd[i].o;
        s.odd_formula = odd[i].formula;
        run(&r, 3, s);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(r.shared->result[k][STATUS], MD_INVALID_ARGUMENT);
            if (!strstr(r.shared->message[k], odd[i].part))
                fail_msg("rank %d: %s", k, r.shared->message[k]);
        }
        ranks_close(&r);
    }
}

/* Rank 1 has the longest text of ops, and nothing else to say: it fits with the 0 that ends it. */
static void expect_whole_text(void *mine, int32_t gather, size_t n_bytes)
{
    static int64_t n_text;
    n_text = gather == FIRST_GATHER ? ((md_ss_hello *)mine)->ops_bytes : n_text;
    assert_true(gather != FIRST_GATHER + 2 || n_bytes == (size_t)n_text + 1);
}

static void texts_of_ops_are_told_whole(void **state)
{
    (void)state;
    ranks r;
    script s = PLAIN;
    s.n_shapes = 0;
    s.odd_rank = 1;
    s.odd_formula = "Y[i] = sum[j](X[i,j] * X[i,j] + exp(X[i,j]) - 1)";
    s.change = expect_whole_text;
    run(&r, 2, s);
    ranks_close(&r);
}

/* A rank that says that it is something else. */
static void say(size_t at, const char *text, void *mine, int32_t gather)
{
    if (gather == FIRST_GATHER)
        snprintf((char *)mine + at, 40, "%s", text);
}

static void claim_version(void *mine, int32_t gather, size_t n_bytes)
{
    (void)n_bytes;
    say(offsetof(md_ss_hello, library), "9.9.9 0123", mine, gather);
}

static void claim_device(void *mine, int32_t gather, size_t n_bytes)
{
    (void)n_bytes;
    say(offsetof(md_ss_hello, device), "Board 9", mine, gather);
}

static void claim_driver(void *mine, int32_t gather, size_t n_bytes)
{
    (void)n_bytes;
    say(offsetof(md_ss_hello, environment), "driver 99", mine, gather);
}

static void other_versions_devices_and_drivers_are_named(void **state)
{
    (void)state;
    ranks r;
    script s = PLAIN;
    s.change = claim_version;
    s.other_rank = 1;
    run(&r, 2, s);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(r.shared->result[k][STATUS], MD_UNSUPPORTED);
        assert_non_null(strstr(r.shared->message[k], "rank 1 has version 9.9.9 0123 of the library, rank 0 "));
        assert_int_equal(r.shared->result[k][GATHERS], MD_AGREE_GATHERS);
    }
    ranks_close(&r);
    s.change = claim_driver;
    run(&r, 2, s);
    expect_equal(&r); /* it is told, not refused */
    assert_int_equal(r.shared->result[0][DIFFERING], 1);
    ranks_close(&r);
    s.change = claim_device; /* kinds choose apart */
    run(&r, 3, s);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(r.shared->result[k][STATUS], MD_OK);
        assert_int_equal(r.shared->result[k][KINDS], 2);
        assert_int_equal(r.shared->result[k][CHANGED], 0);
        assert_int_equal(r.shared->result[k][DIFFERING], 1);
    }
    assert_memory_equal(r.shared->digest[0], r.shared->digest[2], sizeof r.shared->digest[0]);
    assert_memory_not_equal(r.shared->digest[0], r.shared->digest[1], sizeof r.shared->digest[0]);
    ranks_close(&r);
}

static void break_bytes(void *mine, int32_t gather, size_t n_bytes)
{
    if (gather == FIRST_GATHER + 2)
        memset(mine, 0xff, n_bytes);
}

static void damaged_records_are_refused_by_all(void **state)
{
    (void)state;
    ranks r;
    script s = PLAIN;
    s.change = break_bytes;
    s.only_rank = 1; /* it has something to say */
    run(&r, 2, s);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(r.shared->result[k][STATUS], MD_CORRUPT);
        assert_non_null(strstr(r.shared->message[k], "what rank 1 said"));
    }
    ranks_close(&r);
}

/* ---- Nobody waits for ever */

static bool name_rank_2(const ranks *r)
{
    for (int k = 0; k < 2; k++)
        if (r->shared->result[k][STATUS] != MD_TIMEOUT || !strstr(r->shared->message[k], "rank 2 did not come"))
            return false;
    return true;
}

/* On a busy machine the others may come too late for a second, too. */
static void a_rank_that_is_lost_is_named(void **state)
{
    (void)state;
    enum { PATIENCE = 4, MOST_S = 64 };
    for (int32_t at = 1; at <= MD_AGREE_GATHERS; at++) {
        ranks r;
        script s = PLAIN;
        s.other_rank = 1;
        s.victim = 2;
        s.dies_at = at;
        s.seconds = 1.0;
        for (run(&r, 3, s); !name_rank_2(&r) && s.seconds < MOST_S; run(&r, 3, s)) {
            ranks_close(&r);
            s.seconds *= PATIENCE;
        }
        assert_true(name_rank_2(&r));
        for (int k = 0; k < 2; k++)
            assert_true(r.shared->seconds[k] < 20.0 * s.seconds);
        if (at <= 5) /* nothing was changed yet */
            assert_memory_not_equal(r.shared->digest[0], r.shared->digest[1], sizeof r.shared->digest[0]);
        else
            assert_memory_equal(r.shared->digest[0], r.shared->digest[1], sizeof r.shared->digest[0]);
        ranks_close(&r);
    }
}

static int32_t no_gather(void *user, void *all, const void *mine, size_t n_bytes, double seconds, char *why)
{
    (void)user, (void)all, (void)mine, (void)n_bytes, (void)seconds, (void)why;
    return 1;
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    md_context *c = NULL;
    md_exchange x = {.n_ranks = 1};
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .cache_dir = ""}));
    assert_fails(md_agree(NULL, NULL, &x), MD_INVALID_ARGUMENT, "context is NULL");
    assert_fails(md_agree(NULL, c, NULL), MD_INVALID_ARGUMENT, "exchange is NULL");
    assert_fails(md_agree(NULL, c, &x), MD_INVALID_ARGUMENT, "gather is NULL");
    x.gather = no_gather;
    x.rank = 1;
    assert_fails(md_agree(NULL, c, &x), MD_INVALID_ARGUMENT, "rank 1 of 1");
    x.rank = 0;
    x.seconds = -1.0;
    assert_fails(md_agree(NULL, c, &x), MD_INVALID_ARGUMENT, "-1 s");
    x.seconds = 0.0;
    assert_fails(md_agree(NULL, c, &x), MD_TIMEOUT, "a rank did not come");
    md_context_destroy(&c);
}

/* ---- Many choices */

static void a_thousand_choices(void **state)
{
    (void)state;
    static const int32_t others[] = {-1, 1};
    for (size_t i = 0; i < 2; i++) {
        ranks r;
        script s = PLAIN;
        s.n_shapes = 1000;
        s.other_rank = others[i];
        run(&r, 8, s);
        expect_equal(&r);
        double most = 0.0;
        for (int k = 0; k < 8; k++)
            most = r.shared->seconds[k] > most ? r.shared->seconds[k] : most;
        printf("8 ranks, 1000 choices, %s: %.1f ms by the slowest, %.1f ms by rank 0\n",
               i ? "all of one rank differ" : "equal", 1e3 * most, 1e3 * r.shared->seconds[0]);
        ranks_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_ranks_change_nothing),
        cmocka_unit_test(one_rank_is_enough),
        cmocka_unit_test(the_first_rank_decides),
        cmocka_unit_test(shapes_of_one_are_shapes_of_all),
        cmocka_unit_test(a_veto_gives_way_to_the_next),
        cmocka_unit_test(no_choice_for_all_is_an_error_on_all),
        cmocka_unit_test(other_formulas_and_options_are_named),
        cmocka_unit_test(texts_of_ops_are_told_whole),
        cmocka_unit_test(other_versions_devices_and_drivers_are_named),
        cmocka_unit_test(damaged_records_are_refused_by_all),
        cmocka_unit_test(a_rank_that_is_lost_is_named),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(a_thousand_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
