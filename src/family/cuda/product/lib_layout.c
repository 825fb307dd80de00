/* What of a stage cuBLASLt can compute. Its own epilogues are used for a bias along the columns, relu, and gelu by tanh
 * in bf16 (in other types its tails are 5 to 100 times less accurate than ours). Others are a launch of their own. */
#include "family/cuda/product/lib_layout.h"

#include "device/blas/blas.h"

#include <string.h>

static bool is_real(int32_t dtype)
{
    return dtype == MD_F32 || dtype == MD_F64 || dtype == MD_BF16 || dtype == MD_F16;
}

/* True for a vector along the columns, of the results' type. */
static bool is_bias(const md_fa_cuda_lib_layout *plan, const md_fx_node *node)
{
    const md_cg_product *p = &plan->p;
    return node->kind == MD_FX_LOAD && node->n_args == 1 && node->arg[0]->kind == MD_FX_INDEX && p->n_columns == 1 &&
           node->arg[0]->id == p->columns[0] &&
           p->program->formula->tensor[node->id].dtype == (md_dtype)plan->map[3].dtype;
}

/* True if the library has an epilogue that computes the value from the sums. */
static bool find_epilogue(md_fa_cuda_lib_layout *out, const md_fx_node *value)
{
    const bool has_types = out->map[3].dtype == out->map[0].dtype && out->map[0].dtype != MD_F64;
    if (value->kind == MD_FX_OP && has_types &&
        (value->op == MD_FX_RELU || (value->op == MD_FX_GELU_TANH && out->map[3].dtype == MD_BF16))) {
        out->epilogue |= value->op == MD_FX_RELU ? MD_DEV_CUDA_GEMM_RELU : MD_DEV_CUDA_GEMM_GELU;
        value = value->arg[0];
    }
    if (value->kind == MD_FX_OP && value->op == MD_FX_ADD && has_types) {
        const int32_t sums = value->arg[0]->kind == MD_FX_REF ? 0 : 1;
        if (!is_bias(out, value->arg[1 - sums]))
            return false;
        out->epilogue |= MD_DEV_CUDA_GEMM_BIAS;
        out->bias = value->arg[1 - sums]->id;
        value = value->arg[sums];
    }
    return value->kind == MD_FX_REF;
}

static bool is_direct(md_fa_cuda_lib_layout *out)
{
    const md_st_stage *stage = &out->p.program->stage[out->p.stage];
    const md_st_store *s = &stage->store[0];
    if (stage->n_stores != 1 || stage->has_scatter || s->assign != MD_FX_SET || out->p.n_products != 1 ||
        !md_fa_cuda_map_result(&out->map[3], &out->p))
        return false;
    return (out->map[3].dtype == out->map[0].dtype || (out->map[3].dtype == MD_F32 && out->map[0].dtype != MD_F64)) &&
           find_epilogue(out, s->value);
}

static bool make_layout(md_fa_cuda_lib_layout *out, const md_st_program *program, int32_t stage)
{
    if (!md_cg_product_of(&out->p, program, stage, MD_CG_COLUMNS_STORED) ||
        (out->p.type != MD_F32 && out->p.type != MD_F64))
        return false;
    out->p.dialect = MD_DEV_CUDA;
    for (int32_t o = 0; o <= out->p.n_products; o++)
        if (!md_fa_cuda_map_operand(&out->map[o], &out->p, o) || !is_real(out->map[o].dtype) ||
            out->map[o].dtype != out->map[0].dtype)
            return false;
    if ((out->map[0].dtype == MD_F64) != (out->p.type == MD_F64))
        return false;
    out->is_direct = is_direct(out);
    return true;
}

static void make_known(void *out, const md_st_program *program, int32_t stage, const void *user)
{
    md_fa_cuda_lib_layout *layout = out;
    (void)user;
    memset(layout, 0, sizeof *layout);
    layout->takes = make_layout(layout, program, stage);
}

const md_fa_cuda_lib_layout *md_fa_cuda_lib_layout_of(md_fa_cuda_lib_layout *room, const md_st_program *program,
                                                      int32_t stage)
{
    const md_fa_cuda_lib_layout *layout = md_st_look(
        room, program, stage, &(md_st_fact){.which = MD_ST_KNOWN_LIBRARY, .n_bytes = sizeof *room, .make = make_known});
    return layout->takes ? layout : NULL;
}
