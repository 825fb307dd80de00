/* Which field of which family is which block dimension. */
#include "combo/axis.h"

#include "base/status.h"

#include <string.h>

typedef struct row {
    const char *family, *field; /* family: the beginning of its name */
    md_cb_axis axis;
} row;

/* The first that fits counts; a field that is not listed is a plain one. */
static const row table[] = {
    {"pointwise", "unroll", MD_CB_X}, {"gather", "items", MD_CB_X},    {"gather", "rows", MD_CB_Y},
    {"scatter", "items", MD_CB_X},    {"scatter", "rows", MD_CB_Y},    {"row_persistent", "vecs", MD_CB_PLAIN},
    {"row_", "rows", MD_CB_X},        {"row_looped", "vecs", MD_CB_R}, {"row_looped", "chunk", MD_CB_R},
    {"column", "threads_x", MD_CB_X}, {"column", "tile", MD_CB_X},     {"column", "threads_y", MD_CB_R},
    {"scan_split", "items", MD_CB_R}, {"gemm", "columns", MD_CB_X},    {"gemm", "vecs", MD_CB_X},
    {"gemm", "rows", MD_CB_Y},        {"gemm", "depth", MD_CB_R},      {"gemv", "columns", MD_CB_X},
    {"gemv", "max_rows", MD_CB_Y},    {"gemv", "slice_k", MD_CB_R},    {"", "threads", MD_CB_THREADS},
    {"", "lanes", MD_CB_THREADS},     {"", "warps", MD_CB_THREADS},
};

md_cb_axis md_cb_axis_of(const md_fa_family *family, int32_t field)
{
    for (int32_t i = 0; i < MD_COUNT(table); i++)
        if (!strncmp(family->name, table[i].family, strlen(table[i].family)) &&
            !strcmp(family->field[field].name, table[i].field))
            return table[i].axis;
    return MD_CB_PLAIN;
}

void md_cb_axis_sizes(int64_t size[MD_CB_BLOCK_AXES], const md_fa_target *target, const int64_t *of_dim)
{
    const md_st_program *p = target->program;
    const md_st_stage *s = md_fa_stage(target);
    const int64_t outer = md_st_points(p, s->n_outer, s->outer, of_dim),
                  axis = s->axis >= 0 ? md_st_size(p, s->axis, of_dim) : 1;
    size[MD_CB_X] = outer;
    size[MD_CB_Y] = size[MD_CB_R] = 1;
    if (s->kind == MD_ST_PRODUCT) {
        size[MD_CB_X] = md_st_points(p, s->product.n_n, s->product.n, of_dim);
        size[MD_CB_Y] = md_st_points(p, s->product.n_m, s->product.m, of_dim);
        size[MD_CB_R] = md_st_points(p, s->product.n_k, s->product.k, of_dim);
    } else if (s->kind == MD_ST_POINTWISE || s->kind == MD_ST_NEST) {
        size[MD_CB_X] = axis;
        size[MD_CB_Y] = outer;
    } else {
        size[MD_CB_R] = axis;
    }
    for (int32_t i = 0; i < MD_CB_BLOCK_AXES; i++)
        size[i] = MD_MAX(size[i], 1);
}

int64_t md_cb_axis_limit(const int64_t size[MD_CB_BLOCK_AXES], md_cb_axis axis)
{
    int64_t limit = 1;
    if (axis >= MD_CB_BLOCK_AXES)
        return INT64_MAX;
    while (limit < size[axis] && limit < INT64_MAX / 2)
        limit *= 2;
    return limit;
}

/* Points of an item that a warp computes: four of its vectors of 16 bytes, or 128 single elements. */
enum { WARP_POINTS = 128 };

int32_t md_cb_axis_value(const md_bd_variant *v, const char *field, int32_t otherwise)
{
    for (int32_t i = 0; i < v->family->n_fields; i++)
        if (!strcmp(v->family->field[i].name, field))
            return v->config.value[i];
    return otherwise;
}

bool md_cb_axis_suits_warp(int32_t *points, int32_t *rows, const md_bd_variant *v, const md_kn_geometry *geometry,
                           const md_kn_shape *shape)
{
    int64_t size[MD_CB_BLOCK_AXES];
    if (strcmp(v->family->name, "pointwise") != 0 || v->family->device != MD_DEV_CUDA ||
        md_cb_axis_value(v, "transpose", 0) != 0 || v->n_launches != 1 || geometry->grid[0] != 1 ||
        geometry->grid[1] > 1 || geometry->grid[2] > 1 || geometry->scratch_bytes > 0)
        return false;
    md_cb_axis_sizes(size, &v->target, shape->size);
    if (size[MD_CB_Y] > WARP_POINTS || size[MD_CB_X] > WARP_POINTS || size[MD_CB_X] * size[MD_CB_Y] > WARP_POINTS)
        return false;
    *points = (int32_t)(size[MD_CB_X] * size[MD_CB_Y]);
    *rows = (int32_t)size[MD_CB_Y];
    return true;
}
