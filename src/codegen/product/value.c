/* An operand that is any expression: a function that makes its values, in lanes or one by one. */
#include "base/arena.h"
#include "base/status.h"
#include "codegen/product/product.h"

#include <inttypes.h>

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
        md_strbuf_printf(out, "const md_i weights = md_every_%s();\n",
                         md_dtype_name(md_cg_product_dtype(p, e->weight)));
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

md_status md_cg_product_print_value(md_strbuf *defines, md_strbuf *out, const md_cg_product *p, int32_t operand,
                                    int32_t lane, const md_fx_node *weight)
{
    expression e = {.operand = operand, .lane = lane, .weight = weight};
    md_arena *arena = md_arena_create();
    e.node = arena ? shared_by_lanes(arena, &e.position, p, operand, lane) : NULL;
    const md_status status = e.node ? print_function(defines, out, p, &e) : md_fail_memory();
    md_arena_destroy(&arena);
    return status;
}

/* ---- Lanes along a run: from row to row until an index begins anew */

static bool reads_along(void *index, const md_fx_node *node)
{
    return node->kind != MD_FX_LOAD || node->n_args == 0 ||
           !md_fx_uses_index(node->arg[node->n_args - 1], *(const int32_t *)index);
}

int32_t md_cg_product_run(const md_cg_product *p, int32_t operand)
{
    int32_t n_rows;
    const int32_t *rows = md_cg_product_group(&n_rows, p, operand);
    if (p->dialect != MD_DEV_HOST || p->is_grouped || p->is_paired || md_cg_product_memory(p, operand) || n_rows == 0 ||
        md_cg_product_lane(p, operand) >= 0)
        return -1;
    int32_t last = rows[n_rows - 1];
    return md_fx_visit(p->operand[operand], reads_along, &last) ? -1 : last;
}

void md_cg_product_print_runs(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    uint32_t mask = 0;
    char size[32];
    for (int32_t o = 0; o <= p->n_products; o++)
        mask |= md_cg_product_run(p, o) >= 0 ? UINT32_C(1) << o : 0;
    if (mask == 0)
        return;
    md_strbuf_printf(defines, "#define MD_RUNS %" PRIu32 "\n", mask);
    md_strbuf_add(out,
                  "MD_INLINE int64_t md_operand_room(const md_params *p, int which, int64_t row)\n{\n    (void)p;\n");
    for (int32_t o = 0; o <= p->n_products; o++)
        if (md_cg_product_run(p, o) >= 0)
            md_strbuf_printf(out, "    if (which == %" PRId32 ")\n        return %s - row %% %s;\n", o,
                             md_cg_size(size, p->program, md_cg_product_run(p, o)), size);
    md_strbuf_add(out, "    return row + 1 - row;\n}\n");
}
