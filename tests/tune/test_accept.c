/* What the tuner accepts on the host device: kernels really run, some of them bent by a device in between. */
#include "support/check.h"

#include "base/status.h"
#include "tune/bench/bench.h"
#include "tune/search/search.h"

#include <pthread.h>

typedef enum bend { BEND_NOTHING, BEND_RESULT, BEND_NEIGHBOUR, BEND_NOTHING_WRITTEN, BEND_LAUNCH, BEND_COMPILE } bend;

/* A device whose operations are the host's but for one. Ops are found from the device by its place: there is one at
 * a time. */
typedef struct bent {
    md_dev_ops ops;
    const md_dev_ops *real;
    bend how;
    const char *variant; /* part of the name of those that are bent */
    _Atomic int32_t n_bent; /* several threads compile */
    int64_t live, peak; /* bytes that the device lent */
    struct {
        void *p;
        size_t n_bytes;
    } lent[256];
} bent;
static bent the_bent;
static pthread_mutex_t lock_of_lent = PTHREAD_MUTEX_INITIALIZER;

static bool is_bent(const md_kn_call *call)
{
    return call && call->variant && the_bent.variant && strstr(call->variant, the_bent.variant);
}

static md_status bent_launch(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                             md_dev_params params, const md_kn_call *call)
{
    const bool bends = is_bent(call);
    the_bent.n_bent += bends;
    if (bends && the_bent.how == BEND_LAUNCH)
        return md_fail(MD_DEVICE, "bent: it does not launch");
    if (bends && the_bent.how == BEND_NOTHING_WRITTEN)
        return MD_OK;
    md_status s = the_bent.real->launch(dev, stream, kernel, geometry, params, call);
    const md_st_program *program = call ? call->program : NULL;
    for (int32_t t = 0; bends && program && t < program->formula->n_tensors; t++) {
        if (program->formula->tensor[t].role != MD_FX_OUTPUT)
            continue;
        float *y = call->data[t];
        int64_t elements = 1;
        for (int32_t a = 0; a < program->formula->tensor[t].rank; a++)
            elements *= call->shape->extent[t][a];
        if (the_bent.how == BEND_RESULT)
            y[elements - 1] += 0.25f;
        if (the_bent.how == BEND_NEIGHBOUR)
            y[elements + 1] = 1.0f;
    }
    return s;
}

static md_status bent_compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source)
{
    if (the_bent.how == BEND_COMPILE && the_bent.n_bent++ % 2 == 0)
        return md_fail(MD_COMPILE, "bent: it does not compile");
    return the_bent.real->compile(binary, n_bytes, dev, source);
}

static md_status bent_alloc(void **out, md_dev *dev, size_t n_bytes)
{
    MD_TRY(the_bent.real->alloc(out, dev, n_bytes));
    pthread_mutex_lock(&lock_of_lent);
    int32_t i = 0;
    while (i < 255 && the_bent.lent[i].p)
        i++;
    the_bent.lent[i].p = *out;
    the_bent.lent[i].n_bytes = n_bytes;
    the_bent.live += (int64_t)n_bytes;
    the_bent.peak = MD_MAX(the_bent.peak, the_bent.live);
    pthread_mutex_unlock(&lock_of_lent);
    return MD_OK;
}

static void bent_free(md_dev *dev, void *p)
{
    pthread_mutex_lock(&lock_of_lent);
    for (int32_t i = 0; i < 256; i++)
        if (p && the_bent.lent[i].p == p) {
            the_bent.lent[i].p = NULL;
            the_bent.live -= (int64_t)the_bent.lent[i].n_bytes;
        }
    pthread_mutex_unlock(&lock_of_lent);
    the_bent.real->free(dev, p);
}

typedef struct world {
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    md_tn_wisdom *wisdom;
    md_fx_formula *formula;
    md_st_program *program;
    md_tn_counters count;
    md_tn_job job;
    md_tn_point point;
} world;

