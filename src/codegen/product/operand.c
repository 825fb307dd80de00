/* The text of a product's operands: a strided matrix in memory where one is a plain load, else an expression, in lanes
 * or one by one. */
#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "codegen/product/product.h"

#include <inttypes.h>
#include <stdio.h>

static md_dtype dtype_of(const md_cg_product *p, const md_fx_node *load)
{
    return p->program->formula->tensor[load->id].dtype;
}

static int32_t n_operands(const md_cg_product *p)
{
    return 1 + p->n_products;
}

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
                     md_dtype_name(dtype_of(p, load)), how, load->id);
}

static void print_load(md_strbuf *out, const md_cg_product *p, int32_t operand, bool is_scalar)
{
    char text[64];
    const md_fx_node *load = md_cg_product_memory(p, operand);
    md_dtype dtype = dtype_of(p, load);
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
    const md_dtype dtype = dtype_of(p, memory);
    md_strbuf_printf(out, "        return (const %s *)p->t%" PRId32 " + offset%s;\n", md_dtype_c_type(dtype),
                     memory->id, p->dialect == MD_DEV_HOST && (dtype == MD_I4 || dtype == MD_U4) ? " / 2" : "");
}

/* ---- Any expression */
/* Rough cost of a node: texts with more than a few operations, or long ones, are not copied to every place that asks.
 */
typedef struct costs {
    int32_t lane, sum;
} costs;

static bool add_cost(void *user, const md_fx_node *node)
{
    costs *c = user;
    static const bool is_short[MD_FX_N_OPS] = {
        [MD_FX_NEG] = true, [MD_FX_ADD] = true, [MD_FX_SUB] = true, [MD_FX_MUL] = true,
        [MD_FX_LT] = true,  [MD_FX_LE] = true,  [MD_FX_GT] = true,  [MD_FX_GE] = true,
        [MD_FX_MIN] = true, [MD_FX_MAX] = true, [MD_FX_RELU] = true};
    if (!md_fx_uses_index(node, c->lane)) /* a scalar that lanes share */
        return true;
    switch (node->kind) {
    case MD_FX_OP:
        c->sum += is_short[node->op] ? 1 : 10;
        break;
    case MD_FX_LOAD:
    case MD_FX_CAST:
        c->sum += md_cg_product_is_plain(node) || node->kind == MD_FX_CAST ? 1 : 10;
        break;
    case MD_FX_REDUCE:
    case MD_FX_SCAN:
        c->sum += 10;
        break;
    default:
        break;
    }
    return true;
}

static bool is_cheap(const md_fx_node *node, int32_t lane)
{
    costs c = {.lane = lane};
    md_fx_visit(node, add_cost, &c);
    return c.sum <= 6;
}

/* Scales of groups of weights, s[n,k // 32]: vectors along K begin at multiples of their lanes, so all lanes are in one
 * group if its length is a multiple of the most lanes. An index of its own then stands for their position. */
enum { MOST_LANES = 16 };
typedef struct shared_position {
    md_arena *arena;
    int32_t lane;
    const md_fx_node *index;
} shared_position;

static const md_fx_node *share_quotient(void *user, const md_fx_node *node)
{
    const shared_position *s = user;
    const bool is_shared = node->kind == MD_FX_OP && node->op == MD_FX_FLOORDIV &&
                           md_fx_is_index(node->arg[0], s->lane) && node->arg[1]->kind == MD_FX_CONST &&
                           node->arg[1]->type == MD_I64 && node->arg[1]->integer > 0 &&
                           node->arg[1]->integer % MOST_LANES == 0;
    return is_shared ? md_fx_op2(s->arena, MD_FX_FLOORDIV, s->index, node->arg[1]) : node;
}

/* The operand's expression, and in *index what stands for the lanes' position, or -1. NULL: memory is short. */
static const md_fx_node *shared_by_lanes(md_arena *arena, int32_t *index, const md_cg_product *p, int32_t operand,
                                         int32_t lane)
{
    const bool is_host = p->dialect == MD_DEV_HOST && p->program->n_indices < MD_COUNT(p->program->index);
    shared_position s = {.arena = arena, .lane = lane};
    *index = -1;
    if (!is_host || lane < 0 || md_cg_product_along(p, operand) != MD_CG_ALONG_DEPTH)
        return p->operand[operand];
    *index = p->program->n_indices;
    s.index = md_fx_index_node(arena, *index);
    return s.index ? md_fx_rewrite(arena, p->operand[operand], share_quotient, &s) : NULL;
}

/* What is printed as a function of its own: md_lanes_<operand>, or md_at_<operand> for one value (lane -1). */
typedef struct expression {
    int32_t operand, lane;
    const md_fx_node *node;
    int32_t position; /* an index that has the lane's first value; -1: none */
    const md_fx_node *weight; /* of a table, md_table_<operand>; NULL: of values as they are */
} expression;

