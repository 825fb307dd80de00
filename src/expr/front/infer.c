/* Types of operations, and what becomes of literals. */
#include "expr/front/infer.h"

#include "base/dtype.h"
#include "base/status.h"
#include "expr/front/rewrite.h"
#include "expr/node.h"
#include "expr/scalar.h"

#include <math.h>
#include <string.h>

/* ---- making nodes ---- */

static md_status new_node(md_front *fr, md_fx_node **out, md_fx_kind kind, md_dtype type, const md_syntax *at)
{
    md_fx_node *const n = md_fx_node_new(fr->arena, kind, type);
    if (!n)
        return md_fail_memory();
    n->line = at->line;
    n->column = at->column;
    *out = n;
    return MD_OK;
}

static md_status set_args(md_front *fr, md_fx_node *node, int32_t n, md_fx_node *const *arg)
{
    const md_fx_node **const copy = md_arena_alloc(fr->arena, (size_t)n * sizeof *copy);
    if (!copy)
        return md_fail_memory();
    for (int32_t i = 0; i < n; i++)
        copy[i] = arg[i];
    node->arg = copy;
    node->n_args = n;
    return MD_OK;
}

/* The place in the text of a node already made, for the functions that take a place. */
static md_syntax place_of(const md_fx_node *node)
{
    return (md_syntax){.line = node->line, .column = node->column};
}

md_status md_infer_integer(md_front *front, md_fx_node **out, int64_t value, const md_syntax *at)
{
    MD_TRY(new_node(front, out, MD_FX_CONST, MD_I64, at));
    (*out)->integer = value;
    (*out)->weak = true;
    return MD_OK;
}

md_status md_infer_real(md_front *front, md_fx_node **out, double value, const md_syntax *at)
{
    MD_TRY(new_node(front, out, MD_FX_CONST, MD_F32, at));
    (*out)->num = (*out)->exact = value;
    (*out)->weak = true;
    return MD_OK;
}

static md_status truth(md_front *fr, md_fx_node **out, bool value, const md_syntax *at)
{
    MD_TRY(new_node(fr, out, MD_FX_CONST, MD_BOOL, at));
    (*out)->integer = value;
    return MD_OK;
}

static double number_of(const md_fx_node *literal)
{
    return md_dtype_is_real(literal->type) ? literal->num : (double)literal->integer;
}

/* ---- conversions ---- */

static md_status convert_literal(md_front *fr, md_fx_node **out, const md_fx_node *literal, md_dtype to)
{
    const md_syntax at = place_of(literal);
    const double value = number_of(literal);
    if (to == MD_BOOL)
        return truth(fr, out, value != 0, &at);
    MD_TRY(new_node(fr, out, MD_FX_CONST, to, &at));
    if (to == MD_I64) {
        (*out)->integer = md_dtype_is_real(literal->type) ? md_dtype_load_int(MD_F64, &value, 0) : literal->integer;
        return MD_OK;
    }
    (*out)->num = md_dtype_round(to, value);
    (*out)->exact = value;
    if (isinf((*out)->num) && !isinf(value))
        return MD_FRONT_ERROR(fr, &at, "the number %g is too large for f32; write inf, or f64(..)", value);
    return MD_OK;
}

/* A weak operation takes the type through its operands. The condition of a where has a type of its own. */
static md_status convert_weak_op(md_front *fr, md_fx_node **out, md_fx_node *node, md_dtype to)
{
    md_fx_node *arg[3];
    const md_syntax at = place_of(node);
    const bool is_where = node->op == MD_FX_WHERE;
    for (int32_t i = 0; i < node->n_args; i++) {
        md_fx_node *const a = (md_fx_node *)node->arg[i]; /* made here, not yet used elsewhere */
        arg[i] = a;
        if (!is_where || i > 0)
            MD_TRY(md_infer_convert(fr, &arg[i], a, to));
    }
    MD_TRY(new_node(fr, out, MD_FX_OP, to, &at));
    (*out)->op = node->op;
    return set_args(fr, *out, node->n_args, arg);
}

static md_status not_zero(md_front *fr, md_fx_node **out, md_fx_node *node)
{
    const md_syntax at = place_of(node);
    md_fx_node *zero = NULL;
    MD_TRY(new_node(fr, &zero, MD_FX_CONST, node->type, &at));
    MD_TRY(new_node(fr, out, MD_FX_OP, MD_BOOL, &at));
    (*out)->op = MD_FX_NE;
    return set_args(fr, *out, 2, (md_fx_node *const[]){node, zero});
}

