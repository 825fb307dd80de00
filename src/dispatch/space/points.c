/* Points that pools have variants for: hints, their ragged twins, and lopsided points. */
#include "dispatch/space/points.h"

#include "base/status.h"
#include "tune/tune.h"

#include <math.h>
#include <string.h>

/* Points of the iteration space: a scatter of a constant has many, but few bytes and no operations. Empty dims count as
 * 1, since geometries of an empty space look at its other sizes, too. */
static double points_of(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *s = md_fa_stage(target);
    double points = s->axis >= 0 ? fmax((double)md_st_size(target->program, s->axis, size), 1.0) : 1.0;
    for (int32_t i = 0; i < s->n_outer; i++)
        points *= fmax((double)md_st_size(target->program, s->outer[i], size), 1.0);
    for (int32_t i = 0; s->kind == MD_ST_PRODUCT && i < s->product.n_k; i++)
        points *= fmax((double)md_st_size(target->program, s->product.k[i], size), 1.0);
    return points;
}

double md_ds_work(const md_fa_target *target, const int64_t *size)
{
    double flops = 0.0, bytes = 0.0;
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    return fmax(flops + bytes, points_of(target, size));
}

/* Models and geometries count in 64 bits. A hint larger than any machine could run still stands for "large" when its
 * largest sizes are halved. Static sizes are halved, too: a hint is no limit. */
void md_ds_bring_into_reach(int64_t size[MD_FX_MAX_DIMS], const md_fa_target *target)
{
    static const double most = 1e15;
    while (!(md_ds_work(target, size) <= most)) {
        int32_t largest = 0;
        for (int32_t d = 1; d < target->program->formula->n_dims; d++)
            if (size[d] > size[largest])
                largest = d;
        if (size[largest] <= 1)
            return;
        size[largest] /= 2;
    }
}

/* Odd sizes, so that rows start at no boundary of memory. */
static void make_ragged(int64_t size[MD_FX_MAX_DIMS], const md_ds_space *space)
{
    for (int32_t k = 0; k < space->n; k++) {
        const md_fx_dim *d = &space->formula->dim[space->dim[k]];
        if (size[space->dim[k]] > 1 && (size[space->dim[k]] | 1) <= d->hi)
            size[space->dim[k]] |= 1;
    }
}

void md_ds_point_shape(md_kn_shape *out, const md_fa_target *target, const md_tn_point *point)
{
    md_tn_shape(out, target->program, point->size);
    if (point->is_ragged)
        out->aligned = out->aligned16 = 0;
}

static void finish_point(md_tn_point *out, const md_fa_target *target, const md_ds_space *space, bool is_ragged)
{
    md_ds_bring_into_reach(out->size, target);
    out->is_ragged = is_ragged;
    if (is_ragged)
        make_ragged(out->size, space);
}

void md_ds_hint_point(md_tn_point *out, const md_fa_target *target, const md_ds_space *space, int32_t hint,
                      bool is_ragged)
{
    memset(out, 0, sizeof *out);
    md_ds_hint_sizes(out->size, space, hint);
    finish_point(out, target, space, is_ragged);
}

/* A lopsided point: one dim long, the others short. */
typedef struct corner {
    int64_t at_long, at_short;
} corner;
static const corner corners_of_one[] = {{1 << 18, 1}, {1 << 24, 1}};
static const corner corners_of_many[] = {
    {1 << 20, 1},    {1 << 20, 2}, {1 << 20, 16}, {1 << 18, 64}, {1 << 16, 256}, {1 << 15, 512}, {49152, 2048},
    {1 << 14, 1024}, {8192, 2048}, {8192, 4096},  {12288, 4096}, {1 << 17, 96},  {1 << 16, 160}, {1 << 15, 384},
    {4096, 4},       {1024, 64},   {2048, 64},    {4096, 64},    {4096, 256},    {8192, 24},     {8192, 80},
    {8192, 176},     {4096, 320},  {2048, 400},   {1 << 15, 48}, {49152, 208},   {1 << 24, 1}};