static void world_open(world *w, const char *formula, int64_t i, int64_t j, bend how, const char *variant)
{
    const md_fx_options o = {.dtype = MD_F32};
    memset(w, 0, sizeof *w);
    assert_ok(md_pool_create(&w->pool, 2));
    assert_ok(md_dev_open(&w->dev, &(md_dev_options){.device = "host", .pool = w->pool}));
    the_bent = (bent){.ops = *w->dev->ops, .real = w->dev->ops, .how = how, .variant = variant};
    the_bent.ops.launch = bent_launch;
    the_bent.ops.compile = bent_compile;
    the_bent.ops.alloc = bent_alloc;
    the_bent.ops.free = bent_free;
    w->dev->ops = &the_bent.ops;
    assert_ok(md_bd_create(&w->builder, w->dev));
    assert_ok(md_tn_wisdom_create(&w->wisdom));
    assert_ok(md_fx_formula_create(&w->formula, formula, &o));
    assert_ok(md_st_split(w->formula));
    assert_ok(md_st_program_create(&w->program, w->formula));
    w->point.size[0] = i;
    w->point.size[1] = j;
    w->job = (md_tn_job){.builder = w->builder,
                         .target = {w->program, 0, &w->dev->facts},
                         .wisdom = w->wisdom,
                         .count = &w->count,
                         .rigor = MD_TUNE_EXHAUSTIVE,
                         .budget_ms = 60000.0,
                         .n_points = 1,
                         .point = &w->point,
                         .seed = 3};
}

static void world_close(world *w)
{
    w->dev->ops = the_bent.real;
    md_bd_destroy(&w->builder);
    md_tn_wisdom_destroy(&w->wisdom);
    md_st_program_destroy(&w->program);
    md_fx_formula_destroy(&w->formula);
    md_dev_close(&w->dev);
    md_pool_destroy(&w->pool);
}

static bool find(md_tn_record *r, const world *w, const char *family)
{
    char *key = NULL;
    assert_ok(md_tn_key(&key, &w->job.target, w->point.size, false));
    const bool is_there = md_tn_wisdom_find(r, w->wisdom, key, family, MD_TUNE_MEASURE) == MD_OK;
    free(key);
    return is_there;
}

static int32_t count_verdicts(const md_tn_record *r, const char *part, md_tn_verdict v)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_candidates; i++)
        n += strstr(r->candidate[i].name, part) && r->candidate[i].verdict == v;
    return n;
}

static const char silu[] = "Y[i,j] = silu(X[i,j])";

static void right_kernels_are_accepted(void **state)
{
    (void)state;
    static const char *const formulas[] = {
        "Y[i,j] = silu(X[i,j]) * X[i,j]",
        "Y[i] = sum[j](X[i,j] * X[i,j])",
        "Y[i] = argmax[j](X[i,j])",
        "Y[i,j] = cumsum[j](X[i,j])",
        "Y[i,j] = X[j,i]",
        "Y[i,j] = log(X[i,j]) + sqrt(X[i,j])",
        "let m[i] = max[j](X[i,j]); Y[i,j] = X[i,j] - m[i]",
    };
    for (int32_t i = 0; i < MD_COUNT(formulas); i++) {
        world w;
        world_open(&w, formulas[i], 40, 200, BEND_NOTHING, NULL);
        w.job.rigor = MD_TUNE_MEASURE;
        w.job.max_builds = 4;
        assert_ok(md_tn_tune(&w.job));
        if (atomic_load(&w.count.wrong) || atomic_load(&w.count.failed) || !atomic_load(&w.count.timed))
            fail_msg("%s: %d wrong, %d failed, %d timed", formulas[i], (int)w.count.wrong, (int)w.count.failed,
                     (int)w.count.timed);
        world_close(&w);
    }
}

