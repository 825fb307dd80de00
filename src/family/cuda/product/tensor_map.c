/* Tensor maps of products: which dims of the formula form the rows, columns and batch of each tensor. */
#include "family/cuda/product/gemm.h"

#include <string.h>

/* How a product reads or writes a tensor. */
typedef struct access {
    const md_cg_product *product;
    int32_t tensor, rank;
    const md_fx_node *const *subscript;
} access;

/* Some indices of the product. */
typedef struct group {
    int32_t n;
    const int32_t *index;
} group;

/* The indices of a map's dims, fastest first. */
typedef struct map_groups {
    group fastest, next, batch;
} map_groups;

/* Fills dim `at` of the map: the axes along which a group's indices run. They must be neighbours. */
static bool add_group(md_kn_map *m, int32_t at, const access *x, const group *g)
{
    const md_st_program *program = x->product->program;
    int32_t found = 0, last = -1;
    if (g->n > MD_KN_MAP_DIMS)
        return false;
    m->n_dims[at] = 0;
    for (int32_t i = 0; i < g->n; i++)
        for (int32_t a = 0; a < x->rank; a++)
            if (md_fx_is_index(x->subscript[a], g->index[i])) {
                if (last >= 0 && a != last + 1)
                    return false;
                last = a;
                m->dim[at][found++] = (uint8_t)program->index[g->index[i]].dim;
                m->axis[at] = (uint8_t)a;
            }
    m->n_dims[at] = (uint8_t)found;
    return found == g->n;
}

/* Fills the map of a tensor with plain subscripts, fastest dim first: two groups, then the batch. False if the tensor
 * has another layout. */
static bool make_map(md_kn_map *m, const access *x, const map_groups *g)
{
    const md_st_program *program = x->product->program;
    *m = (md_kn_map){
        .tensor = (uint8_t)x->tensor, .dtype = (uint8_t)program->formula->tensor[x->tensor].dtype, .box = {1, 1, 1}};
    if (!add_group(m, 0, x, &g->fastest) || !add_group(m, 1, x, &g->next))
        return false;
    if (!add_group(m, 2, x, &g->batch) && m->n_dims[2] > 0)
        return false;
    return m->n_dims[0] > 0 && m->axis[0] == x->rank - 1 && m->n_dims[0] + m->n_dims[1] + m->n_dims[2] == x->rank;
}

bool md_fa_cuda_map_operand(md_kn_map *m, const md_cg_product *p, int32_t operand)
{
    const md_st_product *product = &p->program->stage[p->stage].product;
    const md_fx_node *load = p->load[operand];
    int32_t n_rows, n_batch;
    const int32_t *rows = md_cg_product_group(&n_rows, p, operand), *batch = md_cg_product_batch(&n_batch, p, operand);
    bool is_k_first = md_cg_product_along(p, operand) == MD_CG_ALONG_DEPTH;
    if (!load)
        return false;
    const access x = {p, load->id, load->n_args, load->arg};
    const group along_k = {product->n_k, product->k}, along_rows = {n_rows, rows};
    return make_map(
        m, &x, &(map_groups){is_k_first ? along_k : along_rows, is_k_first ? along_rows : along_k, {n_batch, batch}});
}

/* True for whole numbers that every 16-bit type can hold: such operands are copied in the other operand's type. */
static bool is_converted(int32_t dtype)
{
    return dtype == MD_U8 || dtype == MD_I8 || dtype == MD_BOOL;
}

md_dtype md_fa_cuda_map_type(const md_cg_product *p)
{
    md_dtype dtype = MD_U8;
    for (int32_t o = 0; o <= p->n_products && is_converted(dtype); o++)
        dtype = md_cg_product_dtype(p, md_cg_product_memory(p, o));
    return dtype;
}

int32_t md_fa_cuda_map_item_bytes(const md_cg_product *p)
{
    return (int32_t)md_dtype_size(md_fa_cuda_map_type(p));
}