static md_status print_function(md_strbuf *defines, md_strbuf *out, const md_cg_product *p, const expression *e)
{
    const int32_t operand = e->operand, lane = e->lane;
    const md_fx_node *node = e->node;
    const md_st_product *product = md_cg_product_stage(p);
    int32_t n, n_batch;
    const int32_t *rows = md_cg_product_group(&n, p, operand), *batch = md_cg_product_batch(&n_batch, p, operand);
    md_cg *cg = md_cg_create(&(md_cg_options){
        .program = p->program, .stage = p->stage, .dialect = p->dialect, .lane = lane, .access = MD_CG_UNIT});
    if (!cg)
        return md_fail_memory();
    md_strbuf_printf(out,
                     "%s %s%" PRId32
                     "(const md_params *p, int64_t batch, int64_t row, int64_t k, int md_n)\n{\n    (void)md_n;\n",
                     p->dialect == MD_DEV_CUDA || (lane >= 0 && is_cheap(node, lane)) ? "MD_INLINE" : "MD_OUTLINE",
                     e->weight  ? "md_v md_table_"
                     : lane < 0 ? "md_acc md_at_"
                                : "md_v md_lanes_",
                     operand);
    md_cg_print_decode(out, p->program, n_batch, batch, "batch");
    md_cg_print_decode(out, p->program, n, rows, "row");
    md_cg_print_decode(out, p->program, product->n_k, product->k, "k");
    if (e->position >= 0)
        md_strbuf_printf(out, "const int64_t x%" PRId32 " = x%" PRId32 ";\n(void)x%" PRId32 ";\n", e->position, lane,
                         e->position);
    md_cg_begin(cg, out);
    if (e->weight) {
        md_strbuf_printf(out, "const md_i weights = md_every_%s();\n", md_dtype_name(dtype_of(p, e->weight)));
        md_cg_bind(cg, e->weight, "weights", false);
    }
    bool is_uniform = true;
    const char *name = lane < 0 ? md_cg_value(cg, node, &is_uniform) : md_cg_lanes(cg, node);
    if (name && (name = md_cg_convert(cg, name, node->type, p->type, lane < 0)))
        md_strbuf_printf(out, "    return %s;\n}\n", name);
    md_status status = md_cg_status(cg);
    md_cg_print_uses(cg, defines);
    md_cg_destroy(&cg);
    return status;
}

static md_status print_expression(md_strbuf *defines, md_strbuf *out, const md_cg_product *p, int32_t operand,
                                  int32_t lane, const md_fx_node *weight)
{
    expression e = {.operand = operand, .lane = lane, .weight = weight};
    md_arena *arena = md_arena_create();
    e.node = arena ? shared_by_lanes(arena, &e.position, p, operand, lane) : NULL;
    const md_status status = e.node ? print_function(defines, out, p, &e) : md_fail_memory();
    md_arena_destroy(&arena);
    return status;
}

/* ---- Functions of one weight of four bits and of what a block of K shares: a table of all that they can be */
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
    const md_dtype dtype = n->kind == MD_FX_LOAD ? dtype_of(h->product, n) : MD_F32;
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
    if (p->dialect != MD_DEV_HOST || p->type != MD_F32 || p->n_columns != 1 || h.lane < 0 ||
        md_cg_product_along(p, operand) != MD_CG_ALONG_DEPTH)
        return NULL;
    find_weight(&h, p->operand[operand]);
    return h.fails ? NULL : h.weight;
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

/* The functions of kernels/host/half_dots.h, where all operands B have such weights. */
static md_status print_halves(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    const md_fx_node *weight[MD_CG_MAX_OPERANDS] = {NULL};
    for (int32_t o = MD_CG_B; o < n_operands(p); o++)
        if (!(weight[o] = weight_of(p, o)))
            return MD_OK;
    for (int32_t o = MD_CG_B; o < n_operands(p); o++) {
        MD_TRY(print_expression(defines, out, p, o, md_cg_product_lane(p, o), weight[o]));
        MD_TRY(print_weight_offset(out, p, o, weight[o]));
    }
    const bool has_second = n_operands(p) > MD_CG_B2;
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
    for (int32_t o = 0; o < n_operands(product); o++) {
        if (needs_lanes(product, o))
            MD_TRY(print_expression(defines, expr, product, o, lane_of(product, o), NULL));
        if (needs_values(product, o))
            MD_TRY(print_expression(defines, expr, product, o, -1, NULL));
    }
    for (int32_t i = 0; i < MD_COUNT(part_text); i++) {
        if (product->dialect != MD_DEV_HOST && is_in_lanes((part)i))
            continue;
        if (i == PART_PAIRS && !product->is_paired)
            continue;
        md_strbuf_printf(expr, "MD_INLINE %s\n{\n    (void)%s;\n", part_text[i].head, part_text[i].unused);
        for (int32_t o = 0; o < n_operands(product); o++) {
            md_strbuf_printf(expr, "    if (which == %" PRId32 ") {\n", o);
            print_part(expr, product, o, (part)i);
            md_strbuf_add(expr, "    }\n");
        }
        md_strbuf_printf(expr, "    return %s;\n}\n", part_text[i].otherwise);
    }
    MD_TRY(print_halves(defines, expr, product));
    md_cg_product_print_runs(defines, expr, product);
    if (md_cg_product_has_windows(product))
        md_cg_product_print_windows(defines, expr, product);
    return md_cg_product_print_rows(defines, expr, product);
}
