/* Cuts the tuning of a formula into pieces, predicts their times, and tunes one of them. */
#include "dispatch/pool/pieces.h"

#include "base/grow.h"
#include "base/status.h"
#include "dispatch/pool/internal.h"
#include "tune/job/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the parts of a piece take, by kind of device. These are rough figures on purpose: measured ones would differ
 * from machine to machine, and so would the shares that are cut by them. START_MS: reading the formula, and checking
 * results. */
static const struct cost {
    double build_ms, bytes_a_ms, flops_a_ms;
} host_cost = {100.0, 1e7, 2e7}, gpu_cost = {300.0, 1.5e9, 3e10};
static const double START_MS = 20.0;
/* A config runs for so long, or so often where one run takes longer. */
static const double RUN_MS = 1.5;
enum { RUNS = 16 };
/* A family's configs at a point, where max_builds does not say how many the families of the point have together. */
enum { LEAST_BUILDS = 3 };

/* ---- Listing */

typedef struct tally {
    const md_fa_target *target;
    const md_ds_policy *policy;
    const md_fa_family *family;
    md_kn_shape shape;
    int32_t n, most;
} tally;

static bool count_config(void *user, const md_fa_config *config)
{
    tally *t = user;
    md_kn_envelope envelope = {0};
    md_fa_envelope_of(&envelope, t->family, t->target, config);
    t->n += !md_kn_envelope_miss(&envelope, &t->shape) && md_ds_config_allowed(t->family, config, t->target, t->policy);
    return t->n < t->most;
}

/* Configs of the family that are legal at the point, `most` at most. */
static int32_t count_configs(const md_fa_target *target, const md_ds_policy *policy, const md_fa_family *family,
                             const md_tn_point *point, int32_t most)
{
    tally t = {.target = target, .policy = policy, .family = family, .most = most};
    if (!md_ds_family_allowed(family, target, policy))
        return 0;
    md_ds_point_shape(&t.shape, target, point);
    md_fa_each_all(target, family, t.shape.size, count_config, &t);
    return t.n;
}

static double predict_ms(const md_fa_target *target, const md_tn_point *point, int32_t builds)
{
    const struct cost *c = target->facts->capability > 0 ? &gpu_cost : &host_cost;
    double flops = 0.0, bytes = 0.0;
    md_st_work(&flops, &bytes, target->program, target->stage, point->size);
    const double run_ms = fmax(bytes / c->bytes_a_ms, flops / c->flops_a_ms);
    return START_MS + builds * (c->build_ms + fmax(RUN_MS, RUNS * run_ms));
}

static char *point_text(const md_ds_space *space, const md_tn_point *point)
{
    md_strbuf b = {0};
    for (int32_t i = 0; i < space->n; i++)
        md_strbuf_printf(&b, "%s%s=%lld", i ? "," : "(", space->formula->dim[space->dim[i]].name,
                         (long long)point->size[space->dim[i]]);
    md_strbuf_add(&b, space->n ? ")" : "");
    if (b.failed)
        md_strbuf_finish(&b);
    return b.text;
}

static md_status append(md_ds_pieces *out, md_ds_piece piece)
{
    if (!piece.point || !md_grow(&out->piece, (size_t)out->n, sizeof *out->piece)) {
        free(piece.point);
        return md_fail_memory();
    }
    out->piece[out->n++] = piece;
    return MD_OK;
}

typedef struct point_families {
    int32_t n;
    struct {
        const md_fa_family *family;
        int32_t n_configs;
    } of[MD_TN_MAX_FAMILIES];
} point_families;

/* The families that have a config at the point; last resorts only where no other has. */
static void list_families(point_families *out, const md_fa_target *target, const md_ds_policy *policy,
                          const md_tn_point *point, int32_t most)
{
    const md_fa_family *f;
    out->n = 0;
    for (int32_t pass = 0; pass < 2 && out->n == 0; pass++)
        for (int32_t i = 0; (f = md_fa_of(target, i)) != NULL && out->n < MD_TN_MAX_FAMILIES; i++) {
            const int32_t n = f->is_last_resort == (pass == 1) ? count_configs(target, policy, f, point, most) : 0;
            out->of[out->n].family = f;
            out->of[out->n].n_configs = n;
            out->n += n > 0;
        }
}

/* Configs that each of so many families of a point may have. */
static int32_t most_builds(const md_tn_job *job, int32_t n_families)
{
    if (job->rigor == MD_TUNE_EXHAUSTIVE)
        return INT32_MAX;
    const int32_t together = job->max_builds > 0 ? job->max_builds : MD_TN_BUILDS;
    const int32_t share = (together + n_families - 1) / n_families;
    return job->max_builds > 0 ? share : MD_MAX(share, LEAST_BUILDS);
}

