/* The text of a product whose K has bounds by batch: which steps a batch sums. */
#include "base/status.h"
#include "codegen/product/product.h"

md_status md_cg_product_print_span(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    const md_st_product *product = md_cg_product_stage(p);
    md_cg *cg = md_cg_create(&(md_cg_options){
        .program = p->program, .stage = p->stage, .dialect = p->dialect, .lane = -1, .access = MD_CG_STRIDED});
    if (!cg)
        return md_fail_memory();
    md_strbuf_add(out, "MD_INLINE void md_span_of(const md_params *p, int64_t batch, int64_t *from, int64_t *to)\n{\n");
    md_cg_print_decode(out, p->program, product->n_batch, product->batch, "batch");
    md_strbuf_add(out, "    const int64_t depth = md_points_depth(p);\n    enum { md_n = 1 };\n    (void)md_n;\n");
    md_cg_begin(cg, out);
    const char *begin = product->begin ? md_cg_value(cg, product->begin, NULL) : "0",
               *end = product->end ? md_cg_value(cg, product->end, NULL) : "depth";
    md_strbuf_printf(out,
                     "    const int64_t begin = %s, end = %s;\n"
                     "    *from = begin < 0 ? 0 : begin < depth ? begin : depth;\n"
                     "    *to = end < *from ? *from : end < depth ? end : depth;\n}\n",
                     begin ? begin : "0", end ? end : "0");
    md_strbuf_add(defines, "#define MD_SPANS 1\n");
    md_status status = md_cg_status(cg);
    md_cg_print_uses(cg, defines);
    md_cg_destroy(&cg);
    return status;
}
