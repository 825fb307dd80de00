/* The text of a product around its operands: parameters, sizes, epilogue. */
#include "base/status.h"
#include "codegen/product/product.h"

#include <inttypes.h>
#include <stdio.h>

static bool has_pairs(const md_cg_product *p)
{
    return p->is_paired && p->dialect == MD_DEV_HOST;
}

/* Pairs of integers, whose sums over spans are wider than accumulators. */
static bool has_wide_sums(const md_cg_product *p)
{
    return has_pairs(p) && !md_cg_product_pairs_bf16(p);
}

/* The type of sums as the epilogue takes them. */
static const char *out_type(const md_cg_product *p)
{
    return has_wide_sums(p) ? "md_out" : "md_acc";
}

static void print_head(md_strbuf *out, const md_cg_product *p, const md_kn_param *param, int32_t n_params)
{
    const md_st_product *product = md_cg_product_stage(p);
    md_cg_print_params(out, param, n_params);
    const bool is_paired = has_pairs(p);
    md_strbuf_printf(out, "typedef %s md_acc;\ntypedef %s md_v;\n",
                     has_wide_sums(p) ? "int32_t" : md_cg_scalar_type(p->type),
                     is_paired ? "md_b" : md_cg_lane_type(p->type));
    if (has_wide_sums(p))
        md_strbuf_printf(out, "typedef %s md_out;\n", md_cg_scalar_type(p->type));
    md_strbuf_add(out, "typedef struct md_view {\n    int64_t base, row, step;\n} md_view;\n"
                       "enum { MD_LANES_NONE, MD_LANES_DEPTH, MD_LANES_ROWS };\n");
    if (p->dialect == MD_DEV_HOST)
        md_strbuf_add(out, "enum { MD_LANES_RUNS = MD_LANES_ROWS + 1 };\n");
    const struct {
        const char *name;
        int32_t n;
        const int32_t *index;
    } group[] = {{"batch", product->n_batch, product->batch},
                 {"rows", p->n_rows, p->rows},
                 {"columns", p->n_columns, p->columns},
                 {"depth", product->n_k, product->k}};
    for (int32_t i = 0; i < MD_COUNT(group); i++) {
        md_strbuf_printf(out, "MD_INLINE int64_t md_points_%s(const md_params *p)\n{\n    (void)p;\n    return ",
                         is_paired && group[i].index == product->k ? "values" : group[i].name);
        md_cg_print_points(out, p->program, group[i].n, group[i].index);
        md_strbuf_add(out, ";\n}\n");
    }
    if (is_paired)
        md_strbuf_add(out,
                      "MD_INLINE int64_t md_points_depth(const md_params *p)\n{\n    return (md_points_values(p) + "
                      "1) / 2;\n}\n");
}

/* Columns until the last index wraps. */
static void print_room(md_strbuf *out, const md_cg_product *p)
{
    char size[32];
    md_strbuf_add(out, "MD_INLINE int64_t md_epilogue_room(const md_params *p, int64_t column)\n{\n    (void)p;\n    "
                       "(void)column;\n    return ");
    if (p->n_columns == 1)
        md_strbuf_add(out, "INT64_MAX;\n}\n");
    else
        md_strbuf_printf(out, "%s - column %% %s;\n}\n", md_cg_size(size, p->program, p->columns[p->n_columns - 1]),
                         size);
}

/* Integers that are summed as such, where the stage takes them for reals, have two names: one of the real, and one of
 * what the stage makes of it first. */
static void bind_integers(md_cg *cg, md_strbuf *out, int32_t product)
{
    char name[16];
    const md_fx_node ref = {.kind = MD_FX_REF, .type = MD_F64, .id = product};
    const md_fx_node *sum = md_cg_keep(cg, &ref), *const arg[] = {sum};
    const md_fx_node cast = {.kind = MD_FX_CAST, .type = MD_I64, .to = MD_I64, .n_args = 1, .arg = arg};
    snprintf(name, sizeof name, "real%" PRId32, product);
    md_strbuf_printf(out, "const md_d %s = md_cast_i_d(acc%" PRId32 ");\n(void)%s;\n", name, product, name);
    md_cg_bind(cg, sum, name, false);
    md_cg_bind(cg, md_cg_keep(cg, &cast), product == 0 ? "acc0" : "acc1", false);
}

