/* Operands that are functions of one weight of four bits and of what a block of K shares: as tables of all values that
 * they can have (kernels/host/half_dots.h). */
#include "codegen/product/product.h"

#include <inttypes.h>

enum { HALVES_BLOCK = 128 }; /* MD_HALVES_BLOCK of kernels/host/half_dots.h */

typedef struct halves {
    const md_cg_product *product;
    int32_t lane;
    const md_fx_node *weight;
    bool fails;
} halves;

static bool is_shared_by_block(const halves *h, const md_fx_node *n)
{
    return n->kind == MD_FX_OP && n->op == MD_FX_FLOORDIV && md_fx_is_index(n->arg[0], h->lane) &&
           n->arg[1]->kind == MD_FX_CONST && n->arg[1]->type == MD_I64 && n->arg[1]->integer > 0 &&
           n->arg[1]->integer % HALVES_BLOCK == 0;
}

static bool is_weight(const halves *h, const md_fx_node *n)
{
    const md_dtype dtype = n->kind == MD_FX_LOAD ? md_cg_product_dtype(h->product, n) : MD_F32;
    bool is = (dtype == MD_I4 || dtype == MD_U4) && md_fx_is_index(n->arg[n->n_args - 1], h->lane);
    for (int32_t i = 0; is && i < n->n_args - 1; i++)
        is = n->arg[i]->kind == MD_FX_INDEX && n->arg[i]->id != h->lane;
    return is && (!h->weight || md_fx_equal(h->product->program->formula, h->weight, n));
}

static void find_weight(halves *h, const md_fx_node *n)
{
    if (h->fails || !md_fx_uses_index(n, h->lane) || is_shared_by_block(h, n))
        return;
    if (is_weight(h, n)) {
        h->weight = n;
        return;
    }
    h->fails = n->kind != MD_FX_OP && n->kind != MD_FX_CAST && n->kind != MD_FX_LOAD;
    for (int32_t i = 0; i < n->n_args; i++)
        find_weight(h, n->arg[i]);
}

/* The weight of an operand B along K; NULL: it is another. */
static const md_fx_node *weight_of(const md_cg_product *p, int32_t operand)
{
    halves h = {.product = p, .lane = md_cg_product_lane(p, operand)};
    if (p->dialect != MD_DEV_HOST || p->type != MD_F32 || p->is_paired || p->n_columns != 1 || h.lane < 0 ||
        md_cg_product_along(p, operand) != MD_CG_ALONG_DEPTH)
        return NULL;
    find_weight(&h, p->operand[operand]);
    return h.fails ? NULL : h.weight;
}

/* Where a weight lies in its tensor, in elements. */
static md_status print_weight_offset(md_strbuf *out, const md_cg_product *p, int32_t operand, const md_fx_node *weight)
{
    const md_st_product *product = md_cg_product_stage(p);
    int32_t n_batch;
    const int32_t *batch = md_cg_product_batch(&n_batch, p, operand);
    md_strbuf_printf(out,
                     "MD_INLINE int64_t md_weight_at_%" PRId32
                     "(const md_params *p, int64_t batch, int64_t row, int64_t "
                     "k)\n{\n",
                     operand);
    md_cg_print_decode(out, p->program, n_batch, batch, "batch");
    md_cg_print_decode(out, p->program, 1, p->columns, "row");
    md_cg_print_decode(out, p->program, product->n_k, product->k, "k");
    md_strbuf_add(out, "return 0");
    for (int32_t i = 0; i < weight->n_args; i++)
        md_strbuf_printf(out, " + x%" PRId32 " * p->s%" PRId32 "_%" PRId32, weight->arg[i]->id, weight->id, i);
    md_strbuf_add(out, ";\n}\n");
    return MD_OK;
}

md_status md_cg_product_print_halves(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    const md_fx_node *weight[MD_CG_MAX_OPERANDS] = {NULL};
    for (int32_t o = MD_CG_B; o < p->n_products + 1; o++)
        if (!(weight[o] = weight_of(p, o)))
            return MD_OK;
    for (int32_t o = MD_CG_B; o < p->n_products + 1; o++) {
        MD_TRY(md_cg_product_print_value(defines, out, p, o, md_cg_product_lane(p, o), weight[o]));
        MD_TRY(print_weight_offset(out, p, o, weight[o]));
    }
    const bool has_second = p->n_products + 1 > MD_CG_B2;
    md_strbuf_printf(
        out,
        "#define md_operand_table(p, which, batch, row, k) (which == 1 ? md_table_1(p, batch, row, k, MD_VL) "
        ": md_table_%d(p, batch, row, k, MD_VL))\n"
        "#define md_operand_weight(p, which, batch, row, k) (which == 1 ? md_weight_at_1(p, batch, row, k) : "
        "md_weight_at_%d(p, batch, row, k))\n"
        "#define md_operand_weights(p, which) ((const char *)(which == 1 ? p->t%" PRId32 " : p->t%" PRId32 "))\n",
        has_second ? 2 : 1, has_second ? 2 : 1, weight[MD_CG_B]->id, weight[has_second ? MD_CG_B2 : MD_CG_B]->id);
    md_strbuf_add(defines, "#define MD_HALVES_B 1\n");
    return MD_OK;
}
