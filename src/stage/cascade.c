/* Splitting the body of a reduction into a part of the element and a factor of earlier results. */
#include "stage/cascade.h"

#include "base/dtype.h"

typedef struct splitter {
    md_st_cascade *out;
    md_st_maker *maker;
    const md_st_cascade_rules *rules;
    bool has_failed;
} splitter;

/* Which REFs occur in a node: to results of earlier reductions, or to what the element itself gives. */
typedef struct sight {
    const md_st_cascade_rules *rules;
    bool sees_result, sees_element;
} sight;

static bool look(void *user, const md_fx_node *node)
{
    sight *s = user;
    if (node->kind == MD_FX_REF) {
        bool is_result = s->rules->is_result(s->rules->user, node);
        s->sees_result |= is_result;
        s->sees_element |= !is_result;
    }
    s->sees_element |= md_fx_is_index(node, s->rules->axis);
    return true;
}

static sight sight_of(const splitter *s, const md_fx_node *node)
{
    sight seen = {.rules = s->rules};
    (void)md_fx_visit(node, look, &seen);
    return seen;
}

/* exp(a - reference) with `a` of the element and the reference of results. */
static bool take_exponential(splitter *s, const md_fx_node *node)
{
    if (node->kind != MD_FX_OP || node->op != MD_FX_EXP || node->arg[0]->kind != MD_FX_OP ||
        node->arg[0]->op != MD_FX_SUB || s->out->exponential != NULL)
        return false;
    const md_fx_node *a = node->arg[0]->arg[0], *reference = node->arg[0]->arg[1];
    sight in_a = sight_of(s, a), in_reference = sight_of(s, reference);
    if (in_a.sees_result || in_reference.sees_element || !in_reference.sees_result ||
        !s->rules->is_shifted(s->rules->user, a, reference))
        return false;
    s->out->exponential = node;
    s->out->a = a;
    s->out->reference = reference;
    return true;
}

static bool is_narrowing(const md_fx_node *node)
{
    return node->kind == MD_FX_CAST && md_dtype_is_real(node->to) && node->to != node->type &&
           md_dtype_is_real(node->arg[0]->type);
}

static const md_fx_node *part_of(splitter *s, const md_fx_node *node);

static const md_fx_node *made(splitter *s, const md_fx_node *node)
{
    (void)md_st_made(s->maker, node);
    return node;
}

/* A factor without what leaves it; NULL: nothing is left. */
static const md_fx_node *rest_of(splitter *s, const md_st_factor *factor)
{
    sight seen = sight_of(s, factor->node);
    if (!seen.sees_result)
        return factor->node;
    if (!seen.sees_element && s->out->outer.n < MD_ST_MAX_FACTORS) {
        s->out->outer.factor[s->out->outer.n++] = *factor;
        return NULL;
    }
    if (!factor->is_divisor && take_exponential(s, factor->node))
        return factor->node;
    if (!factor->is_divisor && is_narrowing(factor->node)) {
        s->out->is_rounded = true;
        const md_fx_node *inside = part_of(s, factor->node->arg[0]);
        if (inside == factor->node->arg[0])
            return factor->node;
        return inside != NULL ? made(s, md_fx_cast(s->maker->arena, inside, factor->node->to)) : NULL;
    }
    s->has_failed = true;
    return NULL;
}

static const md_fx_node *part_of(splitter *s, const md_fx_node *node)
{
    md_st_factors f;
    const md_fx_node *acc = NULL;
    bool is_whole = true;
    md_st_factors_of(&f, node);
    for (int32_t i = 0; i < f.n && !s->has_failed; i++) {
        md_st_factor left = f.factor[i];
        left.node = rest_of(s, &f.factor[i]);
        is_whole &= left.node == f.factor[i].node;
        if (left.node)
            acc = md_st_times(s->maker, acc, &left, f.type);
    }
    if (is_whole)
        return node;
    if (!f.is_negative)
        return acc;
    md_arena *a = s->maker->arena;
    return made(s, acc ? md_fx_op1(a, MD_FX_NEG, acc) : md_fx_real(a, -1.0, f.type));
}

bool md_st_cascade_of(md_st_cascade *out, md_st_maker *m, const md_fx_node *body, const md_st_cascade_rules *rules)
{
    splitter s = {.out = out, .maker = m, .rules = rules};
    *out = (md_st_cascade){.outer = {.type = body->type}};
    out->part = part_of(&s, body);
    return !s.has_failed && !m->no_memory;
}
