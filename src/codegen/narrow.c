/* Whether the integers of a stage fit into 32 bits: then host kernels compute them in lanes of 32 bits, one register
 * instead of two. */
#include "codegen/narrow.h"

#include "base/dtype.h"

#include <math.h>

/* The values of an integer dtype. False for those of 32 bits without a sign and of 64, and for reals. */
static bool range_of_dtype(md_range_interval *out, md_dtype dtype)
{
    static const struct {
        md_dtype dtype;
        md_range_interval range;
    } rows[] = {{MD_BOOL, {0, 1}},         {MD_I4, {-8, 7}},
                {MD_U4, {0, 15}},          {MD_I8, {-128, 127}},
                {MD_U8, {0, 255}},         {MD_I16, {INT16_MIN, INT16_MAX}},
                {MD_U16, {0, UINT16_MAX}}, {MD_I32, {INT32_MIN, INT32_MAX}}};
    for (int32_t i = 0; i < MD_COUNT(rows); i++)
        if (rows[i].dtype == dtype) {
            *out = rows[i].range;
            return true;
        }
    return false;
}

/* Subscripts of operand B that are scalars whichever index the lanes run over: W[eid[t],n,k], s[n,k // 32]
 * (codegen/product/operand.c: lanes share such quotients). */
static bool is_shared_in_product(const md_cg_narrow_search *s, const md_fx_node *subscript)
{
    enum { MOST_LANES = 16 };
    const md_st_product *p = s->product;
    if (!p || subscript->kind == MD_FX_CHECK)
        return false;
    if (!md_fx_uses_any_index(subscript, p->n_k, p->k) && !md_fx_uses_any_index(subscript, p->n_n, p->n))
        return true;
    return p->n_k == 1 && subscript->kind == MD_FX_OP && subscript->op == MD_FX_FLOORDIV &&
           md_fx_is_index(subscript->arg[0], p->k[0]) && subscript->arg[1]->kind == MD_FX_CONST &&
           subscript->arg[1]->type == MD_I64 && subscript->arg[1]->integer > 0 &&
           subscript->arg[1]->integer % MOST_LANES == 0;
}

/* A subscript is no value of lanes where the access moves with it by steps. */
static bool has_plain_subscripts(const md_cg_narrow_search *s, const md_fx_node *load)
{
    md_fx_affine a;
    for (int32_t i = 0; i < load->n_args; i++)
        if (is_shared_in_product(s, load->arg[i]))
            continue;
        else if (load->arg[i]->kind == MD_FX_CHECK || !md_fx_affine_of(&a, s->program->formula, load->arg[i]))
            return false;
    return true;
}

/* True if all lanes read one element, or consecutive ones. */
bool md_cg_is_vector_access(const md_cg_narrow_search *s, int32_t tensor, int32_t rank,
                            const md_fx_node *const *subscript)
{
    int64_t coef[MD_MAX_RANK] = {0};
    if (!md_st_step(coef, s->program, tensor, subscript, s->lane))
        return false;
    for (int32_t i = 0; i < rank; i++)
        if (coef[i] != 0 && (i != rank - 1 || coef[i] != 1))
            return false;
    return true;
}

/* Elements of lanes that are bytes, or words. */
bool md_cg_is_lane_item(const md_cg_narrow_search *s, md_dtype dtype)
{
    if (dtype == MD_BOOL)
        return s->bits != 4;
    if (s->real != MD_F32)
        return dtype == s->real;
    if (s->bits == 4)
        return dtype == MD_I4 || dtype == MD_U4;
    return s->bits == 8 ? dtype == MD_I8 || dtype == MD_U8 || dtype == MD_I4 || dtype == MD_U4
                        : dtype == MD_I16 || dtype == MD_U16;
}

