/* The text of a product's operands: a strided matrix in memory where one is a plain load, else an expression, in lanes
 * or one by one. */
#include "base/dtype.h"
#include "base/status.h"
#include "codegen/product/product.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Plain loads */
/* What shares of batch indices add to the place of a matrix. */
static void print_shares(md_strbuf *out, const md_cg_product *p, const md_fx_node *load)
{
    for (int32_t axis = 0; axis < load->n_args; axis++) {
        const md_fx_node *n = load->arg[axis];
        if (md_cg_product_is_share(p, n))
            md_strbuf_printf(out, " + x%" PRId32 " %c %" PRId64 " * p->s%" PRId32 "_%" PRId32, n->arg[0]->id,
                             n->op == MD_FX_MOD ? '%' : '/', n->arg[1]->integer, load->id, axis);
    }
}

static void print_view(md_strbuf *out, const md_cg_product *p, int32_t operand)
{
    const md_fx_node *load = p->load[operand];
    const md_st_product *product = md_cg_product_stage(p);
    md_strbuf condition = {0};
    int32_t n, n_batch;
    const int32_t *rows = md_cg_product_group(&n, p, operand), *batch = md_cg_product_batch(&n_batch, p, operand);
    md_cg_print_decode(out, p->program, n_batch, batch, "batch");
    md_strbuf_add(out, "        v->base = 0");
    for (int32_t i = 0; i < n_batch; i++) {
        md_strbuf_printf(out, " + x%" PRId32 " * ", batch[i]);
        md_cg_product_print_step(out, load, batch[i]);
    }
    print_shares(out, p, load);
    md_strbuf_add(out, ";\n");
    md_cg_product_print_stride(out, &condition, p, &(md_cg_stride){"v->row", load, n, rows});
    md_cg_product_print_stride(out, &condition, p, &(md_cg_stride){"v->step", load, product->n_k, product->k});
    md_strbuf_printf(out, "        return 1%s;\n", md_strbuf_text(&condition));
    out->failed |= condition.failed;
    md_strbuf_finish(&condition);
}

/* A text of suffix `from` as accumulator. */
static void print_converted(md_strbuf *out, const char *text, md_dtype from, md_dtype to, bool is_scalar)
{
    if (from == to)
        md_strbuf_printf(out, "        return %s;\n", text);
    else
        md_strbuf_printf(out, "        return md_cast_%s_%s(%s);\n", md_cg_suffix(from, is_scalar),
                         md_cg_suffix(to, is_scalar), text);
}

/* Two steps of K in a lane, or one. */
static void print_paired_load(md_strbuf *out, const md_cg_product *p, int32_t operand, const char *how)
{
    const md_fx_node *load = md_cg_product_memory(p, operand);
    md_strbuf_printf(out, "        return md_load_%s_%s(p->t%" PRId32 ", offset, n);\n",
                     md_dtype_name(md_cg_product_dtype(p, load)), how, load->id);
}

static void print_load(md_strbuf *out, const md_cg_product *p, int32_t operand, bool is_scalar)
{
    char text[64];
    const md_fx_node *load = md_cg_product_memory(p, operand);
    md_dtype dtype = md_cg_product_dtype(p, load);
    if (p->is_paired && p->dialect == MD_DEV_HOST && !is_scalar) {
        print_paired_load(out, p, operand, "words");
        return;
    }
    snprintf(text, sizeof text,
             is_scalar ? "md_load_%s_s(p->t%" PRId32 ", offset)" : "md_load_%s_unit(p->t%" PRId32 ", offset, n)",
             md_dtype_name(dtype), load->id);
    print_converted(out, text, md_dtype_compute(dtype), p->type, is_scalar);
}

/* Where an element is: two of 4 bits share a byte. */
static void print_address(md_strbuf *out, const md_cg_product *p, const md_fx_node *memory)
{
    const md_dtype dtype = md_cg_product_dtype(p, memory);
    md_strbuf_printf(out, "        return (const %s *)p->t%" PRId32 " + offset%s;\n", md_dtype_c_type(dtype),
                     memory->id, p->dialect == MD_DEV_HOST && (dtype == MD_I4 || dtype == MD_U4) ? " / 2" : "");
}

static int32_t lane_of(const md_cg_product *p, int32_t operand)
{
    const int32_t run = md_cg_product_run(p, operand);
    return run >= 0 ? run : md_cg_product_lane(p, operand);
}

/* True if templates take the operand's values from its expression in lanes. A GPU takes them one by one. */
static bool needs_lanes(const md_cg_product *p, int32_t operand)
{
    return p->dialect == MD_DEV_HOST && !md_cg_product_memory(p, operand) && lane_of(p, operand) >= 0;
}

static bool needs_values(const md_cg_product *p, int32_t operand)
{
    int32_t n_rows;
    md_cg_product_group(&n_rows, p, operand);
    /* A matrix that has one index a side is always read as one. Rows of a group lie apart. */
    return !p->load[operand] || n_rows > 1 || md_cg_product_stage(p)->n_k > 1 ||
           (p->is_grouped && operand == MD_CG_A && p->dialect == MD_DEV_CUDA);
}

