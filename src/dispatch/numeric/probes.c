/* Probes of a numeric policy: at which sizes classes are chosen. */
#include "dispatch/numeric/numeric.h"
#include "dispatch/space/points.h"

#include <math.h>

/* Pairs sum over rows, too. */
static bool is_row_of_pairs(const md_st_program *program, const md_st_stage *st, int32_t dim)
{
    for (int32_t i = 0; st->chain && st->chain->pairs && i < st->chain->n_rows; i++)
        if (program->index[st->chain->rows[i]].dim == dim)
            return true;
    return false;
}

/* True if a reduction of the stage runs over the dim. */
static bool is_reduced(const md_fa_target *target, int32_t dim)
{
    const md_st_stage *st = &target->program->stage[target->stage];
    if (st->kind == MD_ST_ROW || st->kind == MD_ST_SCAN || st->kind == MD_ST_CHAIN)
        return target->program->index[st->axis].dim == dim || is_row_of_pairs(target->program, st, dim);
    for (int32_t i = 0; st->kind == MD_ST_PRODUCT && i < st->product.n_k; i++)
        if (target->program->index[st->product.k[i]].dim == dim)
            return true;
    return false;
}

static bool is_outer(const md_fa_target *target, int32_t dim)
{
    const md_st_stage *st = &target->program->stage[target->stage];
    if (st->axis >= 0 && target->program->index[st->axis].dim == dim)
        return true;
    for (int32_t i = 0; i < st->n_outer; i++)
        if (target->program->index[st->outer[i]].dim == dim)
            return true;
    return false;
}

/* Batches that share no keys. */
static bool is_batch_of_chain(const md_fa_target *target, int32_t dim)
{
    const md_st_stage *st = &target->program->stage[target->stage];
    for (int32_t i = 0; st->kind == MD_ST_CHAIN && i < st->chain->n_batch; i++)
        if (target->program->index[st->chain->batch[i]].dim == dim)
            return true;
    return false;
}

/* Products have more dims, so they get fewer sizes of each. A dim that does not tell probes apart gets one large size;
 * but batches of a chain a small one: where there are few, keys must be divided among blocks, and many cost no more. */
static void levels_of(md_ds_levels *out, const md_fa_target *target, const md_fx_dim *dim, bool is_batch, bool is_fixed)
{
    static const md_ds_levels rows = {.n = 10,
                                      .size = {16, 64, 256, 1024, 4096, 16384, 65536, 1 << 18, 1 << 20, 1 << 23}},
                              few = {.n = 2, .size = {2, 2048}}, depth = {.n = 4, .size = {64, 512, 4096, 32768}},
                              sides = {.n = 3, .size = {4, 128, 2048}}, one = {.n = 1, .size = {2048}},
                              lengths = {.n = 2, .size = {64, 128}}, length = {.n = 1, .size = {128}};
    static const md_ds_levels small = {.n = 1, .size = {4}};
    const bool is_product = target->program->stage[target->stage].kind == MD_ST_PRODUCT;
    const bool is_length = md_ds_is_length(target, out->dim);
    const md_ds_levels *from = is_length    ? (is_fixed ? &length : &lengths)
                               : is_fixed   ? (is_batch_of_chain(target, out->dim) ? &small : &one)
                               : is_batch   ? (is_product ? &sides : &few)
                               : is_product ? &depth
                                            : &rows;
    int32_t number = out->dim;
    *out = (md_ds_levels){.dim = number};
    for (int32_t i = 0; i < from->n; i++) {
        int64_t v = MD_MIN(MD_MAX(from->size[i], dim->lo), dim->hi);
        if (out->n == 0 || v != out->size[out->n - 1])
            out->size[out->n++] = v;
    }
}

/* The levels of every dynamic dim; returns how many probes they make. Dims whose levels would make too many probes get
 * one level. */
static int32_t lay_out(md_ds_levels out[MD_DS_MAX_DYNAMIC], const md_fa_target *target, const md_ds_space *space,
                       md_numeric policy)
{
    int64_t n_probes = 1;
    for (int32_t k = 0; k < space->n; k++) {
        bool is_batch = !is_reduced(target, space->dim[k]);
        bool is_fixed = is_batch && !md_ds_is_length(target, space->dim[k]) &&
                        (policy == MD_NUMERIC_BATCH_INVARIANT || !is_outer(target, space->dim[k]));
        out[k].dim = space->dim[k];
        levels_of(&out[k], target, &space->formula->dim[space->dim[k]], is_batch, is_fixed);
        if (n_probes * out[k].n > MD_DS_MAX_PROBES)
            levels_of(&out[k], target, &space->formula->dim[space->dim[k]], is_batch, true);
        n_probes *= out[k].n;
    }
    return (int32_t)n_probes;
}

void md_ds_probes_lay_out(md_ds_levels level[MD_DS_MAX_DYNAMIC], md_ds_numeric *numeric, const md_fa_target *target,
                          const md_ds_space *space, md_numeric policy)
{
    numeric->n_probes = lay_out(level, target, space, policy);
    for (int32_t k = 0; k < space->n; k++)
        if (level[k].n > 1)
            numeric->dim[numeric->n_dims++] = level[k].dim;
}

/* Halves sizes of a probe until a kernel might be launched for them: the dims in which probes do not differ first. */
static void shrink_sizes(int64_t size[MD_FX_MAX_DIMS], const md_ds_levels *level, int32_t n_levels,
                         const md_fa_target *target)
{
    const md_st_kind kind = target->program->stage[target->stage].kind;
    const double most = kind == MD_ST_PRODUCT || kind == MD_ST_CHAIN ? 1e13 : 2e9;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t k = 0; k < n_levels; k++)
            while ((pass == 1 || level[k].n == 1) && size[level[k].dim] > 16 && md_ds_work(target, size) > most &&
                   !md_ds_is_length(target, level[k].dim))
                size[level[k].dim] /= 2;
}

void md_ds_probe_place(int64_t size[MD_FX_MAX_DIMS], md_ds_numeric *numeric, int32_t i, const md_ds_levels *level,
                       const md_fa_target *target, const md_ds_space *space)
{
    md_ds_hint_sizes(size, space, 0);
    for (int32_t k = 0, rest = i; k < space->n; k++) {
        size[level[k].dim] = level[k].size[rest % level[k].n];
        rest /= level[k].n;
    }
    for (int32_t k = 0; k < numeric->n_dims; k++)
        numeric->probe[i].at[k] = log2((double)MD_MAX(size[numeric->dim[k]], 1));
    shrink_sizes(size, level, space->n, target);
}
