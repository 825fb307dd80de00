/* Which configs a search tries, in which order, and what it says of them, to the letter: on made-up families, so that
 * nothing here changes where a real family does. MD_UPDATE_GOLDEN=1 writes the file anew. */
#include "support/golden.h"
#include "tune/search_world.h"

#include "base/status.h"

/* ---- Families whose model is a formula of their fields */

static bool applies(const md_fa_target *target)
{
    return target->stage == 0;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    (void)target;
    return config->value[0] <= 8 * size[0]; /* short axes have fewer configs */
}

/* Aligned tensors only where the first field is large. */
static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    out->aligned = config->value[0] >= 16 ? 3 : 0;
}

static void features_of_tiles(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                              const int64_t *size)
{
    const double n = (double)(size[0] * size[1]), rows = config->value[0];
    out->memory_bytes = 8 * n;
    out->ops = n;
    out->serial_us = 0.2 * rows + 30.0 / rows + (double)n / 1e4 / config->value[1];
    out->parallel = fmin(n / (rows * 64), target->facts->threads);
}

static void features_of_split(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                              const int64_t *size)
{
    const double n = (double)(size[0] * size[1]);
    out->memory_bytes = 10 * n;
    out->serial_us = 6.0 / config->value[0] + config->value[1];
    out->launches = 2;
    out->parallel = target->facts->threads;
}

static void features_of_library(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                                const int64_t *size)
{
    (void)config;
    out->memory_bytes = 8.0 * (double)(size[0] * size[1]);
    out->serial_us = 9.0;
    out->parallel = target->facts->threads;
}

/* Far slower than the others by the model, and not so in truth. */
static void features_of_naive(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                              const int64_t *size)
{
    features_of_library(out, target, config, size);
    out->serial_us = 400.0;
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    out->n_launches = 1;
    out->launch[0].code = MD_KN_TEXT;
    for (int32_t i = 0; i < MD_FA_MAX_FIELDS; i++)
        md_strbuf_printf(&out->launch[0].text, "/* %d */\n", config->value[i]);
    return MD_OK;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    (void)target, (void)config, (void)shape;
    *out = (md_kn_geometries){0};
    out->launch[0] = (md_kn_geometry){.blocks = 1, .grain = 1};
}

#define CALLBACKS .device = MD_DEV_HOST, .applies = applies, .legal = legal, .emit = emit, .geometry = geometry
static const md_fa_family tiles = {.name = "tiles",
                                   .n_fields = 3,
                                   .field = {{"rows", 4, 4, {4, 1, 16, 2, 8, 32}, 2},
                                             {"lanes", 2, 3, {2, 1, 8}, 0},
                                             {"order", 0, 1, {0, 1, 2}, 2}},
                                   .envelope = envelope,
                                   .features = features_of_tiles,
                                   CALLBACKS},
                          split = {.name = "split",
                                   .n_fields = 2,
                                   .field = {{"parts", 2, 3, {2, 4, 8}, 0}, {"wide", 1, 2, {0, 1}, 1}},
                                   .features = features_of_split,
                                   CALLBACKS},
                          library = {.name = "called", .is_library = true, .features = features_of_library, CALLBACKS},
                          naive = {.name = "naive", .features = features_of_naive, CALLBACKS},
                          last = {
                              .name = "last_resort", .is_last_resort = true, .features = features_of_naive, CALLBACKS};

const md_fa_family *const *md_fa_families(md_dev_kind device)
{
    static const md_fa_family *const list[] = {&tiles, &split, &library, &naive, &last, NULL}, *const none[] = {NULL};
    return device == MD_DEV_HOST ? list : none;
}

/* ---- Jobs */

static bool allows_split(const void *user, const md_fa_family *f, const md_fa_config *config)
{
    (void)user;
    return f == &split && (!config || config->value[0] != 4);
}

static bool allows_nothing_else(const void *user, const md_fa_family *f, const md_fa_config *config)
{
    (void)user, (void)config;
    return f == &last;
}

typedef struct row {
    const char *name;
    md_tune rigor;
    md_tune_strategy strategy;
    int32_t first, n_points, max_builds, n_times; /* n_times: the job is done so often, with the same wisdom */
    double noise, step, budget_ms, timing_us;
    bool all_directions, is_ragged;
    const char *fails, *zero, *nan, *slow, *exclude;
    bool (*allows)(const void *user, const md_fa_family *family, const md_fa_config *config);
} row;

