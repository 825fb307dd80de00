/* The text of pairs. */
#include "codegen/chain/pairs.h"

#include "base/status.h"
#include "codegen/product/product.h"
#include "expr/node.h"

static const md_st_pairs *pairs_of(const md_cg_chain *c)
{
    return c->c->pairs;
}

/* A body in two forms: for loads and stores with unit stride along the lanes, and for any strides. */
typedef struct function {
    const char *name; /* md_pairs_<name> */
    int32_t number; /* follows the name; -1: none does */
    const char *result, *parameters, *arguments;
    int32_t lane;
    md_status (*print_body)(md_strbuf *out, md_cg *cg, const md_cg_chain *c, int32_t number);
    void (*print_test)(md_strbuf *out, const md_cg_chain *c, int32_t number);
} function;

static void print_name(md_strbuf *out, const function *f)
{
    md_strbuf_printf(out, "md_pairs_%s", f->name);
    if (f->number >= 0)
        md_strbuf_printf(out, "%d", (int)f->number);
}

/* On a GPU the number of lanes is a type of its own. */
static void print_head(md_strbuf *out, const md_cg_chain *c, const function *f, const char *suffix)
{
    const bool is_gpu = c->dialect == MD_DEV_CUDA;
    md_strbuf_printf(out, "%sMD_INLINE %s ", is_gpu ? "MD_N_DECL " : "", f->result);
    print_name(out, f);
    md_strbuf_printf(out, "%s(%s%s md_n)\n", suffix, f->parameters, is_gpu ? "md_n_t" : "int");
}

static md_status print_form(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, const function *f,
                            md_cg_access access)
{
    md_cg *cg = md_cg_chain_printer(c, f->lane, access);
    if (!cg)
        return md_fail_memory();
    print_head(out, c, f, access == MD_CG_UNIT ? "_unit" : "_strided");
    md_strbuf_add(out, c->dialect == MD_DEV_HOST ? "{\n(void)p, (void)md_n;\n" : "{\n(void)p;\n");
    const md_status status = f->print_body(out, cg, c, f->number);
    md_strbuf_add(out, "}\n");
    const md_status end = md_cg_chain_end(defines, &cg);
    return status != MD_OK ? status : end;
}

static md_status print_function(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, const function *f)
{
    MD_TRY(print_form(defines, out, c, f, MD_CG_UNIT));
    MD_TRY(print_form(defines, out, c, f, MD_CG_STRIDED));
    print_head(out, c, f, "");
    md_strbuf_add(out, "{\nif (1");
    f->print_test(out, c, f->number);
    for (int32_t i = 0; i < 2; i++) {
        md_strbuf_add(out, i == 0 ? ")\nreturn " : ";\nelse\nreturn ");
        print_name(out, f);
        md_strbuf_printf(out, "%s(%s)", i == 0 ? "_unit" : "_strided", f->arguments);
    }
    md_strbuf_add(out, ";\n}\n");
    return MD_OK;
}

void md_cg_pairs_print_place(md_strbuf *out, const md_cg_chain *c, bool is_of_keys)
{
    if (!is_of_keys) {
        md_strbuf_add(out, "(void)b, (void)r, (void)key;\n");
        md_cg_chain_print_row(out, c, "r");
        return;
    }
    md_strbuf_printf(out, "const int64_t x%d = key;\n(void)x%d, (void)b, (void)r;\n", (int)c->axis, (int)c->axis);
    md_cg_chain_print_batch(out, c, "b");
}

static void add_test(md_strbuf *out, const md_fx_node *node, int32_t lane)
{
    md_strbuf_add(out, " && ");
    md_cg_product_print_unit_test(out, node, lane);
}

/* ---- operands */

#define PLACE "const md_params *p, const md_chain_batch *b, const md_chain_row *r, int64_t key, int64_t inner, "

static md_status print_line(md_strbuf *out, md_cg *cg, const md_cg_chain *c, int32_t number)
{
    const md_st_pair_operand *o = &pairs_of(c)->operand[number];
    md_cg_pairs_print_place(out, c, o->is_of_keys);
    md_strbuf_printf(out, "const int64_t x%d = inner;\n(void)x%d;\n", (int)o->inner, (int)o->inner);
    md_cg_begin(cg, out);
    const char *value = md_cg_lanes(cg, o->value);
    if (value)
        md_strbuf_printf(out, "return %s;\n", value);
    return md_cg_status(cg);
}

static void test_line(md_strbuf *out, const md_cg_chain *c, int32_t number)
{
    const md_st_pair_operand *o = &pairs_of(c)->operand[number];
    add_test(out, o->value, o->inner);
}

static int32_t lane_of_line(const md_cg_chain *c, int32_t number)
{
    return pairs_of(c)->operand[number].inner;
}

/* ---- weights */

