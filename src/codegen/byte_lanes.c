/* Whether all values of a stage fit into one byte, or two: then lanes are bytes, or words. Reals of 8 or 16 bits are
 * selected, compared and negated as memory holds them. */
#include "codegen/narrow.h"

#include "base/dtype.h"

/* Operations whose low bits need no more than the low bits of their operands. */
static bool is_modular(md_fx_op op)
{
    return op == MD_FX_NEG || op == MD_FX_ADD || op == MD_FX_SUB || op == MD_FX_MUL || op == MD_FX_FMA ||
           op == MD_FX_BIT_AND || op == MD_FX_BIT_OR || op == MD_FX_BIT_XOR || op == MD_FX_BIT_NOT;
}

/* Types to which a conversion keeps the low bits of a lane. */
static bool keeps_item(const md_cg_narrow_search *s, md_dtype to)
{
    return to == MD_I64 || to == MD_I32 || to == MD_I16 || to == MD_U16 ||
           (s->bits <= 8 && (to == MD_I8 || to == MD_U8)) || (s->bits == 4 && (to == MD_I4 || to == MD_U4));
}

/* True if lanes give the low bits of an integer, as many as they have. */
static bool wraps(md_cg_narrow_search *s, const md_fx_node *n)
{
    md_range_interval range;
    md_cg_narrow_search whole = *s;
    int32_t from = 0;
    if (md_cg_is_narrow(&whole, n, &range)) /* the range is of the result: every operand is in it, too */
        return true;
    if (++s->n_nodes > MD_CG_NARROW_NODES || n->type != MD_I64)
        return false;
    if (n->kind == MD_FX_CONST)
        return true;
    if (n->kind == MD_FX_LOAD)
        return md_cg_is_lane_item(s, s->program->formula->tensor[n->id].dtype) && md_cg_is_narrow_load(s, n, &range);
    if (n->kind == MD_FX_CAST && keeps_item(s, n->to))
        return n->arg[0]->type == MD_I64 && wraps(s, n->arg[0]);
    if (n->kind != MD_FX_OP || (n->op != MD_FX_WHERE && !(is_modular(n->op) && md_cg_has_lane_form(s, n->op))))
        return false;
    if (n->op == MD_FX_WHERE && !md_cg_is_narrow(s, n->arg[from++], &range))
        return false;
    for (; from < n->n_args; from++)
        if (!wraps(s, n->arg[from]))
            return false;
    return true;
}

static bool stores_are_bytes(md_cg_narrow_search *s, const md_st_stage *stage)
{
    md_range_interval range;
    for (int32_t i = 0; i < stage->n_stores; i++) {
        const md_st_store *store = &stage->store[i];
        const md_dtype to = s->program->formula->tensor[store->tensor].dtype;
        if (store->per_row)
            continue;
        if (!md_cg_is_lane_item(s, to) || store->assign != MD_FX_SET || store->n_subscripts == 0 ||
            !md_cg_is_vector_access(s, store->tensor, store->n_subscripts, store->subscript) ||
            !md_fx_uses_index(store->subscript[store->n_subscripts - 1], s->lane))
            return false;
        if (to == MD_BOOL   ? !md_cg_is_narrow(s, store->value, &range)
            : to == s->real ? !md_cg_is_bits(s, store->value)
                            : !wraps(s, store->value))
            return false;
    }
    return true;
}

/* Sums of f16 are no faster in halves of a register, which must be moved before they are widened. */
static bool is_row_of_bits(md_cg_narrow_search *s, const md_st_reduction *r)
{
    return r->type == MD_F32 && !(s->real == MD_F16 && r->op == MD_FX_R_SUM) && md_cg_is_bits(s, r->body);
}

static bool rows_are_bytes(md_cg_narrow_search *s, const md_st_row *row)
{
    md_range_interval range;
    for (int32_t i = 0; i < row->n_reductions; i++) {
        const md_st_reduction *r = &row->reduction[i];
        const bool has_form = r->op == MD_FX_R_SUM || r->op == MD_FX_R_MAX || r->op == MD_FX_R_MIN ||
                              r->op == MD_FX_R_ANY || r->op == MD_FX_R_ALL;
        if (!has_form || (md_dtype_is_real(r->type) ? !is_row_of_bits(s, r) : !md_cg_is_narrow(s, r->body, &range)))
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
    md_cg_narrow_search s = {.program = program,
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
