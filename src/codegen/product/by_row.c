/* The text of operands that are read row by row: loads whose rows lie anywhere, X[idx[t],k] or X[t//2,k], while a row
 * itself is a run of memory or has one stride. */
#include "base/status.h"
#include "codegen/product/product.h"

#include <inttypes.h>

/* How far an index moves a load: "(p->s0_1 + p->s0_2)", "0". */
void md_cg_product_print_step(md_strbuf *out, const md_fx_node *load, int32_t index)
{
    int32_t n = 0;
    md_strbuf_add(out, "(");
    for (int32_t axis = 0; axis < load->n_args; axis++)
        if (md_fx_is_index(load->arg[axis], index))
            md_strbuf_printf(out, "%sp->s%" PRId32 "_%" PRId32, n++ ? " + " : "", load->id, axis);
    md_strbuf_add(out, n ? ")" : "0)");
}

void md_cg_product_print_stride(md_strbuf *out, md_strbuf *condition, const md_cg_product *p,
                                const md_cg_stride *stride)
{
    const md_fx_node *load = stride->load;
    const int32_t n = stride->n, *index = stride->index;
    char size[32];
    md_strbuf_printf(out, "        %s = ", stride->variable);
    if (n == 0)
        md_strbuf_add(out, "0");
    else
        md_cg_product_print_step(out, load, index[n - 1]);
    md_strbuf_add(out, ";\n");
    for (int32_t i = 0; i + 1 < n; i++) {
        md_strbuf_printf(condition, " && (%s <= 1 || ", md_cg_size(size, p->program, index[i]));
        md_cg_product_print_step(condition, load, index[i]);
        md_strbuf_printf(condition, " == %s * ", md_cg_size(size, p->program, index[i + 1]));
        md_cg_product_print_step(condition, load, index[i + 1]);
        md_strbuf_add(condition, ")");
    }
}

/* Where a row begins: the load's place at the first step of K. */
static md_status print_row(md_strbuf *defines, md_strbuf *out, const md_cg_product *p, int32_t operand)
{
    const md_st_product *product = md_cg_product_stage(p);
    int32_t n, n_batch;
    const int32_t *rows = md_cg_product_group(&n, p, operand), *batch = md_cg_product_batch(&n_batch, p, operand);
    const char *condition = NULL;
    md_cg *cg = md_cg_create(&(md_cg_options){
        .program = p->program, .stage = p->stage, .dialect = p->dialect, .lane = -1, .access = MD_CG_STRIDED});
    if (!cg)
        return md_fail_memory();
    md_strbuf_printf(out, "    if (which == %" PRId32 ") {\n", operand);
    md_cg_print_decode(out, p->program, n_batch, batch, "batch");
    md_cg_print_decode(out, p->program, n, rows, "row");
    for (int32_t i = 0; i < product->n_k; i++)
        md_strbuf_printf(out, "const int64_t x%" PRId32 " = 0;\n(void)x%" PRId32 ";\n", product->k[i], product->k[i]);
    md_cg_begin(cg, out);
    const char *offset = md_cg_offset(cg, p->row_load[operand], &condition);
    md_strbuf_printf(out, "        *at = %s;\n        return %s;\n    }\n", offset ? offset : "0",
                     condition ? condition : "1");
    md_status status = md_cg_status(cg);
    md_cg_print_uses(cg, defines);
    md_cg_destroy(&cg);
    return status;
}

static void print_step(md_strbuf *out, const md_cg_product *p, int32_t operand)
{
    const md_st_product *product = md_cg_product_stage(p);
    md_strbuf condition = {0};
    md_strbuf_printf(out, "    if (which == %" PRId32 ") {\n", operand);
    md_cg_product_print_stride(out, &condition, p,
                               &(md_cg_stride){"*step", p->row_load[operand], product->n_k, product->k});
    md_strbuf_printf(out, "        return 1%s;\n    }\n", md_strbuf_text(&condition));
    out->failed |= condition.failed;
    md_strbuf_finish(&condition);
}

md_status md_cg_product_print_rows(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    uint32_t mask = 0;
    for (int32_t o = 0; o <= p->n_products; o++)
        mask |= p->row_load[o] ? UINT32_C(1) << o : 0;
    if (mask == 0)
        return MD_OK;
    md_strbuf_printf(defines, "#define MD_BY_ROW %" PRIu32 "\n", mask);
    md_strbuf_add(out,
                  "MD_INLINE int md_operand_row(const md_params *p, int which, int64_t batch, int64_t row, int64_t "
                  "*at)\n{\n    enum { md_n = 1 };\n    (void)p, (void)batch, (void)row, (void)md_n;\n");
    for (int32_t o = 0; o <= p->n_products; o++)
        if (p->row_load[o])
            MD_TRY(print_row(defines, out, p, o));
    md_strbuf_add(out,
                  "    *at = 0;\n    return 0;\n}\nMD_INLINE int md_operand_row_step(const md_params *p, int which, "
                  "int64_t *step)\n{\n    (void)p;\n");
    for (int32_t o = 0; o <= p->n_products; o++)
        if (p->row_load[o])
            print_step(out, p, o);
    md_strbuf_add(out, "    *step = 0;\n    return 0;\n}\n");
    return MD_OK;
}
