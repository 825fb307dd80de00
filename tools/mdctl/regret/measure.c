/* Timing of all variants at one shape, for regret. */
#include "regret/regret.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 6, LEAST_ROUNDS = 4, MAX_ROUNDS = 64, ALIGNMENT = 256 };
static const double gpu_arena = 1.5e9, host_arena = 400e6, sample_us = 100.0, bytes_per_us = 3e6;
/* Slower than the best by more: timed once only, unless somebody picked it; and dropped after a third of the rounds. */
static const double far_off = 1.4, off = 1.1;

md_status regret_open(regret_study *study)
{
    study->device = device_of(study->context);
    study->arena_bytes = study->device.is_gpu ? gpu_arena : host_arena;
    md_status s = sweep_make(&study->sweep, study->context, &study->device);
    return s == MD_OK ? md_alloc(&study->arena, study->context, (size_t)study->arena_bytes) : s;
}

void regret_close(regret_study *study)
{
    sweep_free(&study->sweep);
    md_free(study->context, study->arena);
}

/* Random values of the type, over and over. */
static md_status fill_arena(regret_study *study, md_dtype dtype)
{
    const size_t piece = (size_t)8 << 20, item = md_dtype_size(dtype);
    char sizes[64];
    data_set from = {0};
    md_op *copy = NULL;
    if (study->filled == dtype)
        return MD_OK;
    md_op_options o = {.dtype = dtype, .hints = "4096"};
    md_status s = md_op_create(&copy, study->context, "Y[n] = X[n]", &o);
    snprintf(sizes, sizeof sizes, "n=%zu", piece / item);
    if (s == MD_OK)
        s = data_make(&from, study->context, copy, sizes, 1);
    for (size_t at = 0; at + piece <= (size_t)study->arena_bytes && s == MD_OK; at += piece)
        s = md_copy(study->context, (char *)study->arena + at, from.tensor[1].data, piece);
    data_free(&from);
    md_op_destroy(&copy);
    study->filled = s == MD_OK ? dtype : MD_DTYPE_DEFAULT;
    return s;
}

int regret_find(const regret_study *study, const char *variant)
{
    for (int i = 0; i < study->n_rivals; i++)
        if (!strcmp(study->rival[i].name, variant))
            return i;
    return -1;
}

md_status regret_add_rival(regret_study *study, const regret_line *l, const char *variant, int mode)
{
    const int known = regret_find(study, variant);
    const uint32_t pools = mode < 0 ? 0 : UINT32_C(1) << mode;
    regret_rival *r = &study->rival[known < 0 ? study->n_rivals : known];
    md_op_options o = study->o->op;
    char pin[REGRET_NAME];
    if (known >= 0)
        r->pools |= pools;
    if (known >= 0 || study->n_rivals == REGRET_RIVALS)
        return MD_OK;
    memset(r, 0, sizeof *r);
    r->pools = pools;
    snprintf(r->name, sizeof r->name, "%s", variant);
    o.dtype = l->dtype;
    o.sizes = l->fixed;
    regret_pin(pin, study, variant);
    o.pin = pin;
    o.select = MD_SELECT_MODEL;
    md_status s = md_op_create(&r->op, study->context, l->op, &o);
    study->n_rivals += s == MD_OK;
    return s == MD_COMPILE ? MD_OK : s; /* nobody's pick */
}

md_status regret_rivals(regret_study *study, const regret_line *l)
{
    md_status s = fill_arena(study, l->dtype);
    study->stage = md_op_n_stages(study->mode[0].op) - 1;
    for (int m = 0; m < study->n_modes && s == MD_OK; m++)
        for (int i = 0; i < md_op_n_variants(study->mode[m].op, study->stage) && s == MD_OK; i++)
            s = regret_add_rival(study, l, md_op_variant(study->mode[m].op, study->stage, i), m);
    return s;
}

void regret_leave(regret_study *study)
{
    for (int i = 0; i < study->n_rivals; i++)
        md_op_destroy(&study->rival[i].op);
    study->n_rivals = 0;
}

/* ---- Arguments */

