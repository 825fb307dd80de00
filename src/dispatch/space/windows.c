/* Points of products of which an operand is a window of a tensor, as in convolutions: layers of networks. */
#include "dispatch/space/points.h"

#include <string.h>

enum { BATCH, IMAGE, CHANNELS, FILTERS, POINTS, N_ROLES };

/* The last ones have channels that are no multiples of eight. */
static const int64_t layers[][N_ROLES] = {
    {1, 56, 64, 64, 3},  {1, 28, 128, 128, 3},  {1, 14, 256, 256, 3},  {1, 7, 512, 512, 3},
    {32, 56, 64, 64, 3}, {32, 28, 128, 128, 3}, {32, 14, 256, 256, 3}, {32, 7, 512, 512, 3},
    {8, 56, 64, 256, 1}, {8, 56, 256, 64, 1},   {16, 50, 88, 128, 3},  {8, 40, 456, 48, 3},
    {32, 112, 3, 64, 7}, {16, 24, 11, 97, 3},   {4, 20, 257, 129, 3},  {8, 10, 493, 57, 3},
};
_Static_assert(MD_COUNT(layers) <= MD_DS_MAX_CORNERS, "room for all");

/* A load some of whose places add an index of K to one of the result. */
typedef struct window {
    const md_fx_formula *formula;
    const md_st_product *product;
    const md_fx_node *load;
    bool is_of_filter; /* the gradient of a filter, which sums over what a convolution does not */
} window;

static bool note_window(void *user, const md_fx_node *node)
{
    window *w = user;
    const md_st_product *p = w->product;
    bool is_window = false;
    for (int32_t i = 0; node->kind == MD_FX_LOAD && i < node->n_args; i++) {
        md_fx_affine place;
        if (!md_fx_affine_of(&place, w->formula, node->arg[i]))
            return true;
        is_window |=
            md_fx_uses_any_index(node->arg[i], p->n_k, p->k) &&
            (md_fx_uses_any_index(node->arg[i], p->n_m, p->m) || md_fx_uses_any_index(node->arg[i], p->n_n, p->n));
    }
    if (is_window)
        w->load = node;
    return !is_window;
}

static int32_t role_of(const window *w, int32_t index)
{
    bool is_there = false, is_alone = false, is_of_k = false;
    for (int32_t i = 0; i < w->load->n_args; i++) {
        is_there |= md_fx_uses_index(w->load->arg[i], index);
        is_alone |= md_fx_is_index(w->load->arg[i], index);
    }
    for (int32_t i = 0; i < w->product->n_k; i++)
        is_of_k |= w->product->k[i] == index;
    if (!is_there)
        return FILTERS;
    if (is_of_k != w->is_of_filter)
        return is_alone ? CHANNELS : POINTS;
    return is_alone ? BATCH : IMAGE;
}

/* True if the sum runs over the first axis: that of the batch. */
static bool sums_batch(const window *w)
{
    for (int32_t i = 0; i < w->product->n_k; i++)
        if (md_fx_is_index(w->load->arg[0], w->product->k[i]))
            return true;
    return false;
}

/* By dim; those of no index are sizes of the image. */
static void find_roles(int32_t role[MD_FX_MAX_DIMS], const md_fa_target *target, const window *w)
{
    const md_st_stage *stage = md_fa_stage(target);
    for (int32_t d = 0; d < MD_FX_MAX_DIMS; d++)
        role[d] = IMAGE;
    for (int32_t i = 0; i < stage->n_outer; i++)
        role[target->program->index[stage->outer[i]].dim] = role_of(w, stage->outer[i]);
    for (int32_t i = 0; i < w->product->n_k; i++)
        role[target->program->index[w->product->k[i]].dim] = role_of(w, w->product->k[i]);
}

int32_t md_ds_window_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space)
{
    const md_st_stage *stage = md_fa_stage(target);
    window w = {.formula = target->program->formula, .product = &stage->product};
    int32_t role[MD_FX_MAX_DIMS];
    if (stage->kind == MD_ST_PRODUCT && md_fx_visit(w.product->a[0], note_window, &w))
        (void)md_fx_visit(w.product->b[0], note_window, &w);
    if (!w.load)
        return 0;
    w.is_of_filter = sums_batch(&w);
    find_roles(role, target, &w);
    for (int32_t i = 0; i < MD_COUNT(layers); i++) {
        memset(&out[i], 0, sizeof out[i]);
        md_ds_hint_sizes(out[i].size, space, 0);
        for (int32_t k = 0; k < space->n; k++) {
            const md_fx_dim *d = &space->formula->dim[space->dim[k]];
            out[i].size[space->dim[k]] = MD_MAX(d->lo, MD_MIN(d->hi, layers[i][role[space->dim[k]]]));
        }
        out[i].is_ragged = layers[i][CHANNELS] % 8 != 0;
    }
    return MD_COUNT(layers);
}
