/* Warnings of loop nests that compute one result again and again: the slow part of a formula, and why it is slow. */
#include "stage/form.h"

#include "expr/diag.h"

typedef struct around {
    const struct around *up;
    int32_t index;
} around;

typedef struct search {
    const md_st_program *program;
    const around *inside; /* the loops around the node, innermost first */
    const md_fx_node *found;
    int32_t over; /* the index of the loop that repeats it */
} search;

static bool find(search *s, const md_fx_node *node);

static bool is_loop(const md_st_program *p, int32_t index)
{
    const int64_t size = p->formula->dim[p->index[index].dim].size;
    return size < 0 || size > 1;
}

/* The loops of a reduction, then its body. */
static bool find_below(search *s, const md_fx_node *node)
{
    around loop[MD_MAX_RANK];
    const around *const outside = s->inside;
    for (int32_t i = 0; i < node->n_bound && node->kind == MD_FX_REDUCE; i++) {
        loop[i] = (around){.up = s->inside, .index = node->bound[i]};
        s->inside = &loop[i];
    }
    const bool is_found = find(s, node->arg[0]);
    s->inside = outside;
    return is_found;
}

/* A reduction is repeated by a loop around it whose index it does not use; a scan by the loop along its own axis, since
 * a nest starts it anew for every element. */
static bool find(search *s, const md_fx_node *node)
{
    const bool reduces = node->kind == MD_FX_REDUCE, scans = node->kind == MD_FX_SCAN;
    for (const around *a = s->inside; a != NULL && (reduces || scans); a = a->up) {
        const bool is_repeat = scans ? a->index == node->bound[0] : !md_fx_uses_index(node, a->index);
        if (is_repeat && is_loop(s->program, a->index)) {
            s->found = node;
            s->over = a->index;
            return true;
        }
    }
    if (reduces || scans)
        return find_below(s, node);
    for (int32_t i = 0; i < node->n_args; i++)
        if (find(s, node->arg[i]))
            return true;
    return false;
}

static bool warn_of(md_fx_formula *f, const search *s, const md_fx_stmt *stmt)
{
    const bool has_place = s->found->line > 0;
    const char *const index = s->program->index[s->over].name;
    const char *const text = md_fx_remark(f->arena, f->text, has_place ? s->found->line : stmt->line,
                                          has_place ? s->found->column : stmt->column,
                                          "this %s is computed again for every '%s', in a loop nest that is slow at "
                                          "large sizes; give it a let of its own",
                                          s->found->kind == MD_FX_SCAN ? "scan" : "reduction", index);
    f->warning[f->n_warnings] = text;
    f->n_warnings += text != NULL;
    return text != NULL;
}

md_status md_st_warn(md_fx_formula *formula, const md_st_program *program)
{
    for (int32_t i = 0; i < program->n_stages; i++) {
        const md_st_stage *stage = &program->stage[i];
        around loop[MD_MAX_RANK * 2];
        search s = {.program = program};
        if (stage->kind != MD_ST_NEST || formula->n_warnings == MD_FX_MAX_WARNINGS)
            continue;
        for (int32_t k = 0; k < stage->n_outer; k++) {
            loop[k] = (around){.up = s.inside, .index = stage->outer[k]};
            s.inside = &loop[k];
        }
        const int32_t stmt = formula->tensor[stage->store[0].tensor].stmt;
        if (find(&s, stage->store[0].value) && !warn_of(formula, &s, &formula->stmt[stmt]))
            return md_fail_memory();
    }
    return MD_OK;
}