static bool is_item_load(const md_cg_narrow_search *s, const md_fx_node *n)
{
    const bool varies = n->n_args > 0 && md_fx_uses_index(n->arg[n->n_args - 1], s->lane);
    return md_cg_is_vector_access(s, n->id, n->n_args, n->arg) &&
           (!varies || md_cg_is_lane_item(s, s->program->formula->tensor[n->id].dtype));
}

bool md_cg_is_narrow_load(const md_cg_narrow_search *s, const md_fx_node *n, md_range_interval *out)
{
    return has_plain_subscripts(s, n) && (!s->is_bytes || is_item_load(s, n)) &&
           (n->type != MD_I64 || range_of_dtype(out, s->program->formula->tensor[n->id].dtype));
}

static bool add(md_range_interval *out, md_range_interval a, int64_t sign, md_range_interval b)
{
    *out = sign > 0 ? (md_range_interval){a.lo + b.lo, a.hi + b.hi} : (md_range_interval){a.lo - b.hi, a.hi - b.lo};
    return true; /* of numbers of 32 bits */
}

bool md_cg_range_of_op(md_range_interval *out, const md_fx_node *n, const md_range_interval arg[3])
{
    static const md_range_interval zero = {0, 0};
    switch ((int)n->op) {
    case MD_FX_NEG:
        return add(out, zero, -1, arg[0]);
    case MD_FX_ADD:
        return add(out, arg[0], 1, arg[1]);
    case MD_FX_SUB:
        return add(out, arg[0], -1, arg[1]);
    case MD_FX_WHERE:
        *out = (md_range_interval){MD_MIN(arg[1].lo, arg[2].lo), MD_MAX(arg[1].hi, arg[2].hi)};
        return true;
    case MD_FX_SHL:
    case MD_FX_SHR:
        return false; /* counts from 32 on */
    default:
        return md_interval_op(out, n->op, arg[0], arg[1], arg[2]);
    }
}

/* What kernels/host/bytes.h has. */
static bool has_byte_form(md_fx_op op)
{
    static const bool table[MD_FX_N_OPS] = {
        [MD_FX_NEG] = true,     [MD_FX_ADD] = true,     [MD_FX_SUB] = true,     [MD_FX_MUL] = true,
        [MD_FX_LT] = true,      [MD_FX_LE] = true,      [MD_FX_GT] = true,      [MD_FX_GE] = true,
        [MD_FX_EQ] = true,      [MD_FX_NE] = true,      [MD_FX_BIT_AND] = true, [MD_FX_BIT_OR] = true,
        [MD_FX_BIT_XOR] = true, [MD_FX_BIT_NOT] = true, [MD_FX_AND] = true,     [MD_FX_OR] = true,
        [MD_FX_NOT] = true,     [MD_FX_WHERE] = true,   [MD_FX_MIN] = true,     [MD_FX_MAX] = true,
        [MD_FX_CLAMP] = true,   [MD_FX_ABS] = true,     [MD_FX_SIGN] = true,    [MD_FX_RELU] = true,
        [MD_FX_FLOOR] = true,   [MD_FX_CEIL] = true,    [MD_FX_ROUND] = true,   [MD_FX_TRUNC] = true,
        [MD_FX_FMA] = true,
    };
    return table[op];
}

/* Halves of bytes (kernels/host/byte_halves.h) have fewer. */
bool md_cg_has_lane_form(const md_cg_narrow_search *s, md_fx_op op)
{
    const bool is_whole = op == MD_FX_MUL || op == MD_FX_FMA || op == MD_FX_ABS || op == MD_FX_SIGN;
    return has_byte_form(op) && (s->bits > 4 || !is_whole);
}

/* Of reals, what kernels/host/byte_reals.h has: every result is an operand, or one with another sign, or a truth
 * value. */
