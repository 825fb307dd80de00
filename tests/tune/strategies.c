/* How good the search is, on recorded times of whole spaces: `md_strategies [--seed N] [--cases N] [--builds N]
 * [--noise X] [--every N] [--descent] [--check] BOARD...`. For each case (a point of a board) the config that a fresh
 * search finds, and the model's, are compared with the best of the space. --check: exit status 1 where less than 90% of
 * the cases are within 3% or less than all within 8%, a point took more than the builds allowed, the model is 15% off
 * on average, or fewer than 19 of 20 runs agree on more than one case. */
#include "support/board.h"

#include "tune/tune.h"
#include "device/open.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BOARDS = 16, MAX_CASES = 512, RUNS = 20 };

typedef struct settings {
    uint64_t seed;
    int32_t n_cases, builds, every; /* every: N-th case is searched 20 times more, with other noise */
    double noise;
    md_tune_strategy strategy;
    bool all_directions, verbose, checks;
} settings;

typedef struct outcome {
    char variant[MD_FA_NAME];
    double regret; /* recorded time over the best recorded one, minus 1 */
    int32_t builds;
} outcome;

/* The least of the families' results. */
static bool best_record(char out[MD_FA_NAME], const board *b, md_tn_wisdom *w, int32_t point)
{
    const md_fa_target target = {b->program, 0, &b->facts};
    double least = INFINITY;
    char *key = NULL;
    if (md_tn_key(&key, &target, b->point[point].size, b->point[point].is_ragged) != MD_OK)
        return false;
    for (const md_fa_family *const *f = md_fa_families(b->facts.kind); *f; f++) {
        md_tn_record r;
        if (md_tn_wisdom_find(&r, w, key, (*f)->name, MD_TUNE_MEASURE) != MD_OK)
            continue;
        if (r.count > 0 && r.us < least) {
            least = r.us;
            memcpy(out, r.variant, MD_FA_NAME);
        }
        md_tn_record_finish(&r);
    }
    free(key);
    return isfinite(least);
}

static int count_winner(void *user, const char *text, size_t n_bytes)
{
    int32_t *builds = user;
    const char *at = memmem(text, n_bytes, "\"builds\": ", 10);
    if (at)
        *builds = atoi(at + 10);
    return 0;
}

typedef struct place {
    const board *board;
    int32_t point;
    const md_fa_family *family; /* of the model's pick */
} place;

/* A space is what was recorded: boards from before a family's values were more have less of them. */
static bool was_recorded(const void *user, const md_fa_family *family, const md_fa_config *config)
{
    const place *p = user;
    char name[MD_FA_NAME];
    if (config)
        md_fa_name(name, family, config);
    return !config || board_us(p->board, p->point, name) > 0.0;
}

static bool search(outcome *out, board *b, int32_t point, const settings *s, uint64_t seed)
{
    md_pool *pool = NULL;
    md_dev *dev = NULL;
    md_bd *builder = NULL;
    md_tn_wisdom *wisdom = NULL;
    const sim_device_options sim = {.facts = &b->facts,
                                    .price = board_price,
                                    .user = b,
                                    .noise = s->noise,
                                    .seed = seed,
                                    .compile_ms = 1.0,
                                    .timing_us = 20.0};
    sim_device_options o = sim;
    bool is_good = md_pool_create(&pool, 2) == MD_OK;
    o.pool = pool;
    is_good = is_good && sim_device_open(&dev, &o) == MD_OK && md_bd_create(&builder, dev) == MD_OK &&
              md_tn_wisdom_create(&wisdom) == MD_OK;
    const place at = {b, point, NULL};
    const md_tn_job job = {.builder = builder,
                           .target = {b->program, 0, &b->facts},
                           .wisdom = wisdom,
                           .rigor = MD_TUNE_MEASURE,
                           .budget_ms = 1e7,
                           .max_builds = s->builds,
                           .strategy = s->strategy,
                           .all_directions = s->all_directions,
                           .n_points = 1,
                           .point = &b->point[point],
                           .seed = seed,
                           .allows = was_recorded,
                           .allows_user = &at,
                           .write = count_winner,
                           .user = &out->builds};
    is_good = is_good && md_tn_tune(&job) == MD_OK && best_record(out->variant, b, wisdom, point);
    if (is_good)
        out->regret = board_us(b, point, out->variant) / b->best_us[point] - 1.0;
    else
        fprintf(stderr, "%s\n", md_last_error());
    md_bd_destroy(&builder);
    md_tn_wisdom_destroy(&wisdom);
    md_dev_close(&dev);
    md_pool_destroy(&pool);
    return is_good;
}

static bool was_family_recorded(void *user, const md_fa_config *config)
{
    const place *p = user;
    return was_recorded(p, p->family, config);
}

/* The model's pick among what was recorded. */
static double model_regret(const board *b, int32_t point)
{
    md_kn_shape shape;
    md_tn_shape(&shape, b->program, b->point[point].size);
    const md_fa_target target = {b->program, 0, &b->facts};
    double least = INFINITY, us = INFINITY;
    for (const md_fa_family *const *f = md_fa_families(b->facts.kind); *f; f++) {
        md_fa_config config;
        double model;
        char name[MD_FA_NAME];
        if ((*f)->is_last_resort || !md_fa_applies(*f, &target))
            continue;
        place at = {b, point, *f};
        if (md_tn_best_of(&config, &model, &target, *f, &shape, &(md_tn_filter){was_family_recorded, &at}) != MD_OK ||
            model >= least)
            continue;
        md_fa_name(name, *f, &config);
        least = model;
        us = board_us(b, point, name);
    }
    return us / b->best_us[point] - 1.0;
}