/* All variants of one value are bent: none of them may win, and the ones that would have are quarantined. */
static void check_refused(bend how)
{
    world w;
    md_tn_record r, again;
    world_open(&w, silu, 64, 256, how, "flat1");
    assert_ok(md_tn_tune(&w.job));
    assert_true(find(&r, &w, "pointwise"));
    assert_true(r.count > 0);
    assert_null(strstr(r.variant, "flat1"));
    const int32_t n_wrong = count_verdicts(&r, "flat1", MD_TN_WRONG);
    /* It is not run again by a later search, also of another point. */
    w.point.size[1] = 300;
    the_bent.n_bent = 0;
    const uint64_t wrong = atomic_load(&w.count.wrong);
    assert_ok(md_tn_tune(&w.job));
    assert_true(find(&again, &w, "pointwise"));
    assert_null(strstr(again.variant, "flat1"));
    assert_int_equal(wrong, n_wrong);
    assert_true(count_verdicts(&again, "flat1", MD_TN_WRONG) >= n_wrong);
    md_tn_record_finish(&r);
    md_tn_record_finish(&again);
    world_close(&w);
}

/* Nothing is left where all are bent: the model's word stays. */
static void check_all_refused(bend how)
{
    world w;
    md_tn_record r;
    world_open(&w, silu, 64, 256, how, "pointwise");
    assert_ok(md_tn_tune(&w.job));
    assert_true(find(&r, &w, "pointwise"));
    assert_int_equal(r.count, 0);
    assert_true(r.n_candidates > 0);
    assert_int_equal(count_verdicts(&r, "pointwise", MD_TN_WRONG), r.n_candidates);
    md_tn_record_finish(&r);
    world_close(&w);
}

static void wrong_results_are_refused(void **state)
{
    (void)state;
    check_refused(BEND_RESULT);
    check_all_refused(BEND_RESULT);
}

static void writing_beside_outputs_is_refused(void **state)
{
    (void)state;
    check_refused(BEND_NEIGHBOUR);
    check_all_refused(BEND_NEIGHBOUR);
}

static void what_writes_nothing_is_refused(void **state)
{
    (void)state;
    world w;
    md_tn_record r;
    world_open(&w, silu, 64, 256, BEND_NOTHING_WRITTEN, "flat1"); /* the fastest of all */
    assert_ok(md_tn_tune(&w.job));
    assert_true(find(&r, &w, "pointwise"));
    assert_null(strstr(r.variant, "flat1"));
    assert_true(count_verdicts(&r, "flat1", MD_TN_WRONG) > 0);
    md_tn_record_finish(&r);
    world_close(&w);
}

static void what_does_not_launch_is_passed_over(void **state)
{
    (void)state;
    world w;
    md_tn_record r;
    world_open(&w, silu, 64, 256, BEND_LAUNCH, "flat1");
    assert_ok(md_tn_tune(&w.job));
    assert_true(find(&r, &w, "pointwise"));
    assert_null(strstr(r.variant, "flat1"));
    assert_true(count_verdicts(&r, "flat1", MD_TN_FAILED) > 0);
    assert_int_equal(the_bent.n_bent, count_verdicts(&r, "flat1", MD_TN_FAILED)); /* once each */
    md_tn_record_finish(&r);
    world_close(&w);
}

static void what_does_not_compile_is_passed_over(void **state)
{
    (void)state;
    world w;
    md_tn_record r;
    world_open(&w, silu, 64, 256, BEND_COMPILE, NULL);
    assert_ok(md_tn_tune(&w.job));
    assert_true(find(&r, &w, "pointwise"));
    assert_true(r.count > 0);
    assert_true(count_verdicts(&r, "pointwise", MD_TN_UNBUILT) > 0);
    assert_true(count_verdicts(&r, r.variant, MD_TN_UNBUILT) == 0);
    md_tn_record_finish(&r);
    world_close(&w);
}

