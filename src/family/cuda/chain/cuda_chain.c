/* What the GPU families of chains share. */
#include "family/cuda/chain/cuda_chain.h"

#include "base/status.h"
#include "family/cuda/cuda.h"
#include "family/cuda/wgmma.h"
#include "family/emit.h"

#include <inttypes.h>
#include <stdio.h>

static md_dtype type_of(const md_cg_chain *c, md_st_side side)
{
    return c->program->formula->tensor[c->c->side[side].load->id].dtype;
}

md_dtype md_fa_cuda_chain_type(const md_cg_chain *c)
{
    return type_of(c, MD_ST_Q);
}

/* True for one result of 16 bits: it is stored in pairs of columns. */
static bool is_short(const md_cg_chain *c)
{
    const md_st_stage *stage = &c->program->stage[c->stage];
    int32_t n = 0;
    bool is_short = true;
    for (int32_t i = 0; i < stage->n_stores; i++) {
        const md_st_store *s = &stage->store[i];
        const md_dtype dtype = c->program->formula->tensor[s->tensor].dtype;
        if (s->per_row)
            continue;
        n++;
        is_short = is_short && (dtype == MD_BF16 || dtype == MD_F16) && s->value->type == MD_F32 &&
                   s->n_subscripts > 0 && md_fx_is_index(s->subscript[s->n_subscripts - 1], c->c->columns[0]);
        for (int32_t a = 0; a < s->n_subscripts; a++)
            is_short = is_short && s->subscript[a]->kind == MD_FX_INDEX;
    }
    return n == 1 && is_short;
}

bool md_fa_cuda_is_line(const md_fx_node *load, int32_t inner)
{
    if (load->n_args < 1 || !md_fx_is_index(load->arg[load->n_args - 1], inner))
        return false;
    for (int32_t i = 0; i < load->n_args - 1; i++)
        if (md_fx_uses_index(load->arg[i], inner))
            return false;
    return true;
}

bool md_fa_cuda_chain_any(md_cg_chain *out, const md_fa_target *target)
{
    if (!md_cg_chain_of(out, target->program, target->stage, MD_DEV_CUDA))
        return false;
    const md_st_chain *c = out->c;
    if (c->n_terms > 1 || c->n_columns != 1 || c->n_depth != 1 || c->n_batch + c->n_rows > MD_MAX_RANK)
        return false;
    for (int32_t s = 0; s < MD_ST_SIDES; s++)
        if (!md_cg_chain_is_load(out, (md_st_side)s) || type_of(out, (md_st_side)s) != type_of(out, MD_ST_Q) ||
            !md_fa_cuda_is_line(c->side[s].load, md_fa_cuda_chain_inner(out, (md_st_side)s)))
            return false;
    return md_fa_cuda_chain_type(out) == MD_BF16 || md_fa_cuda_chain_type(out) == MD_F16;
}

md_fa_class md_fa_cuda_chain_class(const char *group, int32_t split)
{
    return (md_fa_class){.group = group, .field = {"keys", "split"}, .is_repeatable = true, .is_invariant = split == 1};
}

bool md_fa_cuda_chain_folds(const md_cg_chain *c)
{
    return md_cg_chain_is_scaled(c) == 2 && (c->c->n_guards == 0 || md_cg_chain_is_bounded(c));
}

int32_t md_fa_cuda_chain_halves(const md_cg_chain *c)
{
    bool is_plain;
    return md_cg_chain_weight(c, &is_plain) == md_fa_cuda_chain_type(c) ? 1 : 2;
}

bool md_fa_cuda_chain_of(md_cg_chain *out, const md_fa_target *target)
{
    bool is_plain;
    if (!md_fa_cuda_chain_any(out, target) || !out->c->has_maximum || out->c->n_terms != 1)
        return false;
    const md_dtype type = md_fa_cuda_chain_type(out), weight = md_cg_chain_weight(out, &is_plain);
    const md_fx_node *term = out->c->term[0];
    const bool is_rounded = term->kind == MD_FX_CAST && term->to == weight && term->arg[0]->kind == MD_FX_REF;
    return is_plain && (weight == type || weight == MD_F32) && (term->kind == MD_FX_REF || is_rounded);
}