md_status md_infer_convert(md_front *front, md_fx_node **out, md_fx_node *node, md_dtype to)
{
    if (node->weak && node->kind == MD_FX_CONST)
        return convert_literal(front, out, node, to);
    if (node->weak && to == MD_BOOL) {
        MD_TRY(md_infer_convert(front, &node, node, node->type));
        return not_zero(front, out, node);
    }
    /* A real weak value has no use as an integer but through a cast, which converts it to f32 first. */
    if (node->weak)
        return convert_weak_op(front, out, node, to);
    if (node->type == to) {
        *out = node;
        return MD_OK;
    }
    if (to == MD_BOOL)
        return not_zero(front, out, node);
    if (node->is_unsigned)
        return md_unsigned_to_real(front, out, node, to);
    const md_syntax at = place_of(node);
    MD_TRY(new_node(front, out, MD_FX_CAST, to, &at));
    (*out)->to = to;
    return set_args(front, *out, 1, &node);
}

/* ---- operations ---- */

static bool is_condition(md_fx_op op, int32_t operand)
{
    return md_fx_op_is_logic(op) || (op == MD_FX_WHERE && operand == 0);
}

/* The common type of the operands that have a part in it, and whether all of them are weak. */
static md_dtype common_type(md_fx_op op, int32_t n, md_fx_node *const *arg, bool *is_weak)
{
    md_dtype strong = MD_DTYPE_DEFAULT, weak = MD_DTYPE_DEFAULT;
    for (int32_t i = 0; i < n; i++) {
        if (is_condition(op, i))
            continue;
        md_dtype *const t = arg[i]->weak ? &weak : &strong;
        *t = *t == MD_DTYPE_DEFAULT ? arg[i]->type : md_fx_common_type(*t, arg[i]->type);
    }
    *is_weak = strong == MD_DTYPE_DEFAULT && weak != MD_DTYPE_DEFAULT;
    if (strong == MD_DTYPE_DEFAULT)
        return weak == MD_DTYPE_DEFAULT ? MD_BOOL : weak;
    return weak == MD_DTYPE_DEFAULT ? strong : md_fx_common_type(strong, weak);
}

static bool overflows(md_fx_op op, int64_t a, int64_t b)
{
    int64_t r;
    switch ((int)op) {
    case MD_FX_NEG:
        return __builtin_sub_overflow((int64_t)0, a, &r);
    case MD_FX_ADD:
        return __builtin_add_overflow(a, b, &r);
    case MD_FX_SUB:
        return __builtin_sub_overflow(a, b, &r);
    case MD_FX_MUL:
        return __builtin_mul_overflow(a, b, &r);
    default:
        return false;
    }
}

/* An operation with the common type of its operands. */
typedef struct operation {
    md_fx_op op;
    int32_t n;
    md_fx_node *const *arg;
    md_dtype common;
} operation;

/* Literals only: computed here, in double or in int64, and weak again. */
static md_status fold_literals(md_front *fr, md_fx_node **out, const operation *o, const md_syntax *at)
{
    md_fx_node *const *const arg = o->arg;
    const md_fx_op op = o->op;
    const md_dtype type = md_fx_op_type(op, o->common);
    double x[3] = {0};
    int64_t k[3] = {0};
    for (int32_t i = 0; i < o->n; i++) {
        x[i] = number_of(arg[i]);
        k[i] = arg[i]->integer;
    }
    if (type == MD_BOOL && o->common == MD_I64)
        return truth(fr, out, md_scalar_int(op)(k[0], k[1], k[2]) != 0, at);
    if (type == MD_BOOL)
        return truth(fr, out, md_scalar_test(op)(x[0], x[1]), at);
    if (type != MD_I64)
        return md_infer_real(fr, out, md_scalar_real(op)(x[0], x[1], x[2]), at);
    if ((op == MD_FX_FLOORDIV || op == MD_FX_MOD) && k[1] == 0)
        return MD_FRONT_ERROR(fr, at, "division by zero");
    if (overflows(op, k[0], k[1]))
        return MD_FRONT_ERROR(fr, at, "the constant does not fit in 64 bits");
    return md_infer_integer(fr, out, md_scalar_int(op)(k[0], k[1], k[2]), at);
}