static md_status print_weights(md_strbuf *out, md_cg *cg, const md_cg_chain *c, int32_t number)
{
    const md_st_pairs *p = pairs_of(c);
    const char *value[MD_ST_MAX_PAIR_SUMS];
    (void)number;
    md_cg_chain_print_row(out, c, "r");
    md_strbuf_printf(out, "const int64_t x%d = key;\n(void)x%d, (void)x, (void)x2;\n", (int)c->axis, (int)c->axis);
    md_cg_begin(cg, out);
    md_cg_chain_bind_kept(cg, c);
    md_cg_bind_ref(cg, MD_ST_REF_X, MD_F32, "x", false);
    md_cg_bind_ref(cg, MD_ST_REF_X2, MD_F32, "x2", false);
    for (int32_t i = 0; i < p->n_sums; i++)
        if (!(value[i] = md_cg_lanes(cg, p->sum[i].weight)))
            return md_cg_status(cg);
    for (int32_t i = 0; i < p->n_sums; i++)
        md_strbuf_printf(out, "w[%d] = %s;\n", (int)i, value[i]);
    return md_cg_status(cg);
}

static void test_weights(md_strbuf *out, const md_cg_chain *c, int32_t number)
{
    (void)number;
    for (int32_t i = 0; i < pairs_of(c)->n_sums; i++)
        add_test(out, pairs_of(c)->sum[i].weight, c->axis);
}

/* ---- results */

static const md_st_store *store_of(const md_cg_chain *c, int32_t sum)
{
    return &c->program->stage[c->stage].store[sum];
}

static md_status print_result(md_strbuf *out, md_cg *cg, const md_cg_chain *c, int32_t number)
{
    const md_st_pair_sum *s = &pairs_of(c)->sum[number];
    bool is_uniform = false;
    md_cg_pairs_print_place(out, c, s->is_towards_keys);
    md_strbuf_printf(out, "const int64_t x%d = inner;\n(void)x%d, (void)o;\n", (int)s->column, (int)s->column);
    md_cg_begin(cg, out);
    md_cg_bind_ref(cg, MD_ST_REF_VALUE, MD_F32, "o", false);
    const char *value = md_cg_value(cg, store_of(c, number)->value, &is_uniform);
    if (value)
        md_cg_store(cg, store_of(c, number), value, is_uniform);
    return md_cg_status(cg);
}

static void test_result(md_strbuf *out, const md_cg_chain *c, int32_t number)
{
    const md_st_store *s = store_of(c, number);
    const int32_t column = pairs_of(c)->sum[number].column;
    add_test(out, s->value, column);
    if (s->n_subscripts > 0 && md_fx_is_index(s->subscript[s->n_subscripts - 1], column))
        md_strbuf_printf(out, " && p->s%d_%d == 1", (int)s->tensor, (int)s->n_subscripts - 1);
}

static int32_t lane_of_result(const md_cg_chain *c, int32_t number)
{
    return pairs_of(c)->sum[number].column;
}

/* The functions of all operands, or results. */
static md_status print_each(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, function f, int32_t n,
                            int32_t (*lane_of)(const md_cg_chain *c, int32_t number))
{
    for (f.number = 0; f.number < n; f.number++) {
        f.lane = lane_of(c, f.number);
        MD_TRY(print_function(defines, out, c, &f));
    }
    return MD_OK;
}

/* ---- choices by number */

void md_cg_pairs_print_choice(md_strbuf *out, const char *head, int32_t n, const char *text, const char *last)
{
    md_strbuf_printf(out, "MD_INLINE %s\n{\n", head);
    for (int32_t i = 0; i < n; i++) {
        md_strbuf_printf(out, "if (which == %d)\nreturn ", (int)i);
        md_strbuf_printf(out, text, (int)i);
        md_strbuf_add(out, ";\n");
    }
    md_strbuf_printf(out, "%s}\n", last);
}

static void print_numbers(md_strbuf *out, const md_cg_chain *c, const char *head, int32_t n, const int32_t *number)
{
    md_strbuf_printf(out, "MD_INLINE %s %s\n{\nreturn ", c->dialect == MD_DEV_CUDA ? "constexpr int" : "int", head);
    for (int32_t i = 0; i + 1 < n; i++)
        md_strbuf_printf(out, "which == %d ? %d : ", (int)i, (int)number[i]);
    md_strbuf_printf(out, "%d;\n}\n", (int)number[n - 1]);
}

static void print_sizes(md_strbuf *out, const char *head, const md_cg_chain *c, int32_t n, const int32_t *index)
{
    char size[32];
    md_strbuf_printf(out, "MD_INLINE int64_t %s\n{\n(void)p;\nreturn ", head);
    for (int32_t i = 0; i + 1 < n; i++)
        md_strbuf_printf(out, "which == %d ? %s : ", (int)i, md_cg_size(size, c->program, index[i]));
    md_strbuf_printf(out, "%s;\n}\n", md_cg_size(size, c->program, index[n - 1]));
}