static int32_t dim_of(const md_cg_chain *c, int32_t index)
{
    return c->program->index[index].dim;
}

bool md_fa_cuda_chain_has(const md_fa_target *target, const md_cg_chain *c, int32_t depth, int32_t width,
                          const int64_t *size)
{
    const md_fx_formula *f = target->program->formula;
    const int32_t dims[] = {dim_of(c, c->c->depth[0]), dim_of(c, c->c->columns[0])}, want[] = {depth, width};
    for (int32_t i = 0; i < 2; i++) {
        const int64_t known = size ? size[dims[i]] : f->dim[dims[i]].size;
        if ((size || known > 0) && known != want[i])
            return false;
    }
    return true;
}

bool md_fa_cuda_chain_takes(const md_fa_target *target, int32_t field, int32_t value, const int64_t *size)
{
    const md_st_stage *stage = md_fa_stage(target);
    if (field > 1 || !size || stage->kind != MD_ST_CHAIN)
        return true;
    const int32_t index = field == 0 ? stage->chain->depth[0] : stage->chain->columns[0];
    return size[target->program->index[index].dim] == value;
}

void md_fa_cuda_chain_limit_rows(md_kn_envelope *out, const md_cg_chain *c, int64_t most)
{
    out->row_points_max = most;
    out->n_row_dims = 0;
    for (int32_t i = 0; i < c->c->n_batch; i++)
        out->row_dim[out->n_row_dims++] = dim_of(c, c->c->batch[i]);
    for (int32_t i = 0; i < c->c->n_rows; i++)
        out->row_dim[out->n_row_dims++] = dim_of(c, c->c->rows[i]);
}

void md_fa_cuda_chain_envelope(md_kn_envelope *out, const md_fa_target *target, int32_t depth, int32_t width,
                               int64_t most_rows)
{
    md_cg_chain chain;
    const md_cg_chain *const c = &chain;
    *out = (md_kn_envelope){0};
    if (!md_fa_cuda_chain_any(&chain, target))
        return;
    const int32_t along_depth = dim_of(c, c->c->depth[0]), along_width = dim_of(c, c->c->columns[0]);
    const md_st_stage *stage = &c->program->stage[c->stage];
    for (int32_t d = 0; d < target->program->formula->n_dims; d++)
        out->hi[d] = INT32_MAX - 1024;
    out->lo[along_depth] = out->hi[along_depth] = depth;
    out->lo[along_width] = out->hi[along_width] = width;
    for (int32_t s = 0; s < MD_ST_SIDES; s++)
        out->aligned16 |= UINT32_C(1) << c->c->side[s].load->id;
    for (int32_t i = 0; i < stage->n_stores; i++)
        if (!stage->store[i].per_row && is_short(c))
            out->aligned16 |= UINT32_C(1) << stage->store[i].tensor;
    out->unit = out->aligned16;
    md_fa_cuda_chain_limit_rows(out, c, most_rows);
}

int64_t md_fa_cuda_chain_tiles(const md_fa_chain *sized, int32_t rows)
{
    return sized->batches * ((sized->rows + rows - 1) / rows);
}

int32_t md_fa_cuda_chain_resident(const md_fa_target *target, int64_t shared, int32_t warps)
{
    const int64_t fit = MD_MAX(target->facts->shared_per_sm, 1) / (shared + 1024);
    return (int32_t)MD_MAX(MD_MIN(fit, warps >= 8 ? 1 : 2), 1);
}

md_kn_geometry md_fa_cuda_chain_grid(int64_t splits, int64_t items, int32_t threads)
{
    enum { MOST = 65535 };
    const int64_t planes = (items + MOST - 1) / MOST;
    md_kn_geometry g = md_fa_cuda_launch(splits, threads);
    g.blocks = splits * items;
    g.grid[1] = (int32_t)(planes > 0 ? (items + planes - 1) / planes : 1);
    g.grid[2] = planes > MOST ? -1 : (int32_t)planes; /* -1: the launch refuses it */
    return g;
}

/* ---- Text */