enum {
    OF_SCANS = 1
}; /* the last of corners_of_many is for scans alone: they have kernels of their own for long rows */

/* For three dims, as products have them (rows, columns, K): few rows or columns with large matrices, squares between
 * the hints, short and long K; then sizes where no line starts at a boundary of memory, and sizes where only lines of
 * the result do not; small products. */
static const int64_t points_of_products[][3] = {
    {16, 4096, 4096},   {4, 512, 512},       {1, 1024, 1024},    {64, 4096, 4096},   {256, 4096, 4096},
    {768, 768, 768},    {1536, 1536, 1536},  {3072, 3072, 3072}, {512, 4096, 4096},  {32, 11008, 4096},
    {128, 11008, 4096}, {1000, 11008, 4096}, {128, 3072, 768},   {512, 3072, 768},   {1000, 4096, 1024},
    {256, 256, 4096},   {16, 128, 4096},     {2048, 256, 64},    {4096, 4096, 64},   {4096, 16, 4096},
    {65, 4097, 4097},   {257, 1025, 1025},   {769, 769, 769},    {1537, 1537, 1537}, {3073, 3073, 3073},
    {17, 1025, 513},    {17, 129, 4097},     {257, 257, 4097},   {2049, 1025, 65},   {257, 8193, 65},
    {9, 257, 3585},     {769, 1025, 3073},   {64, 1025, 1024},   {768, 769, 768},    {2048, 2049, 2048},
    {129, 65, 257},     {1025, 17, 3},       {9, 33, 1025},      {65, 33, 513},      {129, 129, 33},
    {5, 65, 4097},      {513, 33, 65},
};

/* For one dim of a product, as rows of activations have it: between the hints, where another tile is the best. */
static const int64_t points_of_rows[] = {32, 96, 128, 160, 192, 320, 384, 512, 768, 2048};

static void corner_sizes(int64_t size[MD_FX_MAX_DIMS], const md_ds_space *space, int32_t which, const corner *point)
{
    md_ds_hint_sizes(size, space, 0);
    for (int32_t k = 0; k < space->n; k++) {
        const md_fx_dim *d = &space->formula->dim[space->dim[k]];
        int64_t v = k == which ? point->at_long : point->at_short;
        size[space->dim[k]] = MD_MAX(d->lo, MD_MIN(d->hi, v));
    }
}

static int32_t product_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space)
{
    for (int32_t i = 0; i < MD_COUNT(points_of_products); i++) {
        const int64_t *at = points_of_products[i];
        memset(&out[i], 0, sizeof out[i]);
        md_ds_hint_sizes(out[i].size, space, 0);
        for (int32_t k = 0; k < space->n; k++) {
            const md_fx_dim *d = &space->formula->dim[space->dim[k]];
            out[i].size[space->dim[k]] = MD_MAX(d->lo, MD_MIN(d->hi, at[k]));
        }
        finish_point(&out[i], target, space, at[0] % 2 && at[1] % 2 && at[2] % 2);
    }
    return MD_COUNT(points_of_products);
}

static int32_t row_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space)
{
    const md_fx_dim *d = &space->formula->dim[space->dim[0]];
    for (int32_t i = 0; i < MD_COUNT(points_of_rows); i++) {
        memset(&out[i], 0, sizeof out[i]);
        md_ds_hint_sizes(out[i].size, space, 0);
        out[i].size[space->dim[0]] = MD_MAX(d->lo, MD_MIN(d->hi, points_of_rows[i]));
        finish_point(&out[i], target, space, false);
    }
    return MD_COUNT(points_of_rows);
}

