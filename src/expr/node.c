/* Making nodes: copies, constants, operators with their types. */
#include "expr/node.h"

md_fx_node *md_fx_node_new(md_arena *arena, md_fx_kind kind, md_dtype type)
{
    md_fx_node *n = md_arena_alloc(arena, sizeof *n);
    if (n) {
        n->kind = kind;
        n->type = type;
    }
    return n;
}

const md_fx_node *md_fx_real(md_arena *arena, double value, md_dtype type)
{
    md_fx_node *n = md_fx_node_new(arena, MD_FX_CONST, type);
    if (n)
        n->num = value;
    return n;
}

const md_fx_node *md_fx_integer(md_arena *arena, int64_t value)
{
    md_fx_node *n = md_fx_node_new(arena, MD_FX_CONST, MD_I64);
    if (n)
        n->integer = value;
    return n;
}

const md_fx_node *md_fx_index_node(md_arena *arena, int32_t index)
{
    md_fx_node *n = md_fx_node_new(arena, MD_FX_INDEX, MD_I64);
    if (n)
        n->id = index;
    return n;
}

const md_fx_node *md_fx_size_node(md_arena *arena, int32_t dim)
{
    md_fx_node *n = md_fx_node_new(arena, MD_FX_SIZE, MD_I64);
    if (n)
        n->id = dim;
    return n;
}

/* A node with one operand, at its place in the text. */
static md_fx_node *over(md_arena *arena, const md_fx_node *operand, md_fx_kind kind, md_dtype type)
{
    md_fx_node *n = operand ? md_fx_node_new(arena, kind, type) : NULL;
    const md_fx_node **arg = n ? md_arena_alloc(arena, sizeof *arg) : NULL;
    if (!arg)
        return NULL;
    arg[0] = operand;
    n->n_args = 1;
    n->arg = arg;
    n->line = operand->line;
    n->column = operand->column;
    return n;
}

const md_fx_node *md_fx_check_node(md_arena *arena, const md_fx_node *subscript)
{
    return over(arena, subscript, MD_FX_CHECK, MD_I64);
}

const md_fx_node *md_fx_length_node(md_arena *arena, const md_fx_node *load, int32_t dim)
{
    md_fx_node *n = over(arena, load, MD_FX_LENGTH, MD_I64);
    if (n)
        n->id = dim;
    return n;
}

const md_fx_node *md_fx_cast(md_arena *arena, const md_fx_node *node, md_dtype to)
{
    md_fx_node *n = over(arena, node, MD_FX_CAST, md_dtype_compute(to));
    if (n)
        n->to = to;
    return n;
}

const md_fx_node *md_fx_ref(md_arena *arena, int32_t id, md_dtype type)
{
    md_fx_node *n = md_fx_node_new(arena, MD_FX_REF, type);
    if (n)
        n->id = id;
    return n;
}

md_dtype md_fx_common_type(md_dtype a, md_dtype b)
{
    if (a == MD_F64 || b == MD_F64)
        return MD_F64;
    if (md_dtype_is_real(a) || md_dtype_is_real(b))
        return MD_F32;
    return a == MD_BOOL && b == MD_BOOL ? MD_BOOL : MD_I64;
}

md_dtype md_fx_op_type(md_fx_op op, md_dtype common)
{
    switch (md_fx_op_info(op)->rule) {
    case MD_FX_RULE_NUMBER:
        return common == MD_BOOL ? MD_I64 : common;
    case MD_FX_RULE_INTEGER:
        return common == MD_BOOL && (op == MD_FX_SHL || op == MD_FX_SHR || op == MD_FX_PHILOX) ? MD_I64 : common;
    case MD_FX_RULE_SAME:
    case MD_FX_RULE_SELECT:
        return common;
    case MD_FX_RULE_REAL:
        return common == MD_F64 ? MD_F64 : MD_F32;
    case MD_FX_RULE_TEST:
    case MD_FX_RULE_LOGIC:
        return MD_BOOL;
    case MD_FX_RULE_INDEX:
        break;
    }
    return MD_I64;
}

/* The type that an operation's operands are computed in: its own type, except for comparisons, and for the condition of
 * a where, which has no part in it. */
static md_dtype common_of(md_fx_op op, int n, const md_fx_node *const *arg)
{
    md_dtype strong = MD_DTYPE_DEFAULT, weak = MD_DTYPE_DEFAULT;
    for (int i = op == MD_FX_WHERE ? 1 : 0; i < n; i++) {
        md_dtype *t = arg[i]->kind == MD_FX_CONST && arg[i]->weak ? &weak : &strong;
        *t = *t == MD_DTYPE_DEFAULT ? arg[i]->type : md_fx_common_type(*t, arg[i]->type);
    }
    if (strong == MD_DTYPE_DEFAULT)
        return weak;
    return weak == MD_DTYPE_DEFAULT ? strong : md_fx_common_type(strong, weak);
}

/* A literal takes the type of its partners: 2 with a real is 2.0, 0.5 with an f64 is an f64. */
static const md_fx_node *adapt(md_arena *arena, const md_fx_node *n, md_dtype type)
{
    if (n->kind != MD_FX_CONST || !n->weak || n->type == type || !md_dtype_is_real(type))
        return n;
    md_fx_node *copy = md_fx_node_new(arena, MD_FX_CONST, type);
    if (!copy)
        return NULL;
    *copy = *n;
    copy->type = type;
    copy->num = md_dtype_is_real(n->type) ? n->num : (double)n->integer;
    copy->integer = 0;
    return copy;
}

static const md_fx_node *op_new(md_arena *arena, md_fx_op op, int n, const md_fx_node *const *arg)
{
    for (int i = 0; i < n; i++)
        if (!arg[i])
            return NULL;
    md_dtype common = common_of(op, n, arg);
    md_fx_node *node = md_fx_node_new(arena, MD_FX_OP, md_fx_op_type(op, common));
    const md_fx_node **copy = md_arena_alloc(arena, (size_t)n * sizeof *copy);
    if (!node || !copy)
        return NULL;
    node->op = op;
    node->n_args = n;
    node->arg = copy;
    for (int i = 0; i < n; i++) {
        bool is_condition = op == MD_FX_WHERE && i == 0;
        copy[i] = is_condition ? arg[i] : adapt(arena, arg[i], common);
        if (!copy[i])
            return NULL;
    }
    node->line = arg[0]->line;
    node->column = arg[0]->column;
    return node;
}

const md_fx_node *md_fx_op1(md_arena *arena, md_fx_op op, const md_fx_node *a)
{
    return op_new(arena, op, 1, (const md_fx_node *const[]){a});
}

const md_fx_node *md_fx_op2(md_arena *arena, md_fx_op op, const md_fx_node *a, const md_fx_node *b)
{
    return op_new(arena, op, 2, (const md_fx_node *const[]){a, b});
}

const md_fx_node *md_fx_op3(md_arena *arena, md_fx_op op, const md_fx_node *a, const md_fx_node *b, const md_fx_node *c)
{
    return op_new(arena, op, 3, (const md_fx_node *const[]){a, b, c});
}

bool md_fx_is_index(const md_fx_node *node, int32_t index)
{
    return node->kind == MD_FX_INDEX && node->id == index;
}