static bool has_bit_form(md_fx_op op)
{
    static const bool table[MD_FX_N_OPS] = {
        [MD_FX_NEG] = true, [MD_FX_ABS] = true,   [MD_FX_RELU] = true,  [MD_FX_MIN] = true,   [MD_FX_MAX] = true,
        [MD_FX_LT] = true,  [MD_FX_LE] = true,    [MD_FX_GT] = true,    [MD_FX_GE] = true,    [MD_FX_EQ] = true,
        [MD_FX_NE] = true,  [MD_FX_ISNAN] = true, [MD_FX_ISINF] = true, [MD_FX_CLAMP] = true, [MD_FX_WHERE] = true,
    };
    return table[op];
}

/* A constant that the lanes' type holds exactly, also where it is written as an integer. */
static bool is_held(const md_cg_narrow_search *s, const md_fx_node *n)
{
    uint64_t stored = 0;
    const double value = md_dtype_is_real(n->type) ? n->num : (double)n->integer;
    md_dtype_store(s->real, &stored, 0, value);
    const double loaded = md_dtype_load(s->real, &stored, 0);
    return loaded == value && signbit(loaded) == signbit(value);
}

/* Operands of an operation on reals: a condition, constants and reals. */
static bool are_bits(md_cg_narrow_search *s, const md_fx_node *n)
{
    md_range_interval range;
    if (!has_bit_form(n->op))
        return false;
    for (int32_t i = 0; i < n->n_args; i++)
        if (n->op == MD_FX_WHERE && i == 0 ? !md_cg_is_narrow(s, n->arg[0], &range) : !md_cg_is_bits(s, n->arg[i]))
            return false;
    return true;
}

/* True if the value is one of the lanes' type: lanes hold it as memory does. */
bool md_cg_is_bits(md_cg_narrow_search *s, const md_fx_node *n)
{
    if (s->real == MD_F32 || ++s->n_nodes > MD_CG_NARROW_NODES)
        return false;
    if (n->kind == MD_FX_CONST)
        return n->type != MD_BOOL && is_held(s, n);
    if (n->type != MD_F32)
        return false;
    if (n->kind == MD_FX_LOAD)
        return s->program->formula->tensor[n->id].dtype == s->real && has_plain_subscripts(s, n) && is_item_load(s, n);
    if (n->kind == MD_FX_CAST)
        return (n->to == MD_F32 || n->to == s->real) && md_dtype_is_real(n->arg[0]->type) &&
               md_cg_is_bits(s, n->arg[0]);
    return n->kind == MD_FX_OP && are_bits(s, n);
}

/* A comparison of reals. */
static bool is_test_of_reals(const md_fx_node *n)
{
    bool has_real = false;
    for (int32_t i = 0; i < n->n_args; i++)
        has_real = has_real || md_dtype_is_real(n->arg[i]->type);
    return has_real && n->type == MD_BOOL;
}

/* Operands are integers or truth values where the result is an integer; those of other operations may be anything. */
static bool is_narrow_op(md_cg_narrow_search *s, const md_fx_node *n, md_range_interval *out)
{
    md_range_interval arg[3] = {{0, 0}};
    if (s->is_bytes && is_test_of_reals(n))
        return are_bits(s, n);
    if (s->is_bytes && !md_cg_has_lane_form(s, n->op))
        return false;
    for (int32_t i = 0; i < n->n_args; i++)
        if (!md_cg_is_narrow(s, n->arg[i], &arg[i < 3 ? i : 2]))
            return false;
    return n->type != MD_I64 || (n->n_args <= 3 && md_cg_range_of_op(out, n, arg));
}

/* Of an integer or a truth value. */
static bool is_lane_type(const md_cg_narrow_search *s, md_dtype type)
{
    return type == MD_BOOL || (s->real == MD_F32 && !md_dtype_is_real(type));
}

