/* Warnings of scatters that round often, and of loop nests that compute one result again and again, or take very many
 * steps: the slow part of a formula, and why it is slow. */
#include "stage/form.h"

#include "base/dtype.h"
#include "expr/diag.h"

#include <math.h>

/* A nest is costly from about a tenth of a second on, if another way to write it could take less. */
#define COSTLY_OPERATIONS 1e8
#define COSTLY_RATIO 64.0
/* Roundings of a scatter's element that may take this part of it. */
#define LOSSY 0.0625

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
    for (const around *a = s->inside; a && (reduces || scans); a = a->up) {
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

/* Where the formula has the node (NULL: none), or the statement. */
static bool add_warning(md_fx_formula *f, const md_fx_node *node, const md_fx_stmt *stmt, const char *message)
{
    const bool has_place = node && node->line > 0;
    const char *const text = !message ? NULL
                                      : md_fx_remark(f->arena, f->text, has_place ? node->line : stmt->line,
                                                     has_place ? node->column : stmt->column, "%s", message);
    f->warning[f->n_warnings] = text;
    f->n_warnings += text != NULL;
    return text != NULL;
}

static bool warn_of_repeat(md_fx_formula *f, const search *s, const md_fx_stmt *stmt)
{
    return add_warning(f, s->found, stmt,
                       md_arena_printf(f->arena,
                                       "this %s is computed again for every '%s', in a loop nest that is slow at "
                                       "large sizes; give it a let of its own",
                                       s->found->kind == MD_FX_SCAN ? "scan" : "reduction",
                                       s->program->index[s->over].name));
}

typedef struct touched {
    const md_st_program *program;
    const int64_t *size;
    double elements; /* the most points of indices that one load has: a tensor has at least so many elements */
} touched;

static bool note_touched(void *user, const md_fx_node *node)
{
    touched *t = user;
    double points = 1;
    if (node->kind != MD_FX_LOAD)
        return true;
    const md_st_set used = md_st_indices(node);
    for (int32_t id = 0; id < t->program->n_indices; id++)
        if (md_st_set_has(&used, id))
            points *= (double)md_st_size(t->program, id, t->size);
    t->elements = points > t->elements ? points : t->elements;
    return true;
}

static bool is_no_reduction(void *user, const md_fx_node *node)
{
    if (node->kind == MD_FX_REDUCE)
        *(const md_fx_node **)user = node;
    return node->kind != MD_FX_REDUCE;
}

/* Warns of a nest of many loops over few elements: splitting found no part of it that could be a stage of its own. */
static bool warn_of_cost(md_fx_formula *f, const md_st_program *p, int32_t stage, const md_fx_stmt *stmt,
                         const int64_t *size)
{
    const md_fx_node *reduction = NULL;
    double operations, bytes;
    touched t = {.program = p, .size = size, .elements = 1};
    md_st_work(&operations, &bytes, p, stage, size);
    (void)md_fx_visit(p->stage[stage].store[0].value, note_touched, &t);
    (void)md_fx_visit(p->stage[stage].store[0].value, is_no_reduction, &reduction);
    if (!reduction || operations < COSTLY_OPERATIONS || operations < COSTLY_RATIO * t.elements)
        return true;
    return add_warning(
        f, reduction, stmt,
        md_arena_printf(f->arena,
                        "this reduction takes %.2g operations at the largest hint, %.2g for each element "
                        "of its largest tensor, one element after the other; only sums of products are "
                        "factored: write it as such sums, or give parts that use fewer indices lets of "
                        "their own",
                        operations, operations / t.elements));
}

/* True if another stage computes the same. */
static bool is_part(const md_st_program *p, int32_t stage)
{
    for (int32_t i = 0; i < p->n_stages; i++)
        for (int32_t k = 0; k < p->stage[i].n_parts; k++)
            if (p->stage[i].part[k] == stage)
                return true;
    return false;
}

md_status md_st_warn(md_fx_formula *formula, const md_st_program *program, const int64_t *size)
{
    for (int32_t i = 0; i < program->n_stages; i++) {
        const md_st_stage *stage = &program->stage[i];
        around loop[MD_MAX_RANK * 2 + 1];
        search s = {.program = program};
        if (stage->kind != MD_ST_NEST || is_part(program, i) || formula->n_warnings == MD_FX_MAX_WARNINGS)
            continue;
        for (int32_t k = 0; k < stage->n_outer + (stage->axis >= 0); k++) {
            loop[k] = (around){.up = s.inside, .index = k < stage->n_outer ? stage->outer[k] : stage->axis};
            s.inside = &loop[k];
        }
        const md_fx_stmt *stmt = &formula->stmt[formula->tensor[stage->store[0].tensor].stmt];
        const bool repeats = find(&s, stage->store[0].value);
        if (!(repeats ? warn_of_repeat(formula, &s, stmt) : warn_of_cost(formula, program, i, stmt, size)))
            return md_fail_memory();
    }
    return MD_OK;
}

/* The most elements that a tensor has; INFINITY: any number. */
static double elements_of(const md_fx_formula *f, const md_fx_tensor *t, const int64_t *size)
{
    double n = 1.0;
    for (int32_t a = 0; a < t->rank; a++) {
        const md_fx_dim *d = &f->dim[t->dim[a]];
        const int64_t known = d->size >= 0 ? d->size : size[t->dim[a]] > 0 ? size[t->dim[a]] : d->hi;
        n *= known < INT64_MAX ? (double)known : INFINITY;
    }
    return n;
}

/* Updates of an element by a stage's scatter at these sizes, on average at least. */
static double updates_of(const md_fx_formula *f, const md_st_program *p, const md_st_stage *s, const int64_t *size)
{
    const double along = s->axis >= 0 ? (double)md_st_size(p, s->axis, size) : 1.0;
    return along * (double)md_st_points(p, s->n_outer, s->outer, size) /
           fmax(1.0, elements_of(f, &f->tensor[s->store[0].tensor], size));
}

md_status md_st_warn_of_rounding(md_fx_formula *formula, const md_st_program *program, const int64_t *size)
{
    for (int32_t i = 0; i < program->n_stages; i++) {
        const md_st_stage *s = &program->stage[i];
        const md_fx_tensor *t = &formula->tensor[s->store[0].tensor];
        const double n = s->has_duplicates ? updates_of(formula, program, s, size) : 0.0;
        if (s->store[0].assign != MD_FX_ADD_TO || !(n * md_dtype_roundoff(t->dtype) >= LOSSY) ||
            formula->n_warnings == MD_FX_MAX_WARNINGS)
            continue;
        const char *const text =
            md_arena_printf(formula->arena,
                            "an element of %s:%s takes %.2g updates on average at the largest hint, each of which "
                            "rounds it: it may stop growing; a %s loses less",
                            t->name, md_dtype_name(t->dtype), n, t->dtype == MD_F32 ? "target of f64" : "wider target");
        if (!add_warning(formula, NULL, &formula->stmt[t->stmt], text))
            return md_fail_memory();
    }
    return MD_OK;
}
