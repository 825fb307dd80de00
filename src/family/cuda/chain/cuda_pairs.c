/* What the GPU families of pairs share. */
#include "family/cuda/chain/cuda_pairs.h"

#include "base/status.h"
#include "family/cuda/cuda.h"

#include <math.h>

static const md_st_pairs *pairs_of(const md_cg_chain *c)
{
    return c->c->pairs;
}

static int32_t dim_of(const md_cg_chain *c, int32_t index)
{
    return c->program->index[index].dim;
}

static md_dtype type_of(const md_cg_chain *c, int32_t operand)
{
    return c->program->formula->tensor[pairs_of(c)->operand[operand].load->id].dtype;
}

md_dtype md_fa_cuda_pairs_type(const md_cg_chain *c)
{
    return type_of(c, 0);
}

/* The dims of the lines' lengths: of the first product, and the other one; -1: there is none. */
static void lengths_of(int32_t dim[2], const md_cg_chain *c)
{
    const md_st_pairs *p = pairs_of(c);
    dim[0] = dim_of(c, p->product[0].depth);
    dim[1] = -1;
    for (int32_t i = 0; i < p->n_operands && dim[1] < 0; i++)
        if (dim_of(c, p->operand[i].inner) != dim[0])
            dim[1] = dim_of(c, p->operand[i].inner);
}

bool md_fa_cuda_pairs_of(md_cg_chain *out, const md_fa_target *target)
{
    int32_t dim[2];
    if (!md_cg_pairs_of(out, target->program, target->stage, MD_DEV_CUDA))
        return false;
    const md_st_pairs *p = pairs_of(out);
    lengths_of(dim, out);
    for (int32_t i = 0; i < p->n_operands; i++) {
        const int32_t own = dim_of(out, p->operand[i].inner);
        if (!md_fa_cuda_is_line(p->operand[i].load, p->operand[i].inner) || type_of(out, i) != type_of(out, 0) ||
            (own != dim[0] && own != dim[1]))
            return false;
    }
    return out->c->n_batch + out->c->n_rows <= MD_MAX_RANK && (type_of(out, 0) == MD_BF16 || type_of(out, 0) == MD_F16);
}

bool md_fa_cuda_pairs_has(const md_fa_target *target, const md_cg_chain *c, int32_t depth, int32_t width,
                          const int64_t *size)
{
    const md_fx_formula *f = target->program->formula;
    const int32_t want[] = {depth, width};
    int32_t dim[2];
    lengths_of(dim, c);
    for (int32_t i = 0; i < 2; i++) {
        const int64_t known = dim[i] < 0 ? depth : size ? size[dim[i]] : f->dim[dim[i]].size;
        if ((size || known > 0) && known != want[i])
            return false;
    }
    return true;
}

bool md_fa_cuda_pairs_takes(const md_fa_target *target, int32_t field, int32_t value, const int64_t *size)
{
    md_cg_chain c;
    int32_t dim[2];
    if (field > 1 || !size || !md_cg_pairs_of(&c, target->program, target->stage, MD_DEV_CUDA))
        return true;
    lengths_of(dim, &c);
    return size[dim[dim[field] < 0 ? 0 : field]] == value;
}

void md_fa_cuda_pairs_envelope(md_kn_envelope *out, const md_fa_target *target, int32_t depth, int32_t width)
{
    md_cg_chain c;
    int32_t dim[2];
    *out = (md_kn_envelope){0};
    if (!md_fa_cuda_pairs_of(&c, target))
        return;
    lengths_of(dim, &c);
    for (int32_t d = 0; d < target->program->formula->n_dims; d++)
        out->hi[d] = INT32_MAX - 1024;
    for (int32_t i = 0; i < 2 && dim[i] >= 0; i++)
        out->lo[dim[i]] = out->hi[dim[i]] = i == 0 ? depth : width;
    for (int32_t i = 0; i < pairs_of(&c)->n_operands; i++)
        out->aligned16 |= UINT32_C(1) << pairs_of(&c)->operand[i].load->id;
    out->unit = out->aligned16;
    md_fa_cuda_chain_limit_rows(out, &c, MD_FA_CHAIN_ROWS);
}