bool md_cg_is_narrow(md_cg_narrow_search *s, const md_fx_node *n, md_range_interval *out)
{
    *out = (md_range_interval){0, 1}; /* of a truth value; of a real nobody asks */
    bool fits = ++s->n_nodes <= MD_CG_NARROW_NODES;
    s->has_integers = s->has_integers || n->type == MD_I64;
    switch (fits ? n->kind : MD_FX_INDEX) {
    case MD_FX_CONST:
        if (n->type == MD_I64)
            *out = (md_range_interval){n->integer, n->integer};
        break;
    case MD_FX_LOAD:
        s->valued |= UINT32_C(1) << n->id;
        fits = md_cg_is_narrow_load(s, n, out);
        break;
    case MD_FX_OP:
        fits = is_narrow_op(s, n, out);
        break;
    case MD_FX_CAST:
        fits = md_cg_is_narrow(s, n->arg[0], out) && (n->type != MD_I64 || range_of_dtype(out, n->to));
        break;
    case MD_FX_SCALAR:
    case MD_FX_REF:
        fits = n->type != MD_I64;
        break;
    default: /* positions, sizes, counts, loops */
        fits = false;
        break;
    }
    return fits && out->lo >= s->limit.lo && out->hi <= s->limit.hi && (!s->is_bytes || is_lane_type(s, n->type));
}

static bool stores_are_narrow(md_cg_narrow_search *s, const md_st_stage *stage)
{
    md_range_interval range;
    for (int32_t i = 0; i < stage->n_stores; i++)
        if (!md_cg_is_narrow(s, stage->store[i].value, &range))
            return false;
    return true;
}

static bool products_are_narrow(md_cg_narrow_search *s, const md_st_product *product)
{
    md_range_interval range;
    for (int32_t i = 0; i < product->n_products; i++) {
        s->product = NULL;
        if (!md_cg_is_narrow(s, product->a[i], &range))
            return false;
        s->product = product;
        if (!md_cg_is_narrow(s, product->b[i], &range))
            return false;
    }
    s->product = NULL;
    return product->type != MD_I64 && !product->guard;
}

static bool rows_are_narrow(md_cg_narrow_search *s, const md_st_row *row)
{
    md_range_interval range;
    for (int32_t i = 0; i < row->n_reductions; i++) {
        const md_st_reduction *r = &row->reduction[i];
        if (r->type == MD_I64 || r->op == MD_FX_R_ARGMAX || r->op == MD_FX_R_ARGMIN ||
            !md_cg_is_narrow(s, r->body, &range))
            return false;
    }
    return true;
}

/* True if none of the stage's tensors has elements that 32 bits with a sign do not hold. Reals that are stored as
 * integers are converted in lanes, too. */
static bool tensors_are_narrow(md_cg_narrow_search *s, const md_st_stage *stage)
{
    md_range_interval range;
    for (int32_t i = 0; i < stage->n_tensors; i++) {
        if (stage->kind == MD_ST_PRODUCT && !stage->is_stored[i] && !(s->valued >> stage->tensor[i] & 1))
            continue; /* read by scalar subscripts only */
        const md_dtype dtype = s->program->formula->tensor[stage->tensor[i]].dtype;
        if (!md_dtype_is_real(dtype) && !range_of_dtype(&range, dtype))
            return false;
        s->has_integers = s->has_integers || (!md_dtype_is_real(dtype) && dtype != MD_BOOL);
    }
    return true;
}

bool md_cg_has_narrow_integers(const md_st_program *program, int32_t stage)
{
    const md_st_stage *st = &program->stage[stage];
    md_cg_narrow_search s = {.program = program, .limit = {INT32_MIN, INT32_MAX}};
    if ((st->has_gather && st->kind != MD_ST_PRODUCT) || st->has_scatter || !stores_are_narrow(&s, st))
        return false;
    const bool fits = st->kind == MD_ST_POINTWISE || (st->kind == MD_ST_ROW && rows_are_narrow(&s, &st->row)) ||
                      (st->kind == MD_ST_PRODUCT && products_are_narrow(&s, &st->product));
    return fits && tensors_are_narrow(&s, st) && s.has_integers;
}