/* True if some row lacks the first keys. */
static bool has_first(const md_st_chain *c)
{
    bool r = !c->is_bounded && c->n_guards > 0;
    for (int32_t i = 0; i < c->n_bounds; i++)
        r = r || !c->bound[i].is_end;
    return r;
}

/* True if offsets of keys are a first one and a multiple of the key. */
static bool is_steady(const md_cg_chain *c, md_st_side side)
{
    md_kn_map map;
    md_strbuf coordinates = {0};
    bool r = md_cg_chain_is_linear(c, side) && md_fa_cuda_chain_map(&map, &coordinates, c, side);
    md_strbuf_finish(&coordinates);
    return r;
}

static void print_types(md_strbuf *defines, const md_cg_chain *c)
{
    bool is_plain;
    const char *type = md_dtype_name(md_fa_cuda_chain_type(c));
    const md_dtype weight = md_cg_chain_weight(c, &is_plain);
    md_strbuf_printf(defines,
                     "#define MD_VL 2\n#define MD_USE_%s 1\n#define MD_MMA_TYPE %s\n#define md_chain_pack md_pack_%s\n"
                     "#define md_chain_short_two md_round_two_%s\n"
                     "#define MD_HALVES %" PRId32 "\n#define MD_FIRST %d\n"
                     "#define MD_STEADY_KEYS %d\n#define MD_STEADY_VALUES %d\n"
                     "#define md_chain_counter(p) ((unsigned *)(p)->counters0)\n"
                     "#define md_chain_parts(p) ((float *)(p)->work0)\n",
                     type[0] == 'b' ? "BF16" : "F16", type, type, type, md_fa_cuda_chain_halves(c), has_first(c->c),
                     is_steady(c, MD_ST_K), is_steady(c, MD_ST_V));
    if (weight == MD_F32)
        md_strbuf_add(defines, "#define md_chain_round_two(a, b)\n");
    else
        md_strbuf_printf(defines, "#define md_chain_round_two md_round_two_%s\n", md_dtype_name(weight));
}

md_status md_fa_cuda_chain_emit(md_kn_source *out, const md_fa_target *target, const md_fa_cuda_chain_text *text,
                                md_strbuf *defines)
{
    md_cg_chain chain;
    md_strbuf expr = {0};
    md_kn_launch_source *launch = &out->launch[0];
    out->n_launches = 1;
    md_status status = md_fa_cuda_chain_any(&chain, target) ? MD_OK : md_fail(MD_INTERNAL, "not such a chain");
    if (status == MD_OK) {
        chain.keeps_bounds = text->keeps_bounds;
        launch->code = MD_KN_TEXT;
        snprintf(launch->entry, sizeof launch->entry, "md_kernel");
        print_types(defines, &chain);
        status = md_fa_cuda_map_params(launch, target, text->n_maps, text->map,
                                       (md_fa_cuda_more_params){.counters = MD_FA_CHAIN_COUNTERS});
    }
    if (status == MD_OK)
        status = md_cg_chain_print(defines, &expr, &chain, launch->param, launch->n_params);
    if (text->functions)
        md_strbuf_add(&expr, md_strbuf_text(text->functions));
    status = md_fa_end_launch(status, launch, MD_DEV_CUDA, text->source, defines, &expr);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

void md_fa_cuda_print_wgmma(md_strbuf *out, const char *name, const char *type, int32_t columns, md_fa_wgmma how)
{
    const bool is_in_registers = how == MD_FA_WGMMA_VALUES;
    const md_fa_cuda_wgmma wgmma = {.name = name,
                                    .a = type,
                                    .b = type,
                                    .columns = columns,
                                    .depth = 16,
                                    .keeps = is_in_registers               ? MD_FA_WGMMA_ADDS
                                             : how & MD_FA_WGMMA_FROM_ZERO ? MD_FA_WGMMA_FIRST
                                                                           : MD_FA_WGMMA_ASKED,
                                    .is_in_registers = is_in_registers,
                                    .order = is_in_registers            ? ", 1"
                                             : how & MD_FA_WGMMA_ACROSS ? ", 1, 1"
                                                                        : ", 0, 0"};
    md_fa_cuda_wgmma_print(out, &wgmma);
}