static const row rows[] = {
    {.name = "one point"},
    {.name = "one point, other prices", .step = 0.4},
    {.name = "all prices as the model says, ties by name", .step = 1e-9, .noise = 0.001},
    {.name = "three points with noise, then again", .n_points = 3, .noise = 0.02, .n_times = 2},
    {.name = "many points", .n_points = 5},
    {.name = "ragged", .n_points = 2, .is_ragged = true},
    {.name = "few builds", .max_builds = 3, .n_points = 2},
    {.name = "many builds, all directions", .max_builds = 40, .all_directions = true, .step = 0.3},
    {.name = "everything", .rigor = MD_TUNE_EXHAUSTIVE, .first = 1},
    {.name = "descent", .strategy = MD_TUNE_DESCENT, .n_points = 2},
    {.name = "descent without a limit", .strategy = MD_TUNE_DESCENT, .max_builds = 1000, .step = 0.3},
    {.name = "some fail", .fails = "rows16", .zero = "parts4", .nan = "naive", .n_times = 2},
    {.name = "some are slow", .slow = "lanes8"},
    {.name = "all fail", .fails = "e"},
    {.name = "excluded", .exclude = "called;tiles/rows4_lanes2;split/parts8", .n_times = 2},
    {.name = "one family, some of its configs", .allows = allows_split},
    {.name = "the last resort", .allows = allows_nothing_else},
    {.name = "cut, then again", .budget_ms = 3000, .timing_us = 2e5, .n_times = 3},
    {.name = "cut in its first look", .budget_ms = 1500, .timing_us = 4e6},
};

static const md_dev_facts facts = {.kind = MD_DEV_HOST,
                                   .name = "made up",
                                   .compiler = "none",
                                   .flags = "",
                                   .threads = 4,
                                   .vector_bytes = 32,
                                   .l1_bytes = 32 << 10,
                                   .l2_bytes = 1 << 20,
                                   .l3_bytes = 16 << 20,
                                   .memory_gbps = 20.0,
                                   .lane_gbps = 12.0,
                                   .cache_gbps = 50.0,
                                   .gflops = 100.0,
                                   .launch_us = 2.0};

/* Appends the values of a JSON line, without those that depend on the clock or never change. */
static int write_values(void *user, const char *text, size_t n)
{
    static const char *const left_out[] = {"t_ms", "build_ms", "stage", "sizes"};
    const char *end = text + n;
    if (memmem(text, n, "\"tried\"", 7))
        return 0; /* follows each "try" */
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), "\": ", 3));) {
        const char *key = at, *value = at + 3;
        bool is_wanted = true;
        while (key[-1] != '"')
            key--;
        for (size_t i = 0; i < MD_COUNT(left_out); i++)
            is_wanted &= strncmp(key, left_out[i], (size_t)(at - key)) != 0;
        at = value + strcspn(value, *value == '{' ? "{" : *value == '"' ? "\n" : ",}\n");
        if (*value == '"')
            at = strchr(++value, '"');
        if (is_wanted)
            md_strbuf_printf(user, "%.*s ", (int)(at - value), value);
    }
    md_strbuf_add(user, "\n");
    return 0;
}

static void run(md_strbuf *log, const row *r, uint64_t seed)
{
    static const int64_t size[][2] = {{64, 256}, {1, 64}, {1024, 1024}, {8, 4096}, {0, 16}};
    search_world w;
    md_tn_point point[5];
    search_world_open_on(
        &w, &facts, "Y[i,j] = X[i,j] * 2", MD_F32,
        &(sim_device_options){.seed = seed, .noise = r->noise, .timing_us = r->timing_us > 0.0 ? r->timing_us : 20.0});
    if (r->step > 0.0)
        w.step = r->step;
    w.fails = r->fails;
    w.zero = r->zero;
    w.nan = r->nan;
    w.slow = r->slow;
    for (int32_t i = 0; i < MD_COUNT(point); i++) {
        point[i] = search_point(size[i][0], size[i][1]);
        point[i].is_ragged = r->is_ragged;
    }
    md_tn_job job = search_job(&w, point + r->first, MD_MAX(r->n_points, 1), r->rigor ? r->rigor : MD_TUNE_MEASURE);
    job.budget_ms = r->budget_ms > 0.0 ? r->budget_ms : 1e7;
    job.max_builds = r->max_builds;
    job.strategy = r->strategy;
    job.all_directions = r->all_directions;
    job.exclude = r->exclude;
    job.allows = r->allows;
    job.write = write_values;
    job.user = log;
    md_strbuf_printf(log, "== %s\n", r->name);
    for (int32_t i = 0; i < MD_MAX(r->n_times, 1); i++) {
        assert_ok(md_tn_tune(&job));
        const md_tn_counters *c = &w.count;
        md_strbuf_printf(log, "-- points %d, found %d, timed %d, wrong %d, unbuilt %d, failed %d, cut %d\n",
                         (int)c->points, (int)c->found, (int)c->timed, (int)c->wrong, (int)c->unbuilt, (int)c->failed,
                         (int)c->cut);
    }
    search_world_close(&w);
}

static void searches_go_as_before(void **state)
{
    (void)state;
    static const char path[] = MD_GOLDEN "/searches.txt";
    md_strbuf log = {0};
    for (int32_t i = 0; i < MD_COUNT(rows); i++)
        run(&log, &rows[i], 1000 + (uint64_t)i);
    check_golden(path, &log);
    md_strbuf_finish(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(searches_go_as_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
