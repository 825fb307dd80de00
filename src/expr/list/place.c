/* Puts the statements of a formula over lists into steps, in the order of the text, each into the first step in which
 * what it reads is there and nobody still reads what it overwrites. A REDUCE step is followed by the SCALARS step that
 * ends its reductions. Lets of items have no step: they stand in each that reads them. */
#include "base/status.h"
#include "expr/diag.h"
#include "expr/list/inside.h"

/* ---- Lets of items */

static md_status mark_let(void *user, md_syntax **at)
{
    md_fl_reader *r = user;
    const int32_t symbol = (*at)->kind == MD_SYNTAX_TENSOR ? md_fl_symbol_named(r, (*at)->name) : -1;
    const int32_t stmt = symbol >= 0 ? r->symbol[symbol].stmt : -1;
    if (stmt < 0 || r->stmt[stmt].kind != MD_FL_ITEMS || !r->stmt[stmt].is_let || r->stmt[stmt].needed)
        return MD_OK;
    r->stmt[stmt].needed = true;
    return md_fl_walk_stmt(&r->stmt[stmt], mark_let, r);
}

void md_fl_mark_lets(md_fl_reader *r, int32_t stmt)
{
    (void)md_fl_walk_stmt(&r->stmt[stmt], mark_let, r);
}

static void unmark(md_fl_reader *r)
{
    for (int32_t i = 0; i < r->n_stmts; i++)
        r->stmt[i].needed = false;
}

void md_fl_mark_step(md_fl_reader *r, int32_t step)
{
    unmark(r);
    for (int32_t i = 0; i < r->n_stmts; i++)
        if (r->stmt[i].step == step) {
            r->stmt[i].needed = true;
            md_fl_mark_lets(r, i);
        }
}

/* ---- Places */

typedef struct placing {
    md_fl_reader *r;
    const md_fl_stmt *stmt; /* that is placed */
    const md_fl_stmt *of; /* whose reads are looked at: the statement itself, or a let that it needs */
    int32_t least; /* step */
    int32_t step; /* the chosen one, in the second walk */
} placing;

/* The first step in which a statement of this kind can read what step `step` writes. */
static int32_t after(const md_fl_reader *r, int32_t step, md_fl_kind kind)
{
    const md_fx_step_kind own = kind == MD_FL_ITEMS ? MD_FX_STEP_ITEMS : MD_FX_STEP_SCALARS;
    return step < 0 ? 0 : kind != MD_FL_REDUCTION && r->list->step[step].kind == own ? step : step + 1;
}

static md_status look_at_read(void *user, md_syntax **at)
{
    placing *p = user;
    const int32_t symbol = (*at)->kind == MD_SYNTAX_TENSOR ? md_fl_symbol_named(p->r, (*at)->name) : -1;
    if (symbol < 0)
        return MD_OK;
    const md_fl_base *b = &p->r->base[p->r->symbol[symbol].base];
    p->least = MD_MAX(p->least, after(p->r, b->last_write, p->stmt->kind));
    return MD_OK;
}

/* A let reads a tensor that another statement wrote since: only in the step that writes it the old value is there. */
static md_status note_read(void *user, md_syntax **at)
{
    placing *p = user;
    const int32_t symbol = (*at)->kind == MD_SYNTAX_TENSOR ? md_fl_symbol_named(p->r, (*at)->name) : -1;
    if (symbol < 0)
        return MD_OK;
    md_fl_base *b = &p->r->base[p->r->symbol[symbol].base];
    const bool is_old = b->write_stmt > (int32_t)(p->of - p->r->stmt);
    if (p->of != p->stmt && is_old && b->last_write < p->step)
        return md_fx_complain(
            p->r->text, p->stmt->item->line, p->stmt->item->column,
            "this reads '%s', a let of '%s', which was overwritten since, in an earlier pass over the "
            "lists; give '%s' memory of its own (no let)",
            p->of->item->target->name, b->name, p->of->item->target->name);
    b->last_read = MD_MAX(b->last_read, p->step);
    const md_fl_stmt *from = p->r->symbol[symbol].stmt >= 0 ? &p->r->stmt[p->r->symbol[symbol].stmt] : NULL;
    p->r->symbol[symbol].is_kept |= from && from->step + (from->kind == MD_FL_REDUCTION) != p->step;
    return MD_OK;
}

