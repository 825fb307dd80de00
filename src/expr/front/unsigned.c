/* Unsigned 64-bit numbers. Their bits are computed as i64, so no kernel knows them: where the two differ, an operation
 * becomes others on i64 that give the same bits. Comparisons flip the highest bit of both operands, for one. */
#include "expr/front/rewrite.h"

#include "base/dtype.h"
#include "base/status.h"
#include "expr/node.h"

typedef const md_fx_node *node;

static node number(md_front *fr, int64_t value)
{
    return md_fx_integer(fr->arena, value);
}

static node op2(md_front *fr, md_fx_op op, node a, node b)
{
    return md_fx_op2(fr->arena, op, a, b);
}

static node where(md_front *fr, node condition, node yes, node no)
{
    return md_fx_op3(fr->arena, MD_FX_WHERE, condition, yes, no);
}

/* Maps 0 .. 2^64 - 1 onto i64 in the same order, and back. */
static node flip(md_front *fr, node a)
{
    return op2(fr, MD_FX_BIT_XOR, a, number(fr, INT64_MIN));
}

/* True if an i64 is known to be 0 or more. */
static bool is_natural(node a)
{
    return a->is_unsigned || a->kind == MD_FX_INDEX || a->kind == MD_FX_SIZE ||
           (a->kind == MD_FX_CONST && a->integer >= 0);
}

static bool is_order(md_fx_op op)
{
    return op == MD_FX_LT || op == MD_FX_LE || op == MD_FX_GT || op == MD_FX_GE;
}

/* Compares the numbers, also those of an i64 with those of a u64: a negative one is below all of the other. */
static node compare(md_front *fr, md_fx_op op, node a, node b)
{
    const bool flips = is_order(op);
    node result = op2(fr, op, flips ? flip(fr, a) : a, flips ? flip(fr, b) : b);
    const node own = is_natural(a) ? b : a;
    if (is_natural(own))
        return result;
    const bool holds_below = own == a ? op == MD_FX_LT || op == MD_FX_LE || op == MD_FX_NE
                                      : op == MD_FX_GT || op == MD_FX_GE || op == MD_FX_NE;
    const node is_below = op2(fr, MD_FX_LT, own, number(fr, 0));
    return holds_below ? op2(fr, MD_FX_OR, is_below, result)
                       : op2(fr, MD_FX_AND, md_fx_op1(fr->arena, MD_FX_NOT, is_below), result);
}

/* a >> 1 without the sign. */
static node half(md_front *fr, node a)
{
    return op2(fr, MD_FX_BIT_AND, op2(fr, MD_FX_SHR, a, number(fr, 1)), number(fr, INT64_MAX));
}

static node shift_right(md_front *fr, node a, node count)
{
    const node rest = op2(fr, MD_FX_SHR, half(fr, a), op2(fr, MD_FX_SUB, count, number(fr, 1)));
    return where(fr, op2(fr, MD_FX_EQ, count, number(fr, 0)), a, rest);
}

/* Divided by a number below 2^63: half of a, twice the quotient, and 1 more if the rest holds it once more. Only 1 or 0
 * times a larger one goes into a. By 0 the quotient is 0. */
static node quotient(md_front *fr, node a, node b)
{
    if (b->kind == MD_FX_CONST && b->integer > 0 && b->integer % 2 == 0)
        return op2(fr, MD_FX_FLOORDIV, half(fr, a), number(fr, b->integer / 2));
    const node zero = number(fr, 0), one = number(fr, 1), none = number(fr, 0);
    const node twice = op2(fr, MD_FX_SHL, op2(fr, MD_FX_FLOORDIV, half(fr, a), b), one);
    const node rest = op2(fr, MD_FX_SUB, a, op2(fr, MD_FX_MUL, twice, b));
    const node more = op2(fr, MD_FX_LE, flip(fr, b), flip(fr, rest));
    const node small = op2(fr, MD_FX_ADD, twice, where(fr, more, one, none));
    if (b->kind == MD_FX_CONST && b->integer > 0)
        return small;
    const node large = where(fr, op2(fr, MD_FX_LE, flip(fr, b), flip(fr, a)), one, none);
    const node by = where(fr, op2(fr, MD_FX_LT, b, zero), large, small);
    return where(fr, op2(fr, MD_FX_EQ, b, zero), none, by);
}

/* By 0 the remainder is 0. */
static node remainder_of(md_front *fr, node a, node b)
{
    if (b->kind == MD_FX_CONST && b->integer > 0 && (b->integer & (b->integer - 1)) == 0)
        return op2(fr, MD_FX_BIT_AND, a, number(fr, b->integer - 1));
    const node rest = op2(fr, MD_FX_SUB, a, op2(fr, MD_FX_MUL, quotient(fr, a, b), b));
    if (b->kind == MD_FX_CONST && b->integer != 0)
        return rest;
    return where(fr, op2(fr, MD_FX_EQ, b, number(fr, 0)), number(fr, 0), rest);
}