static void bind_sums(md_cg *cg, md_strbuf *out, const md_cg_product *p)
{
    for (int32_t i = 0; i < p->n_products; i++)
        if (p->type == MD_I64 && md_cg_product_stage(p)->type == MD_F64)
            bind_integers(cg, out, i);
        else
            md_cg_bind_ref(cg, i, p->type, i == 0 ? "acc0" : "acc1", false);
}

static md_status print_stores(md_strbuf *out, md_cg *cg, const md_cg_product *p)
{
    const md_st_stage *stage = &p->program->stage[p->stage];
    const char *value[MD_ST_MAX_STORES];
    bool is_uniform[MD_ST_MAX_STORES];
    md_cg_begin(cg, out);
    bind_sums(cg, out, p);
    for (int32_t i = 0; i < stage->n_stores; i++)
        if (!(value[i] = md_cg_value(cg, stage->store[i].value, &is_uniform[i])))
            return md_cg_status(cg);
    for (int32_t i = 0; i < stage->n_stores; i++)
        md_cg_store(cg, &stage->store[i], value[i], is_uniform[i]);
    return md_cg_status(cg);
}

/* On the host sums come from memory; a GPU has them in registers. */
static void print_epilogue_head(md_strbuf *out, const md_cg_product *p, md_cg_access access)
{
    const char *name = access == MD_CG_UNIT ? "unit" : "strided";
    if (p->dialect == MD_DEV_CUDA) {
        md_strbuf_printf(out,
                         "MD_N_DECL MD_INLINE void md_epilogue_%s(const md_params *p, int64_t batch, int64_t row, "
                         "int64_t column, md_v acc0, md_v acc1, md_n_t md_n)\n{\n(void)acc0;\n(void)acc1;\n",
                         name);
        return;
    }
    md_strbuf_printf(out,
                     "%s void md_epilogue_%s(const md_params *p, int64_t batch, int64_t row, int64_t column, const "
                     "%s *c0, const %s *c1, int md_n)\n{\n",
                     access == MD_CG_UNIT ? "MD_INLINE" : "MD_OUTLINE", name, out_type(p), out_type(p));
    for (int32_t i = 0; i < 2; i++)
        if (i < p->n_products)
            md_strbuf_printf(
                out, "const %s acc%" PRId32 " = md_load_%s_unit(c%" PRId32 ", 0, MD_VL);\n(void)acc%" PRId32 ";\n",
                has_pairs(p) ? md_cg_lane_type(p->type) : "md_v", i, md_dtype_name(p->type), i, i);
        else
            md_strbuf_printf(out, "(void)c%" PRId32 ";\n", i);
}

static void print_place(md_strbuf *out, const md_cg_product *p)
{
    const md_st_product *product = md_cg_product_stage(p);
    md_cg_print_decode(out, p->program, product->n_batch, product->batch, "batch");
    md_cg_print_decode(out, p->program, p->n_rows, p->rows, "row");
    md_cg_print_decode(out, p->program, p->n_columns, p->columns, "column");
}

static md_cg *printer_of(const md_cg_product *p, md_cg_access access)
{
    return md_cg_create(&(md_cg_options){.program = p->program,
                                         .stage = p->stage,
                                         .dialect = p->dialect,
                                         .lane = p->columns[p->n_columns - 1],
                                         .access = access});
}

static md_status print_epilogue(md_strbuf *defines, md_strbuf *out, const md_cg_product *p, md_cg_access access)
{
    md_cg *cg = printer_of(p, access);
    if (!cg)
        return md_fail_memory();
    print_epilogue_head(out, p, access);
    print_place(out, p);
    md_status status = print_stores(out, cg, p);
    md_strbuf_add(out, "}\n");
    md_cg_print_uses(cg, defines);
    md_cg_destroy(&cg);
    return status;
}

/* The epilogue twice: for outputs and residuals with unit stride, and for any other. */
static md_status print_epilogues(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    print_room(out, p);
    MD_TRY(print_epilogue(defines, out, p, MD_CG_UNIT));
    MD_TRY(print_epilogue(defines, out, p, MD_CG_STRIDED));
    bool is_gpu = p->dialect == MD_DEV_CUDA;
    md_strbuf_printf(
        out,
        "%sMD_INLINE void md_epilogue(const md_params *p, int64_t batch, int64_t row, int64_t column, %s)\n{\n    if (",
        is_gpu ? "MD_N_DECL " : "",
        is_gpu         ? "md_v c0, md_v c1, md_n_t n"
        : has_pairs(p) ? "const md_out *c0, const md_out *c1, int n"
                       : "const md_acc *c0, const md_acc *c1, int n");
    md_cg_product_print_unit_stores(out, p);
    md_strbuf_add(out, ")\n        md_epilogue_unit(p, batch, row, column, c0, c1, n);\n    else\n"
                       "        md_epilogue_strided(p, batch, row, column, c0, c1, n);\n}\n");
    return MD_OK;
}