void md_cg_pairs_print_numbers(md_strbuf *out, const md_cg_chain *c)
{
    const md_st_pairs *p = pairs_of(c);
    const char *type = c->dialect == MD_DEV_CUDA ? "constexpr int" : "int";
    int32_t number[2 * MD_ST_MAX_PAIR_OPERANDS] = {0};
    for (int32_t i = 0; i < p->n_operands; i++)
        number[i] = p->operand[i].is_of_keys;
    print_numbers(out, c, "md_pairs_of_keys(int which)", p->n_operands, number);
    for (int32_t i = 0; i < p->n_products; i++) {
        number[2 * i] = p->product[i].of_rows;
        number[2 * i + 1] = p->product[i].of_keys;
    }
    print_numbers(out, c, "md_pairs_side(int which)", 2 * p->n_products, number);
    md_strbuf_printf(out,
                     "MD_INLINE %s md_pairs_product(int number, int which)\n{\nreturn md_pairs_side(2 * number + "
                     "which);\n}\n",
                     type);
    for (int32_t i = 0; i < p->n_sums; i++)
        number[i] = p->sum[i].operand;
    print_numbers(out, c, "md_pairs_value(int which)", p->n_sums, number);
    for (int32_t i = 0; i < p->n_sums; i++)
        number[i] = p->sum[i].is_towards_keys;
    print_numbers(out, c, "md_pairs_towards_keys(int which)", p->n_sums, number);
}

static void print_lengths(md_strbuf *out, const md_cg_chain *c)
{
    const md_st_pairs *p = pairs_of(c);
    int32_t index[MD_ST_MAX_PAIR_OPERANDS];
    for (int32_t i = 0; i < p->n_operands; i++)
        index[i] = p->operand[i].inner;
    print_sizes(out, "md_pairs_inner(const md_params *p, int which)", c, p->n_operands, index);
    for (int32_t i = 0; i < p->n_sums; i++)
        index[i] = p->sum[i].column;
    print_sizes(out, "md_pairs_columns(const md_params *p, int which)", c, p->n_sums, index);
}

md_status md_cg_pairs_print_stores(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c)
{
    static const function store = {.name = "store",
                                   .result = "void",
                                   .parameters = PLACE "md_f o, ",
                                   .arguments = "p, b, r, key, inner, o, md_n",
                                   .print_body = print_result,
                                   .print_test = test_result};
    const bool is_gpu = c->dialect == MD_DEV_CUDA;
    MD_TRY(print_each(defines, out, c, store, pairs_of(c)->n_sums, lane_of_result));
    if (is_gpu)
        md_strbuf_add(out, "MD_N_DECL ");
    md_cg_pairs_print_choice(out,
                             is_gpu ? "void md_pairs_store(int which, " PLACE "md_f o, md_n_t md_n)"
                                    : "void md_pairs_store(int which, " PLACE "md_f o, int md_n)",
                             pairs_of(c)->n_sums, "md_pairs_store%d(p, b, r, key, inner, o, md_n)", "");
    return MD_OK;
}

void md_cg_pairs_print_head(md_strbuf *defines, md_strbuf *expr, const md_cg_chain *c, const md_kn_param *param,
                            int32_t n_params)
{
    const md_st_pairs *p = pairs_of(c);
    md_strbuf_printf(defines,
                     "#define MD_ACC_F32 1\n#define MD_USE_F32 1\n#define MD_PAIR_OPERANDS %d\n#define "
                     "MD_PAIR_PRODUCTS %d\n#define MD_PAIR_SUMS %d\n",
                     (int)p->n_operands, (int)p->n_products, (int)p->n_sums);
    md_cg_print_params(expr, param, n_params);
    md_strbuf_add(expr, "typedef float md_acc;\ntypedef md_f md_v;\n");
}

md_status md_cg_pairs_print(md_strbuf *defines, md_strbuf *expr, const md_cg_chain *c, const md_kn_param *param,
                            int32_t n_params)
{
    const md_st_pairs *p = pairs_of(c);
    static const function load = {.name = "load",
                                  .result = "md_f",
                                  .parameters = PLACE,
                                  .arguments = "p, b, r, key, inner, md_n",
                                  .print_body = print_line,
                                  .print_test = test_line};
    const function weigh = {.name = "weigh",
                            .number = -1,
                            .result = "void",
                            .parameters = "const md_params *p, const md_chain_row *r, int64_t key, md_f x, md_f x2, "
                                          "md_f *w, ",
                            .arguments = "p, r, key, x, x2, w, md_n",
                            .lane = c->axis,
                            .print_body = print_weights,
                            .print_test = test_weights};
    md_cg_pairs_print_head(defines, expr, c, param, n_params);
    MD_TRY(md_cg_chain_print_places(defines, expr, c));
    MD_TRY(md_cg_chain_print_span(defines, expr, c));
    MD_TRY(print_each(defines, expr, c, load, p->n_operands, lane_of_line));
    MD_TRY(print_function(defines, expr, c, &weigh));
    MD_TRY(md_cg_pairs_print_stores(defines, expr, c));
    md_cg_pairs_print_numbers(expr, c);
    print_lengths(expr, c);
    md_cg_pairs_print_choice(expr, "md_f md_pairs_load(int which, " PLACE "int md_n)", p->n_operands,
                             "md_pairs_load%d(p, b, r, key, inner, md_n)", "return (md_f){0};\n");
    return expr->failed || defines->failed ? md_fail_memory() : MD_OK;
}