typedef struct totals {
    int32_t n, within3, within8, repeats, repeated, most_builds;
    double sum, worst, model, worst_model;
} totals;

static bool run_case(totals *t, board *b, int32_t point, const settings *s, uint64_t seed, bool repeats)
{
    outcome first = {{0}}, again;
    if (!search(&first, b, point, s, seed))
        return false;
    const double model = model_regret(b, point);
    int32_t same = 0;
    for (int32_t i = 0; repeats && i < RUNS; i++) {
        memset(&again, 0, sizeof again);
        if (!search(&again, b, point, s, seed + 1000 + (uint64_t)i))
            return false;
        same +=
            !strcmp(again.variant, first.variant) || fabs((1.0 + again.regret) / (1.0 + first.regret) - 1.0) <= 0.02;
    }
    t->n++;
    t->within3 += first.regret <= 0.03;
    t->within8 += first.regret <= 0.08;
    t->sum += first.regret;
    t->worst = fmax(t->worst, first.regret);
    t->model += model;
    t->worst_model = fmax(t->worst_model, model);
    t->repeats += repeats;
    t->repeated += repeats && same >= RUNS - 1;
    t->most_builds = first.builds > t->most_builds ? first.builds : t->most_builds;
    if (s->verbose) {
        printf("{\"formula\": \"%s\", \"sizes\": [", b->formula);
        for (int32_t d = 0; d < b->parsed->n_dims; d++)
            printf("%s%lld", d ? ", " : "", (long long)b->point[point].size[d]);
        printf("], \"configs\": %d, \"found\": \"%s\", \"regret\": %.4f, \"model_regret\": %.4f, \"builds\": %d, "
               "\"best\": \"%s\", \"best_us\": %.3f",
               b->n_configs[point], first.variant, first.regret, model, first.builds, b->best[point],
               b->best_us[point]);
        printf(repeats ? ", \"same\": %d}\n" : "}\n", same);
    }
    return true;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static int run(board *boards, int32_t n_boards, const settings *s)
{
    struct {
        int32_t board, point;
    } cases[MAX_CASES];
    int32_t n = 0;
    for (int32_t i = 0; i < n_boards; i++)
        for (int32_t p = 0; p < boards[i].n_points && n < MAX_CASES; p++, n++) {
            cases[n].board = i;
            cases[n].point = p;
        }
    uint64_t state = s->seed;
    totals t = {0};
    const int32_t wanted = s->n_cases < n ? s->n_cases : n;
    for (int32_t i = 0; i < wanted; i++) {
        const int32_t k = i + (int32_t)(next(&state) % (uint64_t)(n - i));
        const int32_t b = cases[k].board, p = cases[k].point;
        cases[k] = cases[i];
        if (!run_case(&t, &boards[b], p, s, s->seed * 31 + (uint64_t)i, i % s->every == 0))
            return 1;
    }
    printf("{\"seed\": %llu, \"cases\": %d, \"of\": %d, \"noise\": %g, \"within_3\": %.3f, \"within_8\": %.3f, "
           "\"mean_regret\": %.4f, \"worst_regret\": %.4f, "
           "\"model_mean\": %.4f, \"model_worst\": %.4f, \"most_builds\": %d, \"repeated\": %d, \"of_repeats\": %d}\n",
           (unsigned long long)s->seed, t.n, n, s->noise, (double)t.within3 / t.n, (double)t.within8 / t.n, t.sum / t.n,
           t.worst, t.model / t.n, t.worst_model, t.most_builds, t.repeated, t.repeats);
    const bool is_good = t.within3 >= 0.9 * t.n && t.within8 == t.n && t.most_builds <= s->builds &&
                         t.model <= 0.15 * t.n && t.repeated + 1 >= t.repeats;
    return s->checks && !is_good;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},   {"cases", required_argument, NULL, 'c'},
        {"builds", required_argument, NULL, 'b'}, {"noise", required_argument, NULL, 'n'},
        {"every", required_argument, NULL, 'e'},  {"all-directions", no_argument, NULL, 'a'},
        {"descent", no_argument, NULL, 'd'},      {"quiet", no_argument, NULL, 'q'},
        {"check", no_argument, NULL, 'k'},        {0}};
    settings s = {.seed = 1, .n_cases = 60, .builds = MD_TN_BUILDS, .noise = 0.01, .every = 6, .verbose = true};
    static board boards[MAX_BOARDS];
    int32_t n = 0;
    for (int key; (key = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (key) {
        case 's':
            s.seed = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            s.n_cases = atoi(optarg);
            break;
        case 'b':
            s.builds = atoi(optarg);
            break;
        case 'n':
            s.noise = atof(optarg);
            break;
        case 'e':
            s.every = atoi(optarg);
            break;
        case 'a':
            s.all_directions = true;
            break;
        case 'd':
            s.strategy = MD_TUNE_DESCENT;
            break;
        case 'q':
            s.verbose = false;
            break;
        case 'k':
            s.checks = true;
            break;
        default:
            return 2;
        }
    for (int i = optind; i < argc && n < MAX_BOARDS; i++)
        if (!board_read(&boards[n++], argv[i]))
            return 1;
    if (n == 0 || s.n_cases < 1 || s.builds < 1 || s.every < 1)
        return fprintf(stderr, "usage: md_strategies [--seed N] [--cases N] [--builds N] [--noise X] [--every N] "
                               "[--all-directions] [--descent] [--quiet] [--check] BOARD...\n"),
               2;
    const int status = run(boards, n, &s);
    for (int32_t i = 0; i < n; i++)
        board_finish(&boards[i]);
    return status;
}