static bool map_operands(md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *p)
{
    for (int32_t o = 0; o <= p->n_products; o++)
        if (p->type != MD_F32 || !md_fa_cuda_map_operand(&map[o], p, o))
            return false;
    for (int32_t o = 0; o <= p->n_products; o++) {
        map[o].is_copy = is_converted(map[o].dtype);
        if (map[o].is_copy)
            map[o].dtype = (uint8_t)md_fa_cuda_map_type(p);
        if (map[o].dtype != md_fa_cuda_map_type(p))
            return false;
    }
    return p->n_products == 1 || (md_cg_product_along(p, MD_CG_B) == md_cg_product_along(p, MD_CG_B2) &&
                                  map[1].n_dims[2] == map[2].n_dims[2]);
}

typedef struct known_maps {
    bool has_maps;
    md_kn_map map[MD_FA_CUDA_MAPS];
} known_maps;

static void make_known_maps(void *out, const md_st_program *program, int32_t stage, const void *user)
{
    known_maps *known = out;
    (void)program, (void)stage;
    *known = (known_maps){.has_maps = false};
    known->has_maps = map_operands(known->map, user);
}

bool md_fa_cuda_map_operands(md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *p)
{
    known_maps known;
    md_st_know(&known, p->program, p->stage,
               &(md_st_fact){.which = MD_ST_KNOWN_MAPS, .n_bytes = sizeof known, .make = make_known_maps, .user = p});
    memcpy(map, known.map, (size_t)(p->n_products + 1) * sizeof *map);
    return known.has_maps;
}

bool md_fa_cuda_map_columns(md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *p)
{
    map[0] = (md_kn_map){0};
    for (int32_t o = MD_CG_B; o <= p->n_products; o++)
        if (!md_fa_cuda_map_operand(&map[o], p, o) || map[o].dtype != md_fa_cuda_map_type(p))
            return false;
    return p->n_products == 1 || (md_cg_product_along(p, MD_CG_B) == md_cg_product_along(p, MD_CG_B2) &&
                                  map[1].n_dims[2] == map[2].n_dims[2]);
}

bool md_fa_cuda_map_bytes(md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *p)
{
    for (int32_t o = 0; o <= p->n_products; o++) {
        if (md_cg_product_along(p, o) != MD_CG_ALONG_DEPTH || !md_fa_cuda_map_operand(&map[o], p, o))
            return false;
        const md_dtype dtype = (md_dtype)map[o].dtype;
        if (md_dtype_bits(dtype) != 8 || dtype == MD_BOOL ||
            md_dtype_is_real(dtype) != md_dtype_is_real((md_dtype)map[0].dtype))
            return false;
    }
    return p->n_products == 1 || map[1].n_dims[2] == map[2].n_dims[2];
}

bool md_fa_cuda_map_needs_copies(const md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *p)
{
    return map[0].is_copy || map[1].is_copy || (p->n_products == 2 && map[2].is_copy);
}

bool md_fa_cuda_map_result(md_kn_map *m, const md_cg_product *p)
{
    const md_st_store *store = &p->program->stage[p->stage].store[0];
    const access x = {p, store->tensor, store->n_subscripts, store->subscript};
    const md_st_product *product = md_cg_product_stage(p);
    return make_map(
        m, &x, &(map_groups){{p->n_columns, p->columns}, {p->n_rows, p->rows}, {product->n_batch, product->batch}});
}

void md_fa_cuda_map_needs(md_kn_envelope *out, const md_kn_map *m, bool is_aligned)
{
    uint32_t bit = UINT32_C(1) << m->tensor;
    out->unit |= bit;
    if (is_aligned)
        out->aligned16 |= bit;
    for (int32_t i = 0; i < MD_KN_MAP_RANK; i++)
        if (m->n_dims[i] > 1)
            out->contiguous |= bit;
}