static void excluded_names_are_quarantined(void **state)
{
    (void)state;
    world w;
    md_tn_record r;
    world_open(&w, silu, 64, 256, BEND_NOTHING, NULL);
    assert_ok(md_tn_tune(&w.job));
    assert_true(find(&r, &w, "pointwise"));
    char winner[MD_FA_NAME];
    memcpy(winner, r.variant, sizeof winner);
    md_tn_record_finish(&r);
    world_close(&w);
    world_open(&w, silu, 64, 256, BEND_NOTHING, winner);
    w.job.exclude = winner;
    assert_ok(md_tn_tune(&w.job));
    assert_true(find(&r, &w, "pointwise"));
    assert_string_not_equal(r.variant, winner);
    assert_int_equal(count_verdicts(&r, winner, MD_TN_ENDLESS), 1);
    assert_int_equal(the_bent.n_bent, 0); /* it never ran */
    md_tn_record_finish(&r);
    world_close(&w);
}

/* Numbers that were given are what a gather reads; any of them is brought into range. */
static void given_indices_are_used(void **state)
{
    (void)state;
    static const int64_t given[] = {5, 1 << 20, -7, 3};
    md_tn_patterns patterns = {.indices = {4, given}, .seed = 1};
    md_tn_data data;
    world w;
    world_open(&w, "Y[t,d] = E[ids[t],d]", 100, 16, BEND_NOTHING, NULL);
    assert_ok(md_tn_data_make(&data, &patterns, w.program, 0, w.point.size, false, 64 << 20));
    int32_t ids = -1, table = -1;
    for (int32_t t = 0; t < w.formula->n_tensors; t++) {
        ids = strcmp(w.formula->tensor[t].name, "ids") ? ids : t;
        table = strcmp(w.formula->tensor[t].name, "E") ? table : t;
    }
    assert_true(ids >= 0 && table >= 0);
    const int64_t rows = data.shape.extent[table][0];
    assert_true(rows > 1);
    for (int32_t i = 0; i < 100; i++) {
        const int64_t v = ((const int64_t *)data.image[ids])[i];
        assert_int_equal(v, ((given[i % 4] % rows) + rows) % rows);
    }
    md_tn_data_finish(&data);
    patterns.indices.n = 0;
    md_tn_patterns_finish(&patterns);
    assert_ok(md_tn_data_make(&data, &patterns, w.program, 0, w.point.size, false, 64 << 20));
    for (int32_t i = 0; i < 100; i++) {
        const int64_t v = ((const int64_t *)data.image[ids])[i];
        assert_true(v >= 0 && v < data.shape.extent[table][0]);
    }
    md_tn_data_finish(&data);
    md_tn_patterns_finish(&patterns);
    world_close(&w);
}

static int64_t a_gigabyte(md_dev *dev)
{
    (void)dev;
    return 1 << 30;
}

static int64_t not_known(md_dev *dev)
{
    (void)dev;
    return -1;
}

static void memory_has_a_limit(void **state)
{
    (void)state;
    md_tn_patterns patterns = {.seed = 1};
    md_tn_data data;
    world w;
    world_open(&w, silu, 1 << 12, 1 << 12, BEND_NOTHING, NULL);
    assert_fails(md_tn_data_make(&data, &patterns, w.program, 0, w.point.size, false, 64 << 20), MD_OUT_OF_MEMORY,
                 "bytes");
    assert_true(md_tn_bench_limit(w.dev) <= 256 << 20);
    w.dev->facts.global_bytes = (int64_t)141 << 30; /* as if it were a GPU: what others left of it counts */
    the_bent.ops.free_bytes = a_gigabyte;
    assert_int_equal(md_tn_bench_limit(w.dev), (1 << 30) / 20);
    the_bent.ops.free_bytes = not_known;
    assert_int_equal(md_tn_bench_limit(w.dev), 0);
    md_tn_patterns_finish(&patterns);
    world_close(&w);
}