bool md_cg_product_has_result(const md_cg_product *p)
{
    const md_st_stage *stage = &p->program->stage[p->stage];
    const md_st_store *store = &stage->store[0];
    if (stage->n_stores != 1 || stage->has_scatter || store->n_subscripts == 0 || store->assign != MD_FX_SET)
        return false;
    for (int32_t i = 0; i < store->n_subscripts; i++)
        if (store->subscript[i]->kind != MD_FX_INDEX)
            return false;
    md_dtype dtype = p->program->formula->tensor[store->tensor].dtype;
    return (dtype == MD_BF16 || dtype == MD_F16) && store->value->type == MD_F32 &&
           store->subscript[store->n_subscripts - 1]->id == p->columns[p->n_columns - 1];
}

static void print_result_address(md_strbuf *out, const md_cg_product *p)
{
    const md_st_store *store = &p->program->stage[p->stage].store[0];
    md_strbuf_add(
        out, "MD_INLINE uint16_t *md_result_at(const md_params *p, int64_t batch, int64_t row, int64_t column)\n{\n");
    print_place(out, p);
    md_strbuf_printf(out, "return (uint16_t *)p->t%" PRId32, store->tensor);
    for (int32_t a = 0; a < store->n_subscripts; a++)
        md_strbuf_printf(out, " + x%" PRId32 " * p->s%" PRId32 "_%" PRId32, store->subscript[a]->id, store->tensor, a);
    md_strbuf_add(out, ";\n}\n");
}

md_status md_cg_product_print_result(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    const md_st_store *store = &p->program->stage[p->stage].store[0];
    md_cg *cg = printer_of(p, MD_CG_UNIT);
    if (!cg)
        return md_fail_memory();
    md_strbuf_add(out, "MD_N_DECL MD_INLINE unsigned md_result(const md_params *p, int64_t batch, int64_t row, int64_t "
                       "column, md_v acc0, md_v acc1, md_n_t md_n)\n{\n(void)acc1;\n");
    print_place(out, p);
    md_cg_begin(cg, out);
    bind_sums(cg, out, p);
    const char *value = md_cg_lanes(cg, store->value);
    if (value)
        md_strbuf_printf(out, "return md_pack_%s(%s.v[0], %s.v[1]);\n}\n",
                         md_dtype_name(p->program->formula->tensor[store->tensor].dtype), value, value);
    print_result_address(out, p);
    md_status status = md_cg_status(cg);
    md_cg_print_uses(cg, defines);
    md_cg_destroy(&cg);
    return status;
}

md_status md_cg_product_print(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product,
                              const md_kn_param *param, int32_t n_params)
{
    static const char *const name[] = {[MD_F32] = "F32", [MD_F64] = "F64", [MD_I64] = "I64"};
    if ((unsigned)product->type >= (unsigned)MD_COUNT(name) || !name[product->type])
        return md_fail(MD_UNSUPPORTED, "products cannot be summed in %s", md_dtype_name(product->type));
    md_strbuf_printf(defines,
                     "#define MD_ACC_%s 1\n#define MD_PRODUCTS %" PRId32 "\n#define MD_WRAPS %d\n#define MD_USE_%s 1\n",
                     has_wide_sums(product) ? "PAIRS" : name[product->type], product->n_products,
                     product->n_columns > 1, name[product->type]);
    if (has_pairs(product))
        md_strbuf_add(defines, "#define MD_PAIRED 1\n");
    print_head(expr, product, param, n_params);
    MD_TRY(md_cg_product_print_operands(defines, expr, product));
    if (product->is_grouped)
        MD_TRY(md_cg_product_print_groups(defines, expr, product));
    if (product->has_spans)
        MD_TRY(md_cg_product_print_span(defines, expr, product));
    if (product->quantised)
        MD_TRY(md_cg_quantised_print(defines, expr, product));
    MD_TRY(print_epilogues(defines, expr, product));
    return expr->failed || defines->failed ? md_fail_memory() : MD_OK;
}