static size_t bytes_of(const md_tensor *x)
{
    size_t n = md_dtype_size(x->dtype);
    for (int32_t a = 0; a < x->rank; a++)
        n *= (size_t)x->size[a];
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int count_sets(const regret_study *study, double bytes)
{
    double n = sample_us / (bytes / bytes_per_us + 2.0) + 1.0, most = study->arena_bytes / bytes;
    n = n > most ? most : n;
    return n < 1.0 ? 1 : n > REGRET_SETS ? REGRET_SETS : (int)n;
}

md_status regret_place(regret_study *study, const char *sizes)
{
    md_op *op = study->mode[0].op;
    regret_set like = {.n = md_op_n_args(op)};
    double bytes = 1.0;
    for (int32_t i = 0; i < like.n && i < REGRET_ARGS; i++) {
        md_status s = md_op_tensor(&like.tensor[i], op, i, sizes);
        if (s != MD_OK)
            return s;
        bytes += (double)bytes_of(&like.tensor[i]);
    }
    if (like.n > REGRET_ARGS || bytes > study->arena_bytes)
        return MD_UNSUPPORTED;
    size_t at = 0;
    md_status s = MD_OK;
    study->n_sets = count_sets(study, bytes);
    for (int k = 0; k < study->n_sets && s == MD_OK; k++) {
        regret_set *set = &study->set[k];
        *set = like;
        for (int32_t i = 0; i < set->n; i++) {
            set->tensor[i].data = (char *)study->arena + at;
            set->arg[i] = md_t(&set->tensor[i]);
            at += bytes_of(&set->tensor[i]);
        }
        s = data_put_indices(study->context, op, sizes, set->tensor, (uint64_t)k + 1);
    }
    return s;
}

/* ---- Times */

static md_status resolve(regret_study *study, regret_rival *r)
{
    r->fits = false;
    r->half[0].n = r->half[1].n = 0;
    for (int k = 0; k < study->n_sets; k++) {
        md_status s = md_resolve(&r->launch[k], r->op, study->set[k].arg, study->set[k].n);
        if (s == MD_UNSUPPORTED && k == 0)
            return MD_OK;
        if (s != MD_OK)
            return s;
    }
    r->fits = true;
    return MD_OK;
}

typedef struct race {
    regret_study *study;
    int n, rival[REGRET_RIVALS]; /* of each competitor */
    md_bench_competitor competitor[REGRET_RIVALS];
    double us[REGRET_RIVALS][MAX_ROUNDS];
} race;

static md_status sample(double *us, void *user, int32_t i, int32_t repeats)
{
    const race *r = user;
    (void)repeats; /* a sample is one pass */
    return sweep_time(us, &r->study->sweep, r->study->rival[r->rival[i]].launch, r->study->n_sets);
}

/* Rivals that fit; each competes in the pools that have it, and among all. */
static md_status enter_all(race *r)
{
    regret_study *study = r->study;
    for (int i = 0; i < study->n_rivals; i++) {
        regret_rival *rival = &study->rival[i];
        md_status s = resolve(study, rival);
        if (s != MD_OK)
            return s;
        if (!rival->fits)
            continue;
        r->rival[r->n] = i;
        r->competitor[r->n] = (md_bench_competitor){.us = r->us[r->n],
                                                    .groups = rival->pools | UINT32_C(1) << study->n_modes,
                                                    .never_drops = rival->is_pick || rival->is_wanted};
        r->n++;
    }
    return MD_OK;
}

static void take(race *r, int i)
{
    const md_bench_competitor *from = &r->competitor[i];
    regret_rival *rival = &r->study->rival[r->rival[i]];
    rival->first_us = from->look_us;
    for (int k = 0; k < from->n; k++)
        timing_add(&rival->half[k % 2], from->us[k]);
    if (from->status == MD_OK)
        return;
    /* a mode that picked it has no regret that could be told */
    cli_fail("%s fails at %s: %s", rival->name, r->study->shape->sizes, md_last_error());
    rival->fits = false;
}

static md_status time_rivals(regret_study *study)
{
    const int wanted = !study->o->repeat                 ? ROUNDS
                       : study->o->repeat < LEAST_ROUNDS ? LEAST_ROUNDS
                                                         : study->o->repeat,
              rounds = wanted < MAX_ROUNDS ? wanted : MAX_ROUNDS;
    const md_bench_options o = {.samples = rounds,
                                .sample_us = 1e-3,
                                .warm_up_us = -1.0,
                                .look_factor = far_off,
                                .cut_samples = rounds / 3,
                                .cut_factor = off};
    race *r = calloc(1, sizeof *r);
    if (!r)
        return MD_OUT_OF_MEMORY;
    r->study = study;
    md_status s = enter_all(r);
    if (s == MD_OK)
        s = md_bench(r->competitor, r->n, &o, sample, r);
    for (int i = 0; i < r->n && s == MD_OK; i++)
        take(r, i);
    free(r);
    return s;
}

/* By half h; those that were dropped early have too few samples to be the best. */
static int best_of(const regret_study *study, int h, bool with_outside, int mode)
{
    int best = -1;
    double least = 0.0;
    for (int i = 0; i < study->n_rivals; i++) {
        const regret_rival *r = &study->rival[i];
        double us = timing_quantile(&r->half[h], 0.5);
        if (!r->fits || (r->is_outside && !with_outside) || (mode >= 0 && !(r->pools >> mode & 1)) ||
            r->half[0].n < 2 || r->half[1].n < 2 || (best >= 0 && us >= least))
            continue;
        best = i;
        least = us;
    }
    return best;
}

/* One half of the samples says who is best, the other by how much, and the other way round. *us: of the best. */
static const char *judge_against(double *us, regret_study *study, bool whole_space)
{
    const char *name = "";
    *us = 0.0;
    for (int h = 0; h < 2; h++) {
        int best = best_of(study, h, whole_space, -1);
        if (best < 0)
            continue;
        const double best_us = timing_quantile(&study->rival[best].half[1 - h], 0.5);
        name = study->rival[best].name;
        *us += best_us / 2.0;
        for (int m = 0; m < study->n_modes; m++) {
            double *regret = whole_space ? &study->mode[m].space_regret : &study->mode[m].regret;
            if (!study->mode[m].has_failed && best_us > 0.0)
                *regret += (timing_quantile(&study->rival[study->mode[m].pick].half[1 - h], 0.5) / best_us - 1.0) / 2.0;
        }
    }
    return name;
}

/* The same against the best of the mode's own pool. */
static double judge_own(const regret_study *study, int m)
{
    double regret = 0.0;
    for (int h = 0; h < 2 && !study->mode[m].has_failed; h++) {
        const int best = best_of(study, h, false, m);
        const double best_us = best < 0 ? 0.0 : timing_quantile(&study->rival[best].half[1 - h], 0.5);
        if (best_us > 0.0)
            regret += (timing_quantile(&study->rival[study->mode[m].pick].half[1 - h], 0.5) / best_us - 1.0) / 2.0;
    }
    return regret;
}

static void judge(regret_result *out, regret_study *study)
{
    for (int m = 0; m < study->n_modes; m++) {
        study->mode[m].regret = study->mode[m].space_regret = 0.0;
        study->mode[m].has_failed = study->mode[m].pick < 0 || !study->rival[study->mode[m].pick].fits;
    }
    out->best = judge_against(&out->best_us, study, false);
    for (int m = 0; m < study->n_modes; m++)
        study->mode[m].own_regret = judge_own(study, m);
    if (out->is_searched)
        out->space_best = judge_against(&out->space_us, study, true);
    for (int i = 0; i < study->n_rivals; i++)
        out->n_timed += study->rival[i].fits;
}

md_status regret_measure(regret_result *out, regret_study *study)
{
    for (int i = 0; i < study->n_rivals; i++)
        study->rival[i].is_pick = false;
    for (int m = 0; m < study->n_modes; m++) {
        if (study->mode[m].pick < 0) { /* made for this shape alone */
            if (regret_add_rival(study, study->line, study->mode[m].variant, m) == MD_OK)
                study->mode[m].pick = regret_find(study, study->mode[m].variant);
        }
        if (study->mode[m].pick >= 0)
            study->rival[study->mode[m].pick].is_pick = true;
    }
    md_status s = regret_add_parts(study);
    if (s == MD_OK)
        s = time_rivals(study);
    if (s == MD_OK)
        judge(out, study);
    for (int i = 0; i < study->n_rivals; i++)
        for (int k = 0; k < study->n_sets; k++)
            md_launch_destroy(&study->rival[i].launch[k]);
    return s;
}