md_fa_pair_part md_fa_cuda_pairs_part(const md_cg_chain *c, int32_t sum, int32_t depth, int32_t width)
{
    const md_st_pairs *p = pairs_of(c);
    const md_st_pair_sum *s = &p->sum[sum];
    md_fa_pair_part part = {.is_towards_keys = s->is_towards_keys, .halves = md_cg_pairs_halves(c, sum)};
    bool copies_value = true;
    for (int32_t i = 0; i < p->n_products; i++) {
        const md_st_pair_product *x = &p->product[i];
        const int32_t length = md_cg_pairs_is_deep(c, x->of_rows) ? depth : width;
        if (!md_cg_pairs_uses(c, sum, i))
            continue;
        part.product[part.n_products++] = i;
        part.own += length;
        part.other += length;
        part.terms += length;
        copies_value &= s->operand != (s->is_towards_keys ? x->of_rows : x->of_keys);
    }
    part.width = md_cg_pairs_is_deep(c, s->operand) ? depth : width;
    part.terms += part.halves * part.width;
    part.other += copies_value ? part.width : 0;
    return part;
}

/* The exponential need not be exact where weights or sums are rounded to 16 bits anyway. */
static bool is_short(const md_cg_chain *c)
{
    const md_st_stage *stage = &c->program->stage[c->stage];
    const md_fx_formula *f = c->program->formula;
    for (int32_t i = 0; i < pairs_of(c)->n_sums; i++)
        if (md_cg_pairs_halves(c, i) == 2 && md_dtype_size(f->tensor[stage->store[i].tensor].dtype) > 2)
            return false;
    return true;
}

void md_fa_cuda_pairs_print_types(md_strbuf *defines, const md_cg_chain *c, int32_t lanes)
{
    const char *type = md_dtype_name(type_of(c, 0));
    md_strbuf_printf(defines,
                     "#define MD_VL %d\n#define MD_USE_%s 1\n#define MD_MMA_TYPE %s\n#define md_pairs_pack md_pack_%s\n"
                     "#define md_pairs_short md_round_%s_sf\n#define md_pairs_up md_up1_%s\n%s",
                     (int)lanes, type[0] == 'b' ? "BF16" : "F16", type, type, type, type,
                     is_short(c) ? "#define MD_SHORT_RESULTS 1\n" : "");
}

md_status md_fa_cuda_pairs_emit(md_kn_source *out, const md_fa_target *target, const char *source, md_strbuf *defines)
{
    md_cg_chain c;
    *out = (md_kn_source){.n_launches = 1};
    if (!md_fa_cuda_pairs_of(&c, target)) {
        md_strbuf_finish(defines);
        return md_fail(MD_INTERNAL, "not such pairs");
    }
    md_fa_cuda_pairs_print_types(defines, &c, 2);
    const md_status status = md_fa_chain_emit(&out->launch[0], target, NULL, 0, source, defines);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

/* ---- launches */

int64_t md_fa_cuda_pairs_bytes(int64_t lines, int32_t length)
{
    return (length + 63) / 64 * lines * 128;
}

int64_t md_fa_cuda_pairs_note_bytes(const md_cg_chain *c)
{
    return 8 * (1 + c->c->n_batch + c->c->n_rows + c->n_kept);
}

void md_fa_cuda_pairs_tiles(int64_t tiles[2], const md_fa_chain *sized, int32_t own)
{
    const md_st_pairs *p = pairs_of(&sized->c);
    tiles[0] = tiles[1] = 0;
    for (int32_t i = 0; i < p->n_sums; i++) {
        const bool keys = p->sum[i].is_towards_keys;
        tiles[keys] = ((keys ? sized->keys : sized->rows) + own - 1) / own;
    }
}

void md_fa_cuda_pairs_launch(md_kn_geometries *out, int64_t blocks, int32_t threads, int64_t shared_bytes)
{
    if (blocks == 0)
        return;
    out->launch[0] = md_fa_cuda_launch(blocks, threads);
    out->launch[0].scratch_bytes = shared_bytes;
    out->launch[0].overlaps = true;
}

void md_fa_cuda_pairs_features(md_fa_features *out, const md_fa_target *target, const md_fa_chain *sized, int32_t own)
{
    int64_t tiles[2];
    const double sms = MD_MAX(target->facts->threads, 1);
    md_fa_cuda_pairs_tiles(tiles, sized, own);
    const double blocks = (double)(tiles[0] + tiles[1]) * (double)sized->batches;
    out->parallel = fmin(fmax(blocks, 1), sms);
    out->memory_bytes = sized->bytes;
    out->memory_rate = fmin(1, blocks / sms + 0.05);
}
