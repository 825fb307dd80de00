/* How a PRODUCT stage becomes rows x columns, and the text around operands: parameters, sizes, epilogue. */
#include "base/dtype.h"
#include "base/status.h"
#include "codegen/product/product.h"

#include <inttypes.h>
#include <string.h>

static const md_st_product *product_of(const md_cg_product *p)
{
    return &p->program->stage[p->stage].product;
}

bool md_cg_product_holds(int32_t n, const int32_t *index, int32_t id)
{
    for (int32_t i = 0; i < n; i++)
        if (index[i] == id)
            return true;
    return false;
}

/* Whether the first store runs over the stage's m fastest. */
static bool stores_along_m(const md_st_stage *stage)
{
    const md_st_store *store = &stage->store[0];
    const md_fx_node *last = store->n_subscripts > 0 ? store->subscript[store->n_subscripts - 1] : NULL;
    return last && last->kind == MD_FX_INDEX && md_cg_product_holds(stage->product.n_m, stage->product.m, last->id);
}

bool md_cg_product_is_plain(const md_fx_node *node)
{
    for (int32_t i = 0; i < node->n_args; i++)
        if (node->arg[i]->kind != MD_FX_INDEX)
            return false;
    return node->kind == MD_FX_LOAD;
}

/* The LOAD that an operand is: a cast to the accumulators' type does what loading does anyway. */
static const md_fx_node *load_of(const md_fx_node *node, md_dtype type)
{
    if (node->kind == MD_FX_CAST && node->to == type)
        node = node->arg[0];
    return md_cg_product_is_plain(node) ? node : NULL;
}

/* Orders the products so that all share operand A. */
static bool set_operands(md_cg_product *out, const md_fx_formula *formula, const md_st_product *s)
{
    const md_fx_node *const *rows = out->is_swapped ? s->b : s->a, *const *columns = out->is_swapped ? s->a : s->b;
    if (s->n_products == 2 && !md_fx_equal(formula, rows[0], rows[1]))
        return false;
    out->operand[MD_CG_A] = rows[0];
    for (int32_t i = 0; i < s->n_products; i++)
        out->operand[MD_CG_B + i] = columns[i];
    for (int32_t i = 0; i <= s->n_products; i++)
        out->load[i] = load_of(out->operand[i], s->type);
    return true;
}

static bool orient(md_cg_product *out, const md_st_program *program, int32_t stage, bool is_swapped)
{
    const md_st_product *s = &program->stage[stage].product;
    *out = (md_cg_product){
        .program = program, .stage = stage, .is_swapped = is_swapped, .n_products = s->n_products, .type = s->type};
    out->n_rows = is_swapped ? s->n_n : s->n_m;
    out->rows = is_swapped ? s->n : s->m;
    out->n_columns = is_swapped ? s->n_m : s->n_n;
    out->columns = is_swapped ? s->m : s->n;
    return out->n_columns > 0 && set_operands(out, program->formula, s);
}

bool md_cg_product_of(md_cg_product *out, const md_st_program *program, int32_t stage, md_cg_columns columns)
{
    if (program->stage[stage].kind != MD_ST_PRODUCT)
        return false;
    bool is_swapped = columns == MD_CG_COLUMNS_M;
    if (columns != MD_CG_COLUMNS_STORED)
        return orient(out, program, stage, is_swapped);
    is_swapped = stores_along_m(&program->stage[stage]);
    return orient(out, program, stage, is_swapped) || orient(out, program, stage, !is_swapped);
}

const int32_t *md_cg_product_group(int32_t *n, const md_cg_product *product, int32_t operand)
{
    *n = operand == MD_CG_A ? product->n_rows : product->n_columns;
    return operand == MD_CG_A ? product->rows : product->columns;
}

/* ---- Text */
static void print_head(md_strbuf *out, const md_cg_product *p, const md_kn_param *param, int32_t n_params)
{
    const md_st_product *s = product_of(p);
    md_cg_print_params(out, param, n_params);
    md_strbuf_printf(out, "typedef %s md_acc;\ntypedef %s md_v;\n", md_cg_scalar_type(p->type),
                     md_cg_lane_type(p->type));
    md_strbuf_add(out, "typedef struct md_view {\n    int64_t base, row, step;\n} md_view;\n"
                       "enum { MD_LANES_NONE, MD_LANES_DEPTH, MD_LANES_ROWS };\n");
    const struct {
        const char *name;
        int32_t n;
        const int32_t *index;
    } group[] = {{"batch", s->n_batch, s->batch},
                 {"rows", p->n_rows, p->rows},
                 {"columns", p->n_columns, p->columns},
                 {"depth", s->n_k, s->k}};
    for (int32_t i = 0; i < MD_COUNT(group); i++) {
        md_strbuf_printf(out, "MD_INLINE int64_t md_points_%s(const md_params *p)\n{\n    (void)p;\n    return ",
                         group[i].name);
        md_cg_print_points(out, p->program, group[i].n, group[i].index);
        md_strbuf_add(out, ";\n}\n");
    }
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

static md_status print_stores(md_strbuf *out, md_cg *cg, const md_cg_product *p)
{
    const md_st_stage *stage = &p->program->stage[p->stage];
    const char *value[MD_ST_MAX_STORES];
    bool is_uniform[MD_ST_MAX_STORES];
    md_cg_begin(cg, out);
    for (int32_t i = 0; i < p->n_products; i++)
        md_cg_bind_ref(cg, i, p->type, i == 0 ? "acc0" : "acc1", false);
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
                     "md_acc *c0, const md_acc *c1, int md_n)\n{\n",
                     access == MD_CG_UNIT ? "MD_INLINE" : "MD_OUTLINE", name);
    for (int32_t i = 0; i < 2; i++)
        if (i < p->n_products)
            md_strbuf_printf(
                out, "const md_v acc%" PRId32 " = md_load_%s_unit(c%" PRId32 ", 0, MD_VL);\n(void)acc%" PRId32 ";\n", i,
                md_dtype_name(p->type), i, i);
        else
            md_strbuf_printf(out, "(void)c%" PRId32 ";\n", i);
}

