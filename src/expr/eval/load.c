/* Loads: elements of tensors, checked against their sizes where a subscript is not a plain index. */
#include "expr/eval/code.h"

#include <string.h>

typedef struct load {
    int32_t tensor, n;
    int32_t index[MD_MAX_RANK]; /* where all subscripts are plain */
    const md_eval_code *subscript[MD_MAX_RANK]; /* otherwise */
} load;

bool md_eval_locate(md_eval_machine *m, int32_t tensor, int64_t *at)
{
    const md_eval_access *a = &m->tensor[tensor];
    for (int32_t i = 0; i < a->rank; i++) {
        if (at[i] >= 0 && at[i] < a->size[i])
            continue;
        if (m->formula->bounds == MD_BOUNDS_CLAMP && a->size[i] > 0) {
            at[i] = at[i] < 0 ? 0 : a->size[i] - 1;
            continue;
        }
        if (m->formula->bounds == MD_BOUNDS_REPORT && !m->fault->is_set)
            *m->fault = (md_fx_fault){.is_set = true, .tensor = tensor, .axis = i, .value = at[i]};
        return false;
    }
    return true;
}

/* ---- plain subscripts: the indices run over the axes, nothing to check ---- */

static inline int64_t plain_offset(const md_eval_machine *m, const load *l, const md_eval_access *a)
{
    int64_t offset = 0;
    for (int32_t i = 0; i < l->n; i++)
        offset += m->at[l->index[i]] * a->stride[i];
    return offset;
}

#define PLAIN_REAL(name, expression)                                                                                   \
    static double plain_##name(md_eval_machine *m, const md_eval_code *c)                                              \
    {                                                                                                                  \
        const load *l = c->more;                                                                                       \
        const md_eval_access *a = &m->tensor[l->tensor];                                                               \
        int64_t i = plain_offset(m, l, a);                                                                             \
        return expression;                                                                                             \
    }
PLAIN_REAL(f32, (double)((const float *)a->base)[i])
PLAIN_REAL(f64, ((const double *)a->base)[i])
PLAIN_REAL(f16, (double)md_f16_to_f32(((const uint16_t *)a->base)[i]))
PLAIN_REAL(bf16, (double)md_bf16_to_f32(((const uint16_t *)a->base)[i]))
PLAIN_REAL(other, md_dtype_load(a->dtype, a->base, i))
#undef PLAIN_REAL

static int64_t plain_int(md_eval_machine *m, const md_eval_code *c)
{
    const load *l = c->more;
    const md_eval_access *a = &m->tensor[l->tensor];
    return md_dtype_load_int(a->dtype, a->base, plain_offset(m, l, a));
}

/* ---- any subscripts ---- */

static bool find(md_eval_machine *m, const load *l, int64_t *at)
{
    for (int32_t i = 0; i < l->n; i++)
        at[i] = md_eval_int(m, l->subscript[i]);
    return md_eval_locate(m, l->tensor, at);
}

static double checked_real(md_eval_machine *m, const md_eval_code *c)
{
    const load *l = c->more;
    const md_eval_access *a = &m->tensor[l->tensor];
    int64_t at[MD_MAX_RANK];
    return find(m, l, at) ? md_dtype_load(a->dtype, a->base, md_eval_offset(a, at)) : 0.0;
}

static int64_t checked_int(md_eval_machine *m, const md_eval_code *c)
{
    const load *l = c->more;
    const md_eval_access *a = &m->tensor[l->tensor];
    int64_t at[MD_MAX_RANK];
    return find(m, l, at) ? md_dtype_load_int(a->dtype, a->base, md_eval_offset(a, at)) : 0;
}

/* ---- elements that are computed on demand ---- */

static void compute(md_eval_machine *m, int32_t tensor, const int64_t *at, md_eval_cached *slot)
{
    const md_fx_tensor *t = &m->formula->tensor[tensor];
    const md_fx_stmt *s = &m->formula->stmt[t->stmt];
    const md_eval_code *value = m->value[t->stmt];
    slot->is_valid = true;
    slot->real = 0.0;
    slot->whole = 0;
    memcpy(slot->at, at, sizeof(slot->at));
    for (int32_t i = 0; i < t->rank; i++)
        m->at[s->subscript[i]->id] = at[i];
    bool is_rounded = t->role != MD_FX_TEMP || t->is_declared;
    int64_t cell = 0;
    if (value->real) {
        slot->real = md_eval_real(m, value);
        if (is_rounded && md_dtype_is_real(t->dtype))
            slot->real = md_dtype_round(t->dtype, slot->real);
        md_dtype_store(md_dtype_is_real(t->dtype) ? MD_I64 : t->dtype, &cell, 0, slot->real);
        slot->whole = md_dtype_load_int(md_dtype_is_real(t->dtype) ? MD_I64 : t->dtype, &cell, 0);
    } else {
        slot->whole = md_eval_int(m, value);
        if (is_rounded && !md_dtype_is_real(t->dtype)) {
            md_dtype_store_int(t->dtype, &cell, 0, slot->whole);
            slot->whole = md_dtype_load_int(t->dtype, &cell, 0);
        }
        slot->real = md_dtype_round(is_rounded && md_dtype_is_real(t->dtype) ? t->dtype : MD_F64, (double)slot->whole);
    }
}