static md_status add_point(md_ds_pieces *out, const md_ds_tune_request *request, const md_fa_target *target,
                           const md_ds_compiled *c, const md_tn_point *point)
{
    const md_tn_job *job = &request->job;
    point_families families;
    list_families(&families, target, &c->policy, point, most_builds(job, 1));
    for (int32_t i = 0; i < families.n; i++) {
        const int32_t builds = MD_MIN(most_builds(job, families.n), families.of[i].n_configs);
        MD_TRY(append(out, (md_ds_piece){.stage = target->stage,
                                         .is_ragged = point->is_ragged,
                                         .point = point_text(&c->space, point),
                                         .family = families.of[i].family->name,
                                         .builds = job->rigor == MD_TUNE_EXHAUSTIVE ? 0 : builds,
                                         .ms = predict_ms(target, point, builds)}));
    }
    return MD_OK;
}

static md_status add_stage(md_ds_pieces *out, const md_ds_tune_request *request, const md_ds_compiled *c, int32_t stage)
{
    const md_fa_target target = md_ds_target_of(c, stage);
    md_tn_point *point = calloc((size_t)(2 * c->space.n_hints + MD_DS_MAX_CORNERS), sizeof *point);
    int32_t n = 0;
    md_status s = point ? MD_OK : md_fail_memory();
    for (int32_t h = 0; s == MD_OK && h < c->space.n_hints; h++)
        md_ds_hint_point(&point[n++], &target, &c->space, h, false);
    if (s == MD_OK && request->off_hints && target.facts->capability > 0)
        n += md_ds_extra_points(point + n, &target, &c->policy, &c->space);
    for (int32_t i = 0; s == MD_OK && i < n; i++)
        s = add_point(out, request, &target, c, &point[i]);
    free(point);
    return s;
}

md_status md_ds_pieces_list(md_ds_pieces *out, const md_ds_tune_request *request, const char *formula)
{
    const md_dev_facts *facts = &md_bd_device(request->builder)->facts;
    md_ds_compiled *c = NULL;
    *out = (md_ds_pieces){0};
    if (request->compile.n_custom > 0)
        return md_fail(MD_UNSUPPORTED, "kernels of the caller cannot be tuned in pieces: a piece is a text");
    MD_TRY(md_ds_compile(&c, facts, formula, &request->compile));
    out->formula = strdup(md_strbuf_text(&c->printed));
    md_status s = out->formula ? MD_OK : md_fail_memory();
    for (int32_t i = 0; s == MD_OK && i < c->program->n_stages; i++)
        s = add_stage(out, request, c, i);
    md_ds_compiled_destroy(&c);
    return s;
}

void md_ds_pieces_finish(md_ds_pieces *pieces)
{
    for (int32_t i = 0; i < pieces->n; i++)
        free(pieces->piece[i].point);
    free(pieces->piece);
    free(pieces->formula);
    *pieces = (md_ds_pieces){0};
}

/* ---- Tuning one */

static md_status tune(md_strbuf *out, const md_ds_tune_request *request, const md_ds_compiled *c,
                      const md_ds_piece *piece)
{
    const md_fa_target target = md_ds_target_of(c, piece->stage);
    const md_fa_family *family = NULL;
    md_tn_point point;
    char *key = NULL;
    for (int32_t i = 0; md_fa_of(&target, i) && !family; i++)
        if (!strcmp(md_fa_of(&target, i)->name, piece->family))
            family = md_fa_of(&target, i);
    if (!family)
        return md_fail(MD_NOT_FOUND, "piece: stage %d has no family '%.100s' here", (int)piece->stage, piece->family);
    md_ds_hint_point(&point, &target, &c->space, 0, false);
    point.is_ragged = piece->is_ragged;
    md_tn_job job = request->job;
    job.builder = request->builder;
    job.only = family;
    job.max_builds = piece->builds;
    MD_TRY(md_ds_tune_points(&job, &target, &c->policy, &point, 1));
    MD_TRY(md_tn_key(&key, &target, point.size, point.is_ragged));
    const md_status s = md_tn_wisdom_print_one(out, c->policy.wisdom, key, family->name);
    free(key);
    return s;
}

md_status md_ds_piece_tune(md_strbuf *out, const md_ds_tune_request *request, const char *formula,
                           const md_ds_piece *piece)
{
    const md_dev_facts *facts = &md_bd_device(request->builder)->facts;
    md_ds_compiled *c = NULL;
    if (!facts->can_compile)
        return md_fail(MD_UNSUPPORTED, "nothing can be tuned: kernels cannot be compiled here");
    MD_TRY(md_ds_compile(&c, facts, formula, &request->compile));
    const md_status s = piece->stage >= 0 && piece->stage < c->program->n_stages
                            ? tune(out, request, c, piece)
                            : md_fail(MD_NOT_FOUND, "piece: the formula has no stage %d", (int)piece->stage);
    md_ds_compiled_destroy(&c);
    return s;
}
