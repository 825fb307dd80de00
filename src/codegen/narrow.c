/* Whether the integers of a stage fit into 32 bits: then host kernels compute them in lanes of 32 bits, one register
 * instead of two. Whether all values fit into one byte, or two: then lanes are bytes, or words. Reals of 8 or 16 bits
 * are selected, compared and negated as memory holds them. */
#include "base/dtype.h"
#include "codegen/codegen.h"
#include "expr/range/range.h"

#include <math.h>

enum { MOST_NODES = 512 }; /* operands that are shared are met several times */

typedef struct search {
    const md_st_program *program;
    int32_t n_nodes;
    md_range_interval limit; /* of what a lane holds */
    int32_t lane; /* bytes: the index along the lanes */
    bool is_bytes; /* lanes hold no reals, and read and write vectors */
    int32_t bits; /* bytes: of a lane, 4, 8 (i4 and u4 too) or 16 */
    md_dtype real; /* bytes: the type of the reals that lanes hold, and of no integers; MD_F32: none */
    bool has_integers; /* else nobody needs the answer */
    const md_st_product *product; /* whose operand B is searched; NULL: another expression */
    uint32_t valued; /* tensors whose elements are values, and not only subscripts */
} search;

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

static bool is_narrow(search *s, const md_fx_node *n, md_range_interval *out);

/* Subscripts of operand B that are scalars whichever index the lanes run over: W[eid[t],n,k], s[n,k // 32]
 * (codegen/product/operand.c: lanes share such quotients). */
static bool is_shared_in_product(const search *s, const md_fx_node *subscript)
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
static bool has_plain_subscripts(const search *s, const md_fx_node *load)
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
static bool is_vector(const search *s, int32_t tensor, int32_t rank, const md_fx_node *const *subscript)
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
static bool is_item(const search *s, md_dtype dtype)
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

static bool is_item_load(const search *s, const md_fx_node *n)
{
    const bool varies = n->n_args > 0 && md_fx_uses_index(n->arg[n->n_args - 1], s->lane);
    return is_vector(s, n->id, n->n_args, n->arg) && (!varies || is_item(s, s->program->formula->tensor[n->id].dtype));
}

static bool is_narrow_load(const search *s, const md_fx_node *n, md_range_interval *out)
{
    return has_plain_subscripts(s, n) && (!s->is_bytes || is_item_load(s, n)) &&
           (n->type != MD_I64 || range_of_dtype(out, s->program->formula->tensor[n->id].dtype));
}

static bool add(md_range_interval *out, md_range_interval a, int64_t sign, md_range_interval b)
{
    *out = sign > 0 ? (md_range_interval){a.lo + b.lo, a.hi + b.hi} : (md_range_interval){a.lo - b.hi, a.hi - b.lo};
    return true; /* of numbers of 32 bits */
}

static bool range_of_op(md_range_interval *out, const md_fx_node *n, const md_range_interval arg[3])
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
static bool has_lane_form(const search *s, md_fx_op op)
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
static bool is_held(const search *s, const md_fx_node *n)
{
    uint64_t stored = 0;
    const double value = md_dtype_is_real(n->type) ? n->num : (double)n->integer;
    md_dtype_store(s->real, &stored, 0, value);
    const double loaded = md_dtype_load(s->real, &stored, 0);
    return loaded == value && signbit(loaded) == signbit(value);
}

static bool is_bits(search *s, const md_fx_node *n);

/* Operands of an operation on reals: a condition, constants and reals. */
static bool are_bits(search *s, const md_fx_node *n)
{
    md_range_interval range;
    if (!has_bit_form(n->op))
        return false;
    for (int32_t i = 0; i < n->n_args; i++)
        if (n->op == MD_FX_WHERE && i == 0 ? !is_narrow(s, n->arg[0], &range) : !is_bits(s, n->arg[i]))
            return false;
    return true;
}