/* True if an operation on literals is computed at once: all but conditions. */
static bool is_foldable(md_fx_op op, int32_t n, md_fx_node *const *arg)
{
    for (int32_t i = 0; i < n; i++)
        if (is_condition(op, i) || arg[i]->kind != MD_FX_CONST || !arg[i]->weak)
            return false;
    return true;
}

/* Weak operations keep their operands as they are until a type is known: where(c, 1, 0) * x. */
static md_status weak_op(md_front *fr, md_fx_node **out, const operation *o, const md_syntax *at)
{
    md_fx_node *copy[3];
    for (int32_t i = 0; i < o->n; i++) {
        copy[i] = o->arg[i];
        if (is_condition(o->op, i))
            MD_TRY(md_infer_convert(fr, &copy[i], o->arg[i], MD_BOOL));
    }
    MD_TRY(new_node(fr, out, MD_FX_OP, md_fx_op_type(o->op, o->common), at));
    (*out)->op = o->op;
    (*out)->weak = true;
    return set_args(fr, *out, o->n, copy);
}

static md_status check_bitwise(md_front *fr, md_fx_op op, md_dtype common, const md_syntax *at)
{
    if (!md_fx_op_is_bitwise(op) || !md_dtype_is_real(common))
        return MD_OK;
    return MD_FRONT_ERROR(fr, at, "'%s' takes integers and truth values, not %s%s", md_fx_op_text(op),
                          md_dtype_name(common), op == MD_FX_BIT_XOR ? "; a power is written pow(a, b)" : "");
}

/* Whether the result is unsigned: of a shift, if what is shifted is; of random bits, never; of other operations, if one
 * operand is. */
static bool counts_as_unsigned(md_fx_op op, int32_t n, md_fx_node *const *arg)
{
    bool is = false;
    for (int32_t i = 0; i < n && op != MD_FX_PHILOX; i++)
        is |= arg[i]->is_unsigned && !is_condition(op, i) && (i == 0 || (op != MD_FX_SHL && op != MD_FX_SHR));
    return is;
}

md_status md_infer_op(md_front *front, md_fx_node **out, md_fx_op op, int32_t n, md_fx_node *const *arg,
                      const md_syntax *at)
{
    bool is_weak;
    const md_dtype common = common_type(op, n, arg, &is_weak);
    MD_TRY(check_bitwise(front, op, common, at));
    if (op == MD_FX_BIT_NOT && common == MD_BOOL)
        op = MD_FX_NOT;
    const md_dtype type = md_fx_op_type(op, common);
    const operation o = {op, n, arg, common};
    if (is_weak && is_foldable(op, n, arg))
        return fold_literals(front, out, &o, at);
    if (is_weak && type != MD_BOOL && !md_fx_op_is_bitwise(op))
        return weak_op(front, out, &o, at);
    /* Operands get the type of the result; those of a test their own. */
    const bool is_unsigned = common == MD_I64 && counts_as_unsigned(op, n, arg);
    const bool is_real_test = n == 1 && md_fx_op_is_test(op); /* isnan, isinf */
    const md_dtype operand = is_real_test && common != MD_F64 ? MD_F32 : type == MD_BOOL ? common : type;
    md_fx_node *converted[3];
    for (int32_t i = 0; i < n; i++)
        MD_TRY(md_infer_convert(front, &converted[i], arg[i], is_condition(op, i) ? MD_BOOL : operand));
    if (is_unsigned && operand == MD_I64) {
        MD_TRY(md_unsigned_op(front, out, op, converted));
        if (*out)
            return MD_OK;
    }
    MD_TRY(new_node(front, out, MD_FX_OP, type, at));
    (*out)->op = op;
    (*out)->is_unsigned = is_unsigned && type == MD_I64;
    return set_args(front, *out, n, converted);
}

md_status md_infer_cast(md_front *front, md_fx_node **out, md_dtype to, md_fx_node *arg, const md_syntax *at)
{
    const md_dtype compute = md_dtype_compute(to);
    if (arg->weak && arg->kind == MD_FX_CONST && compute == to)
        return md_infer_convert(front, out, arg, compute);
    if (arg->weak)
        MD_TRY(md_infer_convert(front, &arg, arg, to == MD_F64 ? MD_F64 : arg->type));
    if (to == MD_U64 && !md_dtype_is_real(arg->type))
        MD_TRY(md_infer_convert(front, &arg, arg, MD_I64));
    if (arg->type == MD_I64 && compute == MD_I64 && md_dtype_size(to) == 8) {
        *out = md_unsigned_mark(arg, to == MD_U64);
        return MD_OK;
    }
    if (to == MD_BOOL || arg->type == to)
        return md_infer_convert(front, out, arg, to);
    if (arg->is_unsigned && md_dtype_is_real(to))
        return md_unsigned_to_real(front, out, arg, to);
    MD_TRY(new_node(front, out, MD_FX_CAST, compute, at));
    (*out)->to = to;
    (*out)->is_unsigned = to == MD_U64;
    return set_args(front, *out, 1, &arg);
}