/* Visits what a statement and the lets of items that it needs read. */
static md_status each_read(placing *p, md_fl_visit fn)
{
    md_fl_reader *r = p->r;
    const int32_t own = (int32_t)(p->stmt - r->stmt);
    unmark(r);
    md_fl_mark_lets(r, own);
    for (int32_t i = 0; i < r->n_stmts; i++)
        if (i == own || r->stmt[i].needed) {
            p->of = &r->stmt[i];
            MD_TRY(md_fl_walk_stmt(p->of, fn, p));
        }
    return MD_OK;
}

static md_status add_step(md_fl_reader *r, md_fx_step_kind kind)
{
    if (r->list->n_steps == MD_COUNT(r->list->step))
        return md_fail(MD_INVALID_ARGUMENT, "the formula needs more than %d passes over its lists",
                       (int)MD_COUNT(r->list->step));
    r->list->step[r->list->n_steps++].kind = kind;
    return MD_OK;
}

static md_status find_step(md_fl_reader *r, int32_t *out, md_fl_kind kind, int32_t least)
{
    static const md_fx_step_kind of[] = {
        [MD_FL_REDUCTION] = MD_FX_STEP_REDUCE, [MD_FL_SCALARS] = MD_FX_STEP_SCALARS, [MD_FL_ITEMS] = MD_FX_STEP_ITEMS};
    for (*out = least; *out < r->list->n_steps; ++*out)
        if (r->list->step[*out].kind == of[kind])
            return MD_OK;
    MD_TRY(add_step(r, of[kind]));
    *out = r->list->n_steps - 1;
    return kind == MD_FL_REDUCTION ? add_step(r, MD_FX_STEP_SCALARS) : MD_OK;
}

static md_status mark_read(void *user, md_syntax **at)
{
    md_fl_reader *r = user;
    const int32_t symbol = (*at)->kind == MD_SYNTAX_TENSOR ? md_fl_symbol_named(r, (*at)->name) : -1;
    if (symbol >= 0 && r->symbol[symbol].stmt >= 0)
        r->stmt[r->symbol[symbol].stmt].is_live = true;
    return MD_OK;
}

/* Lets that nobody reads, or only such lets, are left out. */
static void mark_live(md_fl_reader *r)
{
    for (int32_t i = r->n_stmts; i-- > 0;) {
        r->stmt[i].is_live |= !r->stmt[i].is_let;
        if (r->stmt[i].is_live)
            (void)md_fl_walk_stmt(&r->stmt[i], mark_read, r);
    }
}

static md_status place(md_fl_reader *r, int32_t i)
{
    md_fl_stmt *s = &r->stmt[i];
    md_fl_base *b = &r->base[r->symbol[s->symbol].base];
    placing p = {.r = r, .stmt = s};
    if (s->kind == MD_FL_ITEMS && s->is_let)
        return MD_OK;
    MD_TRY(each_read(&p, look_at_read));
    if (s->kind != MD_FL_REDUCTION)
        p.least = MD_MAX(p.least, MD_MAX(b->last_read, after(r, b->last_write, s->kind)));
    MD_TRY(find_step(r, &s->step, s->kind, p.least));
    p.step = s->step;
    MD_TRY(each_read(&p, note_read));
    b->last_write = s->step + (s->kind == MD_FL_REDUCTION);
    b->write_stmt = i;
    return MD_OK;
}

md_status md_fl_place(md_fl_reader *r)
{
    mark_live(r);
    for (int32_t i = 0; i < r->n_stmts; i++)
        if (r->stmt[i].is_live)
            MD_TRY(place(r, i));
    return MD_OK;
}