static const md_eval_cached *demand(md_eval_machine *m, const load *l)
{
    static const md_eval_cached nothing = {.is_valid = true};
    int64_t at[MD_MAX_RANK] = {0};
    if (!find(m, l, at))
        return &nothing;
    if (!m->cached[l->tensor])
        m->cached[l->tensor] = md_arena_alloc(m->arena, MD_EVAL_CACHED * sizeof(md_eval_cached));
    if (!m->cached[l->tensor]) {
        m->status = md_fail_memory();
        return &nothing;
    }
    uint64_t hash = 0;
    for (int32_t i = 0; i < l->n; i++)
        hash = hash * 0x9e3779b97f4a7c15u + (uint64_t)at[i];
    md_eval_cached *slot = &m->cached[l->tensor][(hash ^ hash >> 32) % MD_EVAL_CACHED];
    if (!slot->is_valid || memcmp(slot->at, at, sizeof(at)) != 0) {
        md_eval_cached computed;
        compute(m, l->tensor, at, &computed); /* computing an element may use this table, too */
        *slot = computed;
    }
    return slot;
}

static double lazy_real(md_eval_machine *m, const md_eval_code *c)
{
    return demand(m, c->more)->real;
}

static int64_t lazy_int(md_eval_machine *m, const md_eval_code *c)
{
    return demand(m, c->more)->whole;
}

/* ---- which kind a load is ---- */

static bool is_plain(const md_eval_machine *m, const md_fx_node *node)
{
    const md_fx_formula *f = m->formula;
    for (int32_t i = 0; i < node->n_args; i++) {
        const md_fx_node *s = node->arg[i];
        if (s->kind != MD_FX_INDEX || m->binding->size[f->index[s->id].dim] > m->tensor[node->id].size[i])
            return false;
    }
    return true;
}

static void choose(const md_eval_machine *m, md_eval_code *c, const md_fx_node *node, bool plain)
{
    static const md_eval_real_fn by_type[] = {
        [MD_F32] = plain_f32, [MD_F64] = plain_f64, [MD_F16] = plain_f16, [MD_BF16] = plain_bf16};
    md_dtype type = m->tensor[node->id].dtype;
    bool is_real = md_dtype_is_real(node->type);
    if (m->is_lazy[node->id]) {
        c->real = is_real ? lazy_real : NULL;
        c->integer = is_real ? NULL : lazy_int;
    } else if (is_real) {
        c->real = !plain || !md_dtype_is_real(type) ? checked_real
                  : (int)type < MD_COUNT(by_type)   ? by_type[type]
                                                    : plain_other;
    } else {
        c->integer = plain ? plain_int : checked_int;
    }
}

/* ---- lengths ---- */

static int64_t run_length(md_eval_machine *m, const md_eval_code *c)
{
    const int64_t length = md_eval_int(m, c->arg[0]);
    if (length > m->binding->size[c->id] && !m->fault->is_set)
        *m->fault = (md_fx_fault){
            .is_set = true, .tensor = (int32_t)c->whole, .axis = md_fx_length_axis(c->id), .value = length};
    return length;
}

const md_eval_code *md_eval_length(md_eval_machine *m, const md_fx_node *node, const md_eval_code *value)
{
    md_eval_code *c = md_eval_code_new(m);
    if (!c)
        return NULL;
    c->integer = run_length;
    c->arg[0] = value;
    c->id = node->id;
    c->whole = node->arg[0]->id;
    c->uses = value->uses;
    return c;
}

/* ---- making them ---- */

const md_eval_code *md_eval_load(md_eval_machine *m, const md_fx_node *node, const md_eval_code *const *arg)
{
    md_eval_code *c = md_eval_code_new(m);
    load *l = md_arena_alloc(m->arena, sizeof *l);
    if (!c || !l)
        return NULL;
    c->more = l;
    l->tensor = node->id;
    l->n = node->n_args;
    for (int32_t i = 0; i < node->n_args; i++) {
        l->subscript[i] = arg[i];
        l->index[i] = node->arg[i]->kind == MD_FX_INDEX ? node->arg[i]->id : 0;
        md_eval_set_join(&c->uses, &l->subscript[i]->uses);
    }
    choose(m, c, node, is_plain(m, node));
    return c;
}