/* For chains: batches, queries and keys of one step of decoding, of chunks, and of prefill. */
static const int64_t points_of_chains[][3] = {
    {1, 1, 128},     {1, 1, 1024},   {1, 1, 8192},  {1, 1, 65536},  {16, 1, 1024},  {64, 1, 4096},   {256, 1, 1000},
    {1, 8, 2048},    {8, 16, 512},   {4, 64, 3000}, {1, 128, 128},  {1, 512, 8192}, {1, 1024, 1024}, {4, 2048, 2048},
    {1, 8192, 8192}, {64, 256, 256}, {8, 8, 16384}, {1, 64, 16384}, {4, 16, 8192},  {32, 24, 4096},
};
/* Heads where they are dynamic, and those that share their keys. */
enum { HEADS = 32, HEADS_OF_GROUP = 4 };
/* For pairs, too: of one head, where threads must share a batch. */
static const int64_t points_of_pairs[][3] = {{1, 256, 256}, {1, 700, 700}, {1, 2048, 2048}};
/* Lengths of heads that kernels are made for before a call asks for one. */
static const int64_t lengths_of_heads[] = {128, 64};
_Static_assert((int)MD_COUNT(points_of_chains) == (int)MD_DS_CHAIN_POINTS &&
                   ((int)MD_COUNT(points_of_chains) + (int)MD_COUNT(points_of_pairs)) *
                           (int)MD_COUNT(lengths_of_heads) <=
                       (int)MD_DS_MAX_CORNERS,
               "room for all");

static void set_size(md_tn_point *p, const md_fa_target *target, int32_t index, int64_t size)
{
    const md_st_program *program = target->program;
    const md_fx_dim *d = &program->formula->dim[program->index[index].dim];
    if (d->size < 0)
        p->size[program->index[index].dim] = MD_MAX(d->lo, MD_MIN(d->hi, size));
}

static void set_lengths(md_tn_point *p, const md_fa_target *target, const int64_t *size)
{
    int32_t index[MD_ST_MAX_LENGTHS];
    const int32_t n = md_st_chain_lengths(index, md_fa_stage(target)->chain);
    for (int32_t i = 0; i < n; i++)
        set_size(p, target, index[i], size[target->program->index[index[i]].dim]);
}

static void chain_sizes(md_tn_point *p, const md_fa_target *target, const md_ds_space *space, const int64_t at[3],
                        int64_t heads)
{
    const md_st_chain *c = md_fa_stage(target)->chain;
    memset(p, 0, sizeof *p);
    md_ds_hint_sizes(p->size, space, 0);
    for (int32_t i = 0; i < c->n_batch; i++)
        set_size(p, target, c->batch[i], i == 0 ? at[0] : heads);
    for (int32_t i = 0; i < c->n_rows; i++)
        set_size(p, target, c->rows[i], i + 1 == c->n_rows ? at[1] : HEADS_OF_GROUP);
    set_size(p, target, md_fa_stage(target)->axis, at[2]);
}

static void chain_point(md_tn_point *out, const md_fa_target *target, const md_ds_space *space, const int64_t *lengths,
                        const int64_t at[3], int64_t heads)
{
    chain_sizes(out, target, space, at, heads);
    set_lengths(out, target, lengths);
    finish_point(out, target, space, false);
}

int32_t md_ds_chain_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space, const int64_t *size)
{
    for (int32_t i = 0; i < MD_COUNT(points_of_chains); i++)
        chain_point(&out[i], target, space, size, points_of_chains[i], HEADS);
    return MD_COUNT(points_of_chains);
}

/* Heads of static length have one set of points. */
static int32_t usual_chain_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space)
{
    int64_t size[MD_FX_MAX_DIMS];
    int32_t n = 0;
    for (int32_t i = 0; i < (md_ds_has_free_lengths(target) ? MD_COUNT(lengths_of_heads) : 1); i++) {
        for (int32_t d = 0; d < MD_FX_MAX_DIMS; d++)
            size[d] = lengths_of_heads[i];
        n += md_ds_chain_points(out + n, target, space, size);
        for (int32_t k = 0; md_fa_stage(target)->chain->pairs && k < MD_COUNT(points_of_pairs); k++)
            chain_point(&out[n++], target, space, size, points_of_pairs[k], 1);
    }
    return n;
}