/* Where f32 may be rounded to tf32, inputs are such that it changes none, and kernels of both kinds are right. */
static void inputs_for_tf32_have_few_bits(void **state)
{
    (void)state;
    for (int is_for = 0; is_for <= 1; is_for++) {
        md_tn_patterns patterns = {.seed = 1, .for_tf32 = is_for != 0};
        md_tn_data data;
        world w;
        world_open(&w, silu, 64, 256, BEND_NOTHING, NULL);
        assert_ok(md_tn_data_make(&data, &patterns, w.program, 0, w.point.size, false, 64 << 20));
        int64_t n_other = 0, n = 0;
        for (int32_t t = 0; t < MD_KN_MAX_TENSORS; t++)
            for (int64_t i = 0; data.image[t] && i < data.bytes[t] / 4; i++) {
                uint32_t bits;
                memcpy(&bits, (const char *)data.image[t] + 4 * i, sizeof bits);
                n_other += (bits & 0x1fff) != 0;
                n++;
            }
        assert_true(n >= 64 * 256);
        assert_true(is_for ? n_other == 0 : n_other > n / 2);
        md_tn_data_finish(&data);
        md_tn_patterns_finish(&patterns);
        world_close(&w);
    }
}

typedef struct tuner {
    world *w;
    md_status status;
} tuner;

static void *tune(void *user)
{
    tuner *t = user;
    t->status = md_tn_tune(&t->w->job);
    return NULL;
}

/* The device's lock is a file's: threads with their own descriptors meet there as processes do. */
/* Points of all sizes: what measuring borrows stays below its limit, comes back, and a point beyond it is counted. */
static void measuring_borrows_no_more_than_it_may(void **state)
{
    (void)state;
    static const int64_t rows[] = {64, 1024, 4096, 6000, 12000};
    for (int32_t k = 0; k < MD_COUNT(rows); k++) {
        world w;
        world_open(&w, silu, rows[k], 4096, BEND_NOTHING, NULL);
        const int64_t limit = md_tn_bench_limit(w.dev), bytes = 2 * rows[k] * 4096 * 4;
        w.job.rigor = MD_TUNE_MEASURE;
        w.job.max_builds = 1;
        assert_ok(md_tn_tune(&w.job));
        assert_int_equal(the_bent.live, 0);
        assert_true(the_bent.peak <= limit && the_bent.peak <= 256 << 20);
        assert_int_equal(atomic_load(&w.count.out_of_memory), bytes > limit);
        /* of inputs there may be images alone */
        assert_true(bytes > limit ? the_bent.peak < limit : the_bent.peak >= bytes / 2);
        world_close(&w);
    }
}

static void two_at_a_time_take_turns(void **state)
{
    (void)state;
    world w;
    world_open(&w, silu, 64, 256, BEND_NOTHING, NULL);
    world other = w;
    md_tn_wisdom *second = NULL;
    assert_ok(md_tn_wisdom_create(&second));
    other.job.wisdom = second;
    other.job.count = NULL;
    tuner a = {&w, MD_INTERNAL}, b = {&other, MD_INTERNAL};
    pthread_t thread[2];
    assert_int_equal(pthread_create(&thread[0], NULL, tune, &a), 0);
    assert_int_equal(pthread_create(&thread[1], NULL, tune, &b), 0);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    assert_ok(a.status);
    assert_ok(b.status);
    md_tn_wisdom_destroy(&second);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_are_accepted),
        cmocka_unit_test(wrong_results_are_refused),
        cmocka_unit_test(writing_beside_outputs_is_refused),
        cmocka_unit_test(what_writes_nothing_is_refused),
        cmocka_unit_test(what_does_not_launch_is_passed_over),
        cmocka_unit_test(what_does_not_compile_is_passed_over),
        cmocka_unit_test(excluded_names_are_quarantined),
        cmocka_unit_test(inputs_for_tf32_have_few_bits),
        cmocka_unit_test(given_indices_are_used),
        cmocka_unit_test(memory_has_a_limit),
        cmocka_unit_test(measuring_borrows_no_more_than_it_may),
        cmocka_unit_test(two_at_a_time_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