static bool gives_position(md_fx_op op)
{
    return op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN;
}

/* True if the order of the numbers matters. */
static bool compares(md_fx_op op)
{
    return gives_position(op) || op == MD_FX_R_MAX || op == MD_FX_R_MIN || op == MD_FX_S_MAX || op == MD_FX_S_MIN;
}

md_status md_infer_binder(md_front *front, md_fx_node **out, md_fx_op op, md_fx_node *body, const md_syntax *at)
{
    const bool is_test = op == MD_FX_R_ANY || op == MD_FX_R_ALL;
    const md_dtype type = md_fx_op_type(op, body->type);
    md_dtype operand = is_test ? MD_BOOL : type;
    if (op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN || op == MD_FX_R_MEAN)
        operand = body->type == MD_BOOL ? MD_I64 : body->type; /* the sum of a mean of integers is exact */
    const bool is_unsigned = body->is_unsigned;
    if (is_unsigned && op == MD_FX_R_MEAN)
        operand = MD_F32;
    MD_TRY(md_infer_convert(front, &body, body, operand));
    if (is_unsigned && compares(op))
        MD_TRY(md_unsigned_flip(front, &body, body));
    const bool is_scan = md_fx_op_is_scan(op);
    MD_TRY(new_node(front, out, is_scan ? MD_FX_SCAN : MD_FX_REDUCE, type, at));
    (*out)->op = op;
    (*out)->is_unsigned = is_unsigned && type == MD_I64 && !gives_position(op);
    return set_args(front, *out, 1, &body);
}

md_status md_infer_finish_binder(md_front *front, md_fx_node **out)
{
    return (*out)->is_unsigned && compares((*out)->op) ? md_unsigned_flip(front, out, *out) : MD_OK;
}

md_status md_infer_recurrence(md_front *front, md_fx_node **out, int32_t n, md_fx_node *const arg[3],
                              const md_syntax *at)
{
    bool is_weak;
    const md_dtype type = md_fx_op_type(at->op, common_type(MD_FX_STEP, 2, arg, &is_weak));
    md_fx_node *converted[3], *step = NULL;
    if (at->op != MD_FX_S_LINEAR && !md_dtype_is_real(type))
        return MD_FRONT_ERROR(front, at,
                              "this recurrence is not associative in integers, whose sums wrap: convert an "
                              "operand, as in f64(..)");
    for (int32_t i = 0; i < n; i++)
        MD_TRY(md_infer_convert(front, &converted[i], arg[i], i == 2 ? MD_BOOL : type));
    MD_TRY(new_node(front, &step, MD_FX_OP, type, at));
    step->op = MD_FX_STEP;
    MD_TRY(set_args(front, step, n, converted));
    MD_TRY(new_node(front, out, MD_FX_SCAN, type, at));
    (*out)->op = at->op;
    (*out)->is_unsigned = type == MD_I64 && (arg[0]->is_unsigned || arg[1]->is_unsigned);
    return set_args(front, *out, 1, &step);
}

/* ---- recurrences written as scans ---- */

static bool is_option(const md_syntax *at)
{
    return at->kind == MD_SYNTAX_NAME && (strcmp(at->name, "exclusive") == 0 || strcmp(at->name, "reverse") == 0);
}

md_status md_recurrence_operands(md_front *front, const md_syntax *at, int32_t *n)
{
    *n = 1;
    if (!md_fx_is_recurrence(at->op))
        return MD_OK;
    if (at->n_args < 2 || is_option(at->arg[1]))
        return MD_FRONT_ERROR(front, at, "'%s' takes two operands: %s[i](a, b) is %s", at->name, at->name,
                              at->op == MD_FX_S_LINEAR     ? "a * (the value before) + b"
                              : at->op == MD_FX_S_MAX_PLUS ? "max(a + (the value before), b)"
                                                           : "min(a + (the value before), b)");
    *n = at->op == MD_FX_S_LINEAR && at->n_args > 2 && !is_option(at->arg[2]) ? 3 : 2;
    return MD_OK;
}
