/* The text of a grouped product's groups: how many there are, and which of them a row belongs to. */
#include "base/status.h"
#include "codegen/product/product.h"

#include <inttypes.h>

typedef struct axis_printer {
    md_strbuf *out;
    const md_cg_product *product;
    bool is_first;
} axis_printer;

static void print_count(void *user, int32_t tensor, int32_t axis)
{
    axis_printer *a = user;
    if (!a->is_first) {
        md_strbuf_add(a->out, "    if (");
        md_cg_print_length(a->out, a->product->program, tensor, axis);
        md_strbuf_add(a->out, " < groups)\n    ");
    }
    md_strbuf_add(a->out, a->is_first ? "    int64_t groups = " : "    groups = ");
    md_cg_print_length(a->out, a->product->program, tensor, axis);
    md_strbuf_add(a->out, ";\n");
    a->is_first = false;
}

static void print_check(void *user, int32_t tensor, int32_t axis)
{
    axis_printer *a = user;
    md_strbuf_add(a->out, "    if (group < 0 || group >= ");
    md_cg_print_length(a->out, a->product->program, tensor, axis);
    md_strbuf_printf(a->out,
                     ") {\n        md_report(p->report, %" PRId32 ", %" PRId32 ", group);\n        return -1;\n    }\n",
                     tensor, axis);
}

static void print_range(md_strbuf *out, const md_cg_product *p)
{
    axis_printer check = {.out = out, .product = p};
    const md_bounds bounds = p->program->formula->bounds;
    if (bounds == MD_BOUNDS_REPORT)
        md_st_each_group_axis(md_cg_product_stage(p), print_check, &check);
    md_strbuf_add(out, "    const int64_t groups = md_points_groups(p);\n");
    md_strbuf_add(out, bounds == MD_BOUNDS_CLAMP
                           ? "    return group < 0 && groups > 0 ? 0 : group < groups ? group : groups - 1;\n}\n"
                           : "    return group < 0 || group >= groups ? -1 : group;\n}\n");
}

md_status md_cg_product_print_groups(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    axis_printer count = {.out = out, .product = p, .is_first = true};
    md_cg *cg = md_cg_create(&(md_cg_options){
        .program = p->program, .stage = p->stage, .dialect = p->dialect, .lane = -1, .access = MD_CG_STRIDED});
    if (!cg)
        return md_fail_memory();
    md_strbuf_add(out, "MD_INLINE int64_t md_points_groups(const md_params *p)\n{\n");
    md_st_each_group_axis(md_cg_product_stage(p), print_count, &count);
    md_strbuf_add(out, "    return groups;\n}\nMD_INLINE int64_t md_look_up(const md_params *p, int64_t row)\n{\n");
    md_cg_print_decode(out, p->program, p->n_rows, p->rows, "row");
    md_strbuf_add(out, "    enum { md_n = 1 };\n    (void)md_n;\n");
    md_cg_begin(cg, out);
    const char *value = md_cg_value(cg, md_cg_product_stage(p)->look_up, NULL);
    md_strbuf_printf(out,
                     "    return %s;\n}\nMD_INLINE int64_t md_group_at(const md_params *p, int64_t group)\n{\n    "
                     "(void)p;\n",
                     value ? value : "0");
    print_range(out, p);
    md_strbuf_add(out, "MD_INLINE int64_t md_group_of(const md_params *p, int64_t row)\n{\n    return md_group_at(p, "
                       "md_look_up(p, row));\n}\n");
    md_strbuf_printf(defines, "#define MD_GROUPED 1\n");
    md_status status = md_cg_status(cg);
    md_cg_print_uses(cg, defines);
    md_cg_destroy(&cg);
    return status;
}
