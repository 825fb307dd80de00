/* Tensors of products as matrices: which dims of the formula make up rows, columns and batch of each. */
#include "family/cuda/product/gemm.h"

static bool add_group(md_kn_map *m, int32_t at, const md_st_program *program, const md_fx_node *const *subscript,
                      int32_t rank, int32_t n, const int32_t *index)
{
    int32_t found = 0, last = -1;
    if (n > MD_KN_MAP_DIMS)
        return false;
    m->n_dims[at] = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t a = 0; a < rank; a++)
            if (subscript[a]->kind == MD_FX_INDEX && subscript[a]->id == index[i]) {
                if (last >= 0 && a != last + 1)
                    return false;
                last = a;
                m->dim[at][found++] = (uint8_t)program->index[index[i]].dim;
                m->axis[at] = (uint8_t)a;
            }
    m->n_dims[at] = (uint8_t)found;
    return found == n;
}

/* The dims of a tensor with these plain subscripts, fastest first: two groups, and the batch. False where the tensor
 * does not lie so. */
static bool make_map(md_kn_map *m, const md_cg_product *p, int32_t tensor, const md_fx_node *const *subscript,
                     int32_t rank, const int32_t n[2], const int32_t *const index[2])
{
    const md_st_product *s = &p->program->stage[p->stage].product;
    *m = (md_kn_map){
        .tensor = (uint8_t)tensor, .dtype = (uint8_t)p->program->formula->tensor[tensor].dtype, .box = {1, 1, 1}};
    for (int32_t i = 0; i < 2; i++)
        if (!add_group(m, i, p->program, subscript, rank, n[i], index[i]))
            return false;
    bool has_batch = add_group(m, 2, p->program, subscript, rank, s->n_batch, s->batch);
    if (!has_batch && m->n_dims[2] > 0)
        return false;
    return m->n_dims[0] > 0 && m->axis[0] == rank - 1 && m->n_dims[0] + m->n_dims[1] + m->n_dims[2] == rank;
}

bool md_fa_cuda_map_operand(md_kn_map *m, const md_cg_product *p, int32_t operand)
{
    const md_st_product *s = &p->program->stage[p->stage].product;
    const md_fx_node *load = p->load[operand];
    int32_t n_rows;
    const int32_t *rows = md_cg_product_group(&n_rows, p, operand);
    bool is_k_first = md_cg_product_along(p, operand) == MD_CG_ALONG_DEPTH;
    if (!load)
        return false;
    const int32_t n[2] = {is_k_first ? s->n_k : n_rows, is_k_first ? n_rows : s->n_k};
    const int32_t *const index[2] = {is_k_first ? s->k : rows, is_k_first ? rows : s->k};
    return make_map(m, p, load->id, load->arg, load->n_args, n, index);
}

bool md_fa_cuda_map_result(md_kn_map *m, const md_cg_product *p)
{
    const md_st_store *store = &p->program->stage[p->stage].store[0];
    const int32_t n[2] = {p->n_columns, p->n_rows};
    const int32_t *const index[2] = {p->columns, p->rows};
    return make_map(m, p, store->tensor, store->subscript, store->n_subscripts, n, index);
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