/* The power from an exponent of 2^63 on is that of the exponent less 2^63 where the base is odd, else 0. */
static node power(md_front *fr, node a, node b)
{
    const node odd = op2(fr, MD_FX_NE, op2(fr, MD_FX_BIT_AND, a, number(fr, 1)), number(fr, 0));
    const node low = op2(fr, MD_FX_BIT_AND, b, number(fr, INT64_MAX));
    const node all = op2(fr, MD_FX_POW, a, low);
    const node is_large = op2(fr, MD_FX_LT, b, number(fr, 0));
    return where(fr, op2(fr, MD_FX_AND, is_large, md_fx_op1(fr->arena, MD_FX_NOT, odd)), number(fr, 0), all);
}

static node clamp(md_front *fr, node a, node low, node high)
{
    return flip(fr, md_fx_op3(fr->arena, MD_FX_CLAMP, flip(fr, a), flip(fr, low), flip(fr, high)));
}

static node sign(md_front *fr, node a)
{
    return where(fr, op2(fr, MD_FX_NE, a, number(fr, 0)), number(fr, 1), number(fr, 0));
}

/* NULL both where memory is short and, with *is_same, where i64's operation gives the same bits. */
static node build(md_front *fr, md_fx_op op, md_fx_node *const *arg, bool *is_same)
{
    switch ((int)op) {
    case MD_FX_LT:
    case MD_FX_LE:
    case MD_FX_GT:
    case MD_FX_GE:
    case MD_FX_EQ:
    case MD_FX_NE:
        return compare(fr, op, arg[0], arg[1]);
    case MD_FX_MIN:
    case MD_FX_MAX:
        return flip(fr, op2(fr, op, flip(fr, arg[0]), flip(fr, arg[1])));
    case MD_FX_CLAMP:
        return clamp(fr, arg[0], arg[1], arg[2]);
    case MD_FX_FLOORDIV:
        return quotient(fr, arg[0], arg[1]);
    case MD_FX_MOD:
    case MD_FX_FMOD:
        return remainder_of(fr, arg[0], arg[1]);
    case MD_FX_POW:
        return power(fr, arg[0], arg[1]);
    case MD_FX_SHR:
        return shift_right(fr, arg[0], arg[1]);
    case MD_FX_SIGN:
        return sign(fr, arg[0]);
    case MD_FX_ABS:
    case MD_FX_RELU:
        return arg[0];
    default:
        *is_same = true;
        return NULL;
    }
}

md_status md_unsigned_op(md_front *front, md_fx_node **out, md_fx_op op, md_fx_node *const *arg)
{
    bool is_same = false;
    *out = NULL;
    const node made = build(front, op, arg, &is_same);
    if (is_same)
        return MD_OK;
    if (!made)
        return md_fail_memory();
    *out = md_unsigned_mark(made, made->type == MD_I64);
    return MD_OK;
}

md_fx_node *md_unsigned_mark(const md_fx_node *a, bool is_unsigned)
{
    md_fx_node *const own = (md_fx_node *)a; /* made here, not yet used elsewhere; a copy of a SIZE would get no dim */
    own->is_unsigned = is_unsigned;
    return own;
}

md_status md_unsigned_flip(md_front *front, md_fx_node **out, const md_fx_node *a)
{
    const md_fx_node *const flipped = flip(front, a);
    if (!flipped)
        return md_fail_memory();
    *out = md_unsigned_mark(flipped, true);
    return MD_OK;
}

/* Of half the number, with what falls off kept in its last bit, the conversion rounds to half of the result. */
md_status md_unsigned_to_real(md_front *front, md_fx_node **out, const md_fx_node *a, md_dtype to)
{
    md_front *const fr = front;
    const md_dtype type = md_dtype_compute(to);
    const node odd = op2(fr, MD_FX_BIT_OR, half(fr, a), op2(fr, MD_FX_BIT_AND, a, number(fr, 1)));
    const node large = op2(fr, MD_FX_MUL, md_fx_real(fr->arena, 2, type), md_fx_cast(fr->arena, odd, to));
    const node is_small = op2(fr, MD_FX_LE, number(fr, 0), a);
    node made = where(fr, is_small, md_fx_cast(fr->arena, a, to), large);
    if (type != to)
        made = md_fx_cast(fr->arena, made, to); /* twice the largest value of an 8-bit real saturates */
    if (!made)
        return md_fail_memory();
    *out = md_unsigned_mark(made, false);
    return MD_OK;
}