bool md_ds_is_length(const md_fa_target *target, int32_t dim)
{
    const md_st_program *program = target->program;
    const md_st_stage *stage = md_fa_stage(target);
    int32_t index[MD_ST_MAX_LENGTHS];
    const int32_t n = stage->kind == MD_ST_CHAIN ? md_st_chain_lengths(index, stage->chain) : 0;
    bool is = false;
    for (int32_t i = 0; i < n; i++)
        is |= program->index[index[i]].dim == dim;
    return is;
}

bool md_ds_has_free_lengths(const md_fa_target *target)
{
    const md_fx_formula *f = target->program->formula;
    for (int32_t d = 0; d < f->n_dims; d++)
        if (f->dim[d].size < 0 && md_ds_is_length(target, d))
            return true;
    return false;
}

int32_t md_ds_corner_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space)
{
    const corner *point = space->n == 1 ? corners_of_one : corners_of_many;
    const bool is_scan = target->program->stage[target->stage].kind == MD_ST_SCAN;
    const int32_t n = space->n == 1 ? MD_COUNT(corners_of_one) : MD_COUNT(corners_of_many) - (is_scan ? 0 : OF_SCANS);
    int32_t n_points = 0;
    if (md_fa_stage(target)->kind == MD_ST_CHAIN)
        return usual_chain_points(out, target, space);
    if ((n_points = md_ds_window_points(out, target, space)) > 0)
        return n_points;
    _Static_assert(MD_COUNT(points_of_products) <= MD_DS_MAX_CORNERS &&
                       2 * 2 * MD_COUNT(corners_of_many) <= MD_DS_MAX_CORNERS,
                   "room for all");
    if (space->n == 3)
        return product_points(out, target, space);
    if (space->n == 1 && target->program->stage[target->stage].kind == MD_ST_PRODUCT)
        n_points = row_points(out, target, space);
    for (int32_t k = 0; k < space->n && space->n <= 2; k++)
        for (int32_t i = 0; i < n; i++)
            for (int32_t is_ragged = 0; is_ragged < 2; is_ragged++) {
                md_tn_point *p = &out[n_points++];
                memset(p, 0, sizeof *p);
                corner_sizes(p->size, space, k, &point[i]);
                finish_point(p, target, space, is_ragged);
            }
    return n_points;
}

int32_t md_ds_points_between(md_tn_point out[MD_DS_MAX_BETWEEN], const md_fa_target *target, const md_ds_space *space)
{
    const int32_t last = space->n_hints - 1,
                  n_middles = MD_MIN(last, MD_DS_MAX_BETWEEN - 2 * (int32_t)MD_DS_MAX_DYNAMIC);
    int64_t from[MD_FX_MAX_DIMS], to[MD_FX_MAX_DIMS];
    md_tn_point *point = out;
    memset(out, 0, MD_DS_MAX_BETWEEN * sizeof *out);
    for (int32_t h = 0; h < n_middles; h++, point++) {
        md_ds_hint_sizes(from, space, h);
        md_ds_hint_sizes(to, space, h + 1);
        memcpy(point->size, from, sizeof from);
        for (int32_t k = 0; k < space->n; k++) {
            const int32_t d = space->dim[k];
            point->size[d] = (int64_t)sqrt((double)from[d] * (double)to[d]);
        }
    }
    md_ds_hint_sizes(from, space, MD_MIN(1, last));
    md_ds_hint_sizes(to, space, last);
    for (int32_t k = 0; k < space->n && space->n > 1; k++) {
        const int32_t d = space->dim[k];
        memcpy(point->size, from, sizeof from);
        point++->size[d] = to[d];
        memcpy(point->size, to, sizeof to);
        point++->size[d] = from[d];
    }
    const int32_t n = (int32_t)(point - out);
    for (int32_t i = 0; i < n; i++)
        finish_point(&out[i], target, space, false);
    return n;
}