static void print_axis(md_strbuf *out, const md_cg_product *p, int32_t operand)
{
    const int32_t lane = p->row_load[operand] ? -1 : lane_of(p, operand);
    if (lane < 0) {
        md_strbuf_add(out, "        return MD_LANES_NONE;\n");
        return;
    }
    md_strbuf_add(out, "        return ");
    md_cg_product_print_unit_test(out, p->operand[operand], lane);
    md_strbuf_printf(out, " ? %s : MD_LANES_NONE;\n",
                     md_cg_product_run(p, operand) >= 0                     ? "MD_LANES_RUNS"
                     : md_cg_product_along(p, operand) == MD_CG_ALONG_DEPTH ? "MD_LANES_DEPTH"
                                                                            : "MD_LANES_ROWS");
}

/* ---- The functions, each with a branch per operand; `which` is constant where they are called. */
typedef enum part {
    PART_VIEW,
    PART_LOAD,
    PART_PAIRS,
    PART_GET,
    PART_ADDRESS,
    PART_PLAIN,
    PART_AXIS,
    PART_LANES,
    PART_AT
} part;

static bool is_in_lanes(part what)
{
    return what == PART_LOAD || what == PART_PAIRS || what == PART_AXIS || what == PART_LANES;
}

static void print_part(md_strbuf *out, const md_cg_product *p, int32_t operand, part what)
{
    const md_fx_node *memory = md_cg_product_memory(p, operand);
    bool is_plain = p->load[operand] != NULL;
    switch (what) {
    case PART_VIEW:
        if (is_plain)
            print_view(out, p, operand);
        break;
    case PART_LOAD:
    case PART_GET:
        if (memory)
            print_load(out, p, operand, what == PART_GET);
        break;
    case PART_PAIRS:
        print_paired_load(out, p, operand, "pairs");
        break;
    case PART_ADDRESS:
        if (memory)
            print_address(out, p, memory);
        break;
    case PART_PLAIN:
        md_strbuf_printf(out, "        return %d;\n", is_plain);
        break;
    case PART_AXIS:
        if (!is_plain)
            print_axis(out, p, operand);
        break;
    case PART_LANES:
        if (needs_lanes(p, operand))
            md_strbuf_printf(out, "        return md_lanes_%" PRId32 "(p, batch, row, k, md_n);\n", operand);
        break;
    case PART_AT:
        if (needs_values(p, operand))
            md_strbuf_printf(out, "        return md_at_%" PRId32 "(p, batch, row, k, 1);\n", operand);
        break;
    }
}

md_status md_cg_product_print_operands(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product)
{
    static const struct {
        const char *head, *unused, *otherwise;
    } part_text[] = {
        [PART_VIEW] = {"int md_operand_view(const md_params *p, int which, int64_t batch, md_view *v)",
                       "p, (void)batch, (void)v", "0"},
        [PART_LOAD] = {"md_v md_operand_load(const md_params *p, int which, int64_t offset, int n)",
                       "p, (void)offset, (void)n", "(md_v){0}"},
        [PART_PAIRS] = {"md_v md_operand_pairs(const md_params *p, int which, int64_t offset, int n)",
                        "p, (void)offset, (void)n", "(md_v){0}"},
        [PART_GET] = {"md_acc md_operand_get(const md_params *p, int which, int64_t offset)", "p, (void)offset", "0"},
        [PART_ADDRESS] = {"const void *md_operand_address(const md_params *p, int which, int64_t offset)",
                          "p, (void)offset", "p"},
        [PART_PLAIN] = {"int md_operand_is_plain(int which)", "which", "0"},
        [PART_AXIS] = {"int md_operand_axis(const md_params *p, int which)", "p", "MD_LANES_NONE"},
        [PART_LANES] =
            {"md_v md_operand_lanes(const md_params *p, int which, int64_t batch, int64_t row, int64_t k, int md_n)",
             "p, (void)batch, (void)row, (void)k, (void)md_n", "(md_v){0}"},
        [PART_AT] = {"md_acc md_operand_at(const md_params *p, int which, int64_t batch, int64_t row, int64_t k)",
                     "p, (void)batch, (void)row, (void)k", "0"},
    };
    for (int32_t o = 0; o <= product->n_products; o++) {
        if (needs_lanes(product, o))
            MD_TRY(md_cg_product_print_value(defines, expr, product, o, lane_of(product, o), NULL));
        if (needs_values(product, o))
            MD_TRY(md_cg_product_print_value(defines, expr, product, o, -1, NULL));
    }
    for (int32_t i = 0; i < MD_COUNT(part_text); i++) {
        if (product->dialect != MD_DEV_HOST && is_in_lanes((part)i))
            continue;
        if (i == PART_PAIRS && !product->is_paired)
            continue;
        md_strbuf_printf(expr, "MD_INLINE %s\n{\n    (void)%s;\n", part_text[i].head, part_text[i].unused);
        for (int32_t o = 0; o <= product->n_products; o++) {
            md_strbuf_printf(expr, "    if (which == %" PRId32 ") {\n", o);
            print_part(expr, product, o, (part)i);
            md_strbuf_add(expr, "    }\n");
        }
        md_strbuf_printf(expr, "    return %s;\n}\n", part_text[i].otherwise);
    }
    MD_TRY(md_cg_product_print_halves(defines, expr, product));
    md_cg_product_print_runs(defines, expr, product);
    if (product->dialect == MD_DEV_HOST)
        md_cg_product_print_windows(defines, expr, product);
    else if (product->gathers_windows)
        md_cg_product_print_window(defines, expr, product);
    return md_cg_product_print_rows(defines, expr, product);
}