/* True if the value is one of the lanes' type: lanes hold it as memory does. */
static bool is_bits(search *s, const md_fx_node *n)
{
    if (s->real == MD_F32 || ++s->n_nodes > MOST_NODES)
        return false;
    if (n->kind == MD_FX_CONST)
        return n->type != MD_BOOL && is_held(s, n);
    if (n->type != MD_F32)
        return false;
    if (n->kind == MD_FX_LOAD)
        return s->program->formula->tensor[n->id].dtype == s->real && has_plain_subscripts(s, n) && is_item_load(s, n);
    if (n->kind == MD_FX_CAST)
        return (n->to == MD_F32 || n->to == s->real) && md_dtype_is_real(n->arg[0]->type) && is_bits(s, n->arg[0]);
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
static bool is_narrow_op(search *s, const md_fx_node *n, md_range_interval *out)
{
    md_range_interval arg[3] = {{0, 0}};
    if (s->is_bytes && is_test_of_reals(n))
        return are_bits(s, n);
    if (s->is_bytes && !has_lane_form(s, n->op))
        return false;
    for (int32_t i = 0; i < n->n_args; i++)
        if (!is_narrow(s, n->arg[i], &arg[i < 3 ? i : 2]))
            return false;
    return n->type != MD_I64 || (n->n_args <= 3 && range_of_op(out, n, arg));
}

/* Of an integer or a truth value. */
static bool is_lane_type(const search *s, md_dtype type)
{
    return type == MD_BOOL || (s->real == MD_F32 && !md_dtype_is_real(type));
}

static bool is_narrow(search *s, const md_fx_node *n, md_range_interval *out)
{
    *out = (md_range_interval){0, 1}; /* of a truth value; of a real nobody asks */
    bool fits = ++s->n_nodes <= MOST_NODES;
    s->has_integers = s->has_integers || n->type == MD_I64;
    switch (fits ? n->kind : MD_FX_INDEX) {
    case MD_FX_CONST:
        if (n->type == MD_I64)
            *out = (md_range_interval){n->integer, n->integer};
        break;
    case MD_FX_LOAD:
        s->valued |= UINT32_C(1) << n->id;
        fits = is_narrow_load(s, n, out);
        break;
    case MD_FX_OP:
        fits = is_narrow_op(s, n, out);
        break;
    case MD_FX_CAST:
        fits = is_narrow(s, n->arg[0], out) && (n->type != MD_I64 || range_of_dtype(out, n->to));
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

static bool stores_are_narrow(search *s, const md_st_stage *stage)
{
    md_range_interval range;
    for (int32_t i = 0; i < stage->n_stores; i++)
        if (!is_narrow(s, stage->store[i].value, &range))
            return false;
    return true;
}

static bool products_are_narrow(search *s, const md_st_product *product)
{
    md_range_interval range;
    for (int32_t i = 0; i < product->n_products; i++) {
        s->product = NULL;
        if (!is_narrow(s, product->a[i], &range))
            return false;
        s->product = product;
        if (!is_narrow(s, product->b[i], &range))
            return false;
    }
    s->product = NULL;
    return product->type != MD_I64;
}

static bool rows_are_narrow(search *s, const md_st_row *row)
{
    md_range_interval range;
    for (int32_t i = 0; i < row->n_reductions; i++) {
        const md_st_reduction *r = &row->reduction[i];
        if (r->type == MD_I64 || r->op == MD_FX_R_ARGMAX || r->op == MD_FX_R_ARGMIN || !is_narrow(s, r->body, &range))
            return false;
    }
    return true;
}

/* True if none of the stage's tensors has elements that 32 bits with a sign do not hold. Reals that are stored as
 * integers are converted in lanes, too. */
static bool tensors_are_narrow(search *s, const md_st_stage *stage)
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
    search s = {.program = program, .limit = {INT32_MIN, INT32_MAX}};
    if ((st->has_gather && st->kind != MD_ST_PRODUCT) || st->has_scatter || !stores_are_narrow(&s, st))
        return false;
    const bool fits = st->kind == MD_ST_POINTWISE || (st->kind == MD_ST_ROW && rows_are_narrow(&s, &st->row)) ||
                      (st->kind == MD_ST_PRODUCT && products_are_narrow(&s, &st->product));
    return fits && tensors_are_narrow(&s, st) && s.has_integers;
}

/* ---- Bytes */

/* Operations whose low bits need no more than the low bits of their operands. */
static bool is_modular(md_fx_op op)
{
    return op == MD_FX_NEG || op == MD_FX_ADD || op == MD_FX_SUB || op == MD_FX_MUL || op == MD_FX_FMA ||
           op == MD_FX_BIT_AND || op == MD_FX_BIT_OR || op == MD_FX_BIT_XOR || op == MD_FX_BIT_NOT;
}

/* Types to which a conversion keeps the low bits of a lane. */
static bool keeps_item(const search *s, md_dtype to)
{
    return to == MD_I64 || to == MD_I32 || to == MD_I16 || to == MD_U16 ||
           (s->bits <= 8 && (to == MD_I8 || to == MD_U8)) || (s->bits == 4 && (to == MD_I4 || to == MD_U4));
}

/* True if lanes give the low bits of an integer, as many as they have. */
static bool wraps(search *s, const md_fx_node *n)
{
    md_range_interval range;
    search whole = *s;
    int32_t from = 0;
    if (is_narrow(&whole, n, &range)) /* the range is of the result: every operand is in it, too */
        return true;
    if (++s->n_nodes > MOST_NODES || n->type != MD_I64)
        return false;
    if (n->kind == MD_FX_CONST)
        return true;
    if (n->kind == MD_FX_LOAD)
        return is_item(s, s->program->formula->tensor[n->id].dtype) && is_narrow_load(s, n, &range);
    if (n->kind == MD_FX_CAST && keeps_item(s, n->to))
        return n->arg[0]->type == MD_I64 && wraps(s, n->arg[0]);
    if (n->kind != MD_FX_OP || (n->op != MD_FX_WHERE && !(is_modular(n->op) && has_lane_form(s, n->op))))
        return false;
    if (n->op == MD_FX_WHERE && !is_narrow(s, n->arg[from++], &range))
        return false;
    for (; from < n->n_args; from++)
        if (!wraps(s, n->arg[from]))
            return false;
    return true;
}

static bool stores_are_bytes(search *s, const md_st_stage *stage)
{
    md_range_interval range;
    for (int32_t i = 0; i < stage->n_stores; i++) {
        const md_st_store *store = &stage->store[i];
        const md_dtype to = s->program->formula->tensor[store->tensor].dtype;
        if (store->per_row)
            continue;
        if (!is_item(s, to) || store->assign != MD_FX_SET || store->n_subscripts == 0 ||
            !is_vector(s, store->tensor, store->n_subscripts, store->subscript) ||
            !md_fx_uses_index(store->subscript[store->n_subscripts - 1], s->lane))
            return false;
        if (to == MD_BOOL   ? !is_narrow(s, store->value, &range)
            : to == s->real ? !is_bits(s, store->value)
                            : !wraps(s, store->value))
            return false;
    }
    return true;
}

/* Sums of f16 are no faster in halves of a register, which must be moved before they are widened. */
static bool is_row_of_bits(search *s, const md_st_reduction *r)
{
    return r->type == MD_F32 && !(s->real == MD_F16 && r->op == MD_FX_R_SUM) && is_bits(s, r->body);
}

static bool rows_are_bytes(search *s, const md_st_row *row)
{
    md_range_interval range;
    for (int32_t i = 0; i < row->n_reductions; i++) {
        const md_st_reduction *r = &row->reduction[i];
        const bool has_form = r->op == MD_FX_R_SUM || r->op == MD_FX_R_MAX || r->op == MD_FX_R_MIN ||
                              r->op == MD_FX_R_ANY || r->op == MD_FX_R_ALL;
        if (!has_form || (md_dtype_is_real(r->type) ? !is_row_of_bits(s, r) : !is_narrow(s, r->body, &range)))
            return false;
    }
    return true;
}

typedef struct lanes {
    md_cg_bytes bytes;
    int32_t bits; /* of a lane */
    md_range_interval limit;
    md_dtype real; /* MD_F32: lanes are integers */
} lanes;

/* In order of preference. */
static const lanes kinds[] = {
    {MD_CG_SIGNED_HALVES, 4, {-8, 7}, MD_F32},
    {MD_CG_UNSIGNED_HALVES, 4, {0, 15}, MD_F32},
    {MD_CG_SIGNED_BYTES, 8, {INT8_MIN, INT8_MAX}, MD_F32},
    {MD_CG_UNSIGNED_BYTES, 8, {0, UINT8_MAX}, MD_F32},
    {MD_CG_SIGNED_WORDS, 16, {INT16_MIN, INT16_MAX}, MD_F32},
    {MD_CG_UNSIGNED_WORDS, 16, {0, UINT16_MAX}, MD_F32},
    {MD_CG_F8E4M3_BITS, 8, {0, 1}, MD_F8E4M3},
    {MD_CG_F8E5M2_BITS, 8, {0, 1}, MD_F8E5M2},
    {MD_CG_BF16_BITS, 16, {0, 1}, MD_BF16},
    {MD_CG_F16_BITS, 16, {0, 1}, MD_F16},
};

static bool fits(const md_st_program *program, int32_t stage, const lanes *kind)
{
    const md_st_stage *st = &program->stage[stage];
    search s = {.program = program,
                .limit = kind->limit,
                .lane = st->axis,
                .is_bytes = true,
                .bits = kind->bits,
                .real = kind->real};
    return stores_are_bytes(&s, st) && (st->kind != MD_ST_ROW || rows_are_bytes(&s, &st->row));
}

static void find_bytes(void *out, const md_st_program *program, int32_t stage, const void *user)
{
    const md_st_stage *st = &program->stage[stage];
    md_cg_bytes *bytes = out;
    (void)user;
    *bytes = MD_CG_NO_BYTES;
    if (st->has_gather || st->has_scatter || st->axis < 0 || (st->kind != MD_ST_POINTWISE && st->kind != MD_ST_ROW))
        return;
    for (int32_t i = 0; i < MD_COUNT(kinds) && *bytes == MD_CG_NO_BYTES; i++)
        if (fits(program, stage, &kinds[i]))
            *bytes = kinds[i].bytes;
}

static const lanes *kind_of(md_cg_bytes bytes)
{
    static const lanes none = {MD_CG_NO_BYTES, 32, {INT32_MIN, INT32_MAX}, MD_F32};
    for (int32_t i = 0; i < MD_COUNT(kinds); i++)
        if (kinds[i].bytes == bytes)
            return &kinds[i];
    return &none;
}

int32_t md_cg_lanes_per_32_bits(md_cg_bytes bytes)
{
    return 32 / kind_of(bytes)->bits;
}

bool md_cg_has_byte_operators(md_cg_bytes bytes)
{
    const lanes *kind = kind_of(bytes);
    return kind->bits > 4 && kind->real == MD_F32;
}

md_dtype md_cg_bits_dtype(md_cg_bytes bytes)
{
    return kind_of(bytes)->real;
}

md_cg_bytes md_cg_byte_lanes(const md_st_program *program, int32_t stage)
{
    md_cg_bytes bytes = MD_CG_NO_BYTES;
    md_st_know(&bytes, program, stage,
               &(md_st_fact){.which = MD_ST_KNOWN_BYTES, .n_bytes = sizeof bytes, .make = find_bytes});
    return bytes;
}
