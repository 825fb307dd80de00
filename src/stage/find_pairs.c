/* Finding products whose results other products use up: as operands, or in their epilogues. */
#include "stage/chains.h"

bool md_st_has_part(const md_st_parts *parts, int32_t group)
{
    for (int32_t i = 0; i < parts->n; i++)
        if (parts->group[i] == group)
            return true;
    return false;
}

typedef enum part_role {
    NO_PART,
    INNER, /* other parts read what it writes */
    LAST
} part_role;

typedef struct search {
    const md_st_draft *draft;
    part_role role[MD_FX_MAX_STMTS];
    bool has_failed, has_grown;
} search;

static bool writes_temporary(const md_st_draft *d, int32_t group, int32_t tensor)
{
    const md_st_stage *s = &d->group[group].stage;
    for (int32_t i = 0; i < s->n_tensors; i++)
        if (s->tensor[i] == tensor)
            return s->is_stored[i] && d->formula->tensor[tensor].role == MD_FX_TEMP;
    return false;
}

static bool is_operand(const md_st_stage *s, int32_t tensor)
{
    return md_st_product_reads(&s->product, tensor);
}

static bool reads(const md_st_draft *d, int32_t group, int32_t tensor)
{
    const md_st_stage *s = &d->group[group].stage;
    for (int32_t i = 0; i < s->n_tensors; i++)
        if (s->tensor[i] == tensor)
            return !writes_temporary(d, group, tensor);
    return false;
}

static void set_role(search *s, int32_t group, part_role role)
{
    s->has_failed |=
        (s->role[group] != NO_PART && s->role[group] != role) || s->draft->group[group].stage.kind != MD_ST_PRODUCT;
    s->has_grown |= s->role[group] == NO_PART;
    s->role[group] = role;
}

/* Everybody who reads what an inner part writes is a part. */
static void add_readers(search *s, int32_t group)
{
    const md_st_draft *d = s->draft;
    const md_st_stage *stage = &d->group[group].stage;
    for (int32_t t = 0; t < stage->n_tensors; t++) {
        if (!stage->is_stored[t])
            continue;
        s->has_failed |= !writes_temporary(d, group, stage->tensor[t]);
        for (int32_t g = 0; g < d->n_groups && !s->has_failed; g++)
            if (g != group && reads(d, g, stage->tensor[t]))
                set_role(s, g, is_operand(&d->group[g].stage, stage->tensor[t]) ? LAST : INNER);
    }
}

/* Products whose results a part reads where it reads those of inner parts: in an epilogue; a last one as operand. */
static void add_writers(search *s, int32_t group)
{
    const md_st_draft *d = s->draft;
    const md_st_stage *stage = &d->group[group].stage;
    for (int32_t t = 0; t < stage->n_tensors; t++)
        for (int32_t g = 0; g < group && !stage->is_stored[t]; g++)
            if (d->group[g].stage.kind == MD_ST_PRODUCT && writes_temporary(d, g, stage->tensor[t]) &&
                is_operand(stage, stage->tensor[t]) == (s->role[group] == LAST))
                set_role(s, g, INNER);
}

bool md_st_find_pairs(md_st_parts *out, const md_st_draft *draft, int32_t first)
{
    search s = {.draft = draft};
    *out = (md_st_parts){.n = 0};
    set_role(&s, first, INNER);
    while (s.has_grown && !s.has_failed) {
        s.has_grown = false;
        for (int32_t g = 0; g < draft->n_groups && !s.has_failed; g++) {
            if (s.role[g] == INNER)
                add_readers(&s, g);
            if (s.role[g] != NO_PART)
                add_writers(&s, g);
        }
    }
    for (int32_t g = 0; g < draft->n_groups && !s.has_failed; g++) {
        if (s.role[g] == NO_PART)
            continue;
        if (out->n == MD_ST_MAX_PARTS)
            return false;
        out->group[out->n++] = g;
    }
    return !s.has_failed && out->n > 2;
}