static void print_place(md_strbuf *out, const md_cg_product *p)
{
    const md_st_product *s = product_of(p);
    md_cg_print_decode(out, p->program, s->n_batch, s->batch, "batch");
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

typedef struct unit_search {
    int32_t lane;
    uint32_t tensors;
    int32_t axis[MD_FX_MAX_TENSORS]; /* the last one */
} unit_search;

static void note_unit(unit_search *s, int32_t tensor, int32_t rank, const md_fx_node *last)
{
    if (rank > 0 && md_fx_uses_index(last, s->lane)) {
        s->tensors |= UINT32_C(1) << tensor;
        s->axis[tensor] = rank - 1;
    }
}

static bool visit_load(void *user, const md_fx_node *node)
{
    if (node->kind == MD_FX_LOAD)
        note_unit(user, node->id, node->n_args, node->n_args > 0 ? node->arg[node->n_args - 1] : NULL);
    return true;
}

/* `p->s3_1 == 1 && ...` of the tensors found; "1" for none. */
static void print_unit_test(md_strbuf *out, const unit_search *s)
{
    md_strbuf_add(out, "1");
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++)
        if (s->tensors >> t & 1)
            md_strbuf_printf(out, " && p->s%" PRId32 "_%" PRId32 " == 1", t, s->axis[t]);
}

static void find_units(unit_search *s, const md_fx_node *node, int32_t lane)
{
    *s = (unit_search){.lane = lane};
    md_fx_visit(node, visit_load, s);
}

uint32_t md_cg_product_unit(const md_cg_product *product, int32_t operand)
{
    int32_t lane = md_cg_product_lane(product, operand);
    unit_search s = {.lane = lane};
    if (lane >= 0)
        find_units(&s, product->operand[operand], lane);
    return s.tensors;
}

void md_cg_product_print_unit_test(md_strbuf *out, const md_fx_node *node, int32_t lane)
{
    unit_search s;
    find_units(&s, node, lane);
    print_unit_test(out, &s);
}

/* The epilogue twice: for outputs and residuals with unit stride, and for any other. */
static md_status print_epilogues(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    const md_st_stage *stage = &p->program->stage[p->stage];
    unit_search s = {.lane = p->columns[p->n_columns - 1]};
    for (int32_t i = 0; i < stage->n_stores; i++) {
        const md_st_store *store = &stage->store[i];
        md_fx_visit(store->value, visit_load, &s);
        if (store->n_subscripts > 0)
            note_unit(&s, store->tensor, store->n_subscripts, store->subscript[store->n_subscripts - 1]);
    }
    print_room(out, p);
    MD_TRY(print_epilogue(defines, out, p, MD_CG_UNIT));
    MD_TRY(print_epilogue(defines, out, p, MD_CG_STRIDED));
    bool is_gpu = p->dialect == MD_DEV_CUDA;
    md_strbuf_printf(
        out,
        "%sMD_INLINE void md_epilogue(const md_params *p, int64_t batch, int64_t row, int64_t column, %s)\n{\n    if (",
        is_gpu ? "MD_N_DECL " : "",
        is_gpu ? "md_v c0, md_v c1, md_n_t n" : "const md_acc *c0, const md_acc *c1, int n");
    print_unit_test(out, &s);
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
    for (int32_t i = 0; i < p->n_products; i++)
        md_cg_bind_ref(cg, i, p->type, i == 0 ? "acc0" : "acc1", false);
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
        return md_fail(MD_UNSUPPORTED, "no products accumulate in %s", md_dtype_name(product->type));
    md_strbuf_printf(defines,
                     "#define MD_ACC_%s 1\n#define MD_PRODUCTS %" PRId32 "\n#define MD_WRAPS %d\n#define MD_USE_%s 1\n",
                     name[product->type], product->n_products, product->n_columns > 1, name[product->type]);
    print_head(expr, product, param, n_params);
    MD_TRY(md_cg_product_print_operands(defines, expr, product));
    MD_TRY(print_epilogues(defines, expr, product));
    return expr->failed || defines->failed ? md_fail_memory() : MD_OK;
}
