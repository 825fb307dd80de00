/* Codes of the evaluator that need no other file: constants, positions, conversions, and the memory of last values. */
#include "expr/eval/code.h"

md_eval_code *md_eval_code_new(md_eval_machine *m)
{
    return md_arena_alloc(m->arena, sizeof(md_eval_code));
}

/* ---- leaves ---- */

static double run_real_const(md_eval_machine *m, const md_eval_code *c)
{
    (void)m;
    return c->num;
}

static int64_t run_int_const(md_eval_machine *m, const md_eval_code *c)
{
    (void)m;
    return c->whole;
}

static int64_t run_index(md_eval_machine *m, const md_eval_code *c)
{
    return m->at[c->id];
}

const md_eval_code *md_eval_real_const(md_eval_machine *m, double value)
{
    md_eval_code *c = md_eval_code_new(m);
    if (c) {
        c->real = run_real_const;
        c->num = value;
    }
    return c;
}

const md_eval_code *md_eval_int_const(md_eval_machine *m, int64_t value)
{
    md_eval_code *c = md_eval_code_new(m);
    if (c) {
        c->integer = run_int_const;
        c->whole = value;
    }
    return c;
}

const md_eval_code *md_eval_index(md_eval_machine *m, int32_t index)
{
    md_eval_code *c = md_eval_code_new(m);
    if (c) {
        c->integer = run_index;
        c->id = index;
        md_eval_set_add(&c->uses, index);
    }
    return c;
}

/* ---- conversions ---- */

static const md_eval_code *wrap(md_eval_machine *m, const md_eval_code *a, md_eval_real_fn real, md_eval_int_fn integer)
{
    md_eval_code *c = md_eval_code_new(m);
    if (c) {
        c->real = real;
        c->integer = integer;
        c->arg[0] = a;
        c->uses = a->uses;
    }
    return c;
}

static double run_int_to_real(md_eval_machine *m, const md_eval_code *c)
{
    return (double)md_eval_int(m, c->arg[0]);
}

static int64_t run_real_to_bool(md_eval_machine *m, const md_eval_code *c)
{
    return md_eval_real(m, c->arg[0]) != 0.0; /* NaN is true */
}

static int64_t run_int_to_bool(md_eval_machine *m, const md_eval_code *c)
{
    return md_eval_int(m, c->arg[0]) != 0;
}

const md_eval_code *md_eval_to_real(md_eval_machine *m, const md_eval_code *c)
{
    if (!c || c->real)
        return c;
    return c->integer == run_int_const ? md_eval_real_const(m, (double)c->whole) : wrap(m, c, run_int_to_real, NULL);
}

const md_eval_code *md_eval_to_bool(md_eval_machine *m, const md_eval_code *c)
{
    return !c ? NULL : wrap(m, c, NULL, c->real ? run_real_to_bool : run_int_to_bool);
}

static double run_round(md_eval_machine *m, const md_eval_code *c)
{
    return md_dtype_round((md_dtype)c->id, md_eval_real(m, c->arg[0]));
}

/* Converts as a store to memory of the type and a load from it do. */
static int64_t run_real_to_int(md_eval_machine *m, const md_eval_code *c)
{
    int64_t cell = 0;
    md_dtype_store((md_dtype)c->id, &cell, 0, md_eval_real(m, c->arg[0]));
    return md_dtype_load_int((md_dtype)c->id, &cell, 0);
}

static int64_t run_int_to_int(md_eval_machine *m, const md_eval_code *c)
{
    int64_t cell = 0;
    md_dtype_store_int((md_dtype)c->id, &cell, 0, md_eval_int(m, c->arg[0]));
    return md_dtype_load_int((md_dtype)c->id, &cell, 0);
}

const md_eval_code *md_eval_cast(md_eval_machine *m, const md_fx_node *node, const md_eval_code *a)
{
    if (node->to == MD_BOOL)
        return md_eval_to_bool(m, a);
    bool to_real = md_dtype_is_real(node->to);
    if (to_real)
        a = md_eval_to_real(m, a);
    if (!a)
        return NULL;
    md_eval_int_fn to_int = a->real ? run_real_to_int : run_int_to_int;
    md_eval_code *c = (md_eval_code *)wrap(m, a, to_real ? run_round : NULL, to_real ? NULL : to_int);
    if (c)
        c->id = (int32_t)node->to;
    return c;
}

/* ---- the memory of last values ---- */

typedef struct remembered {
    bool is_valid;
    int32_t n;
    int32_t index[MD_FX_MAX_INDICES];
    int64_t at[MD_FX_MAX_INDICES];
    double real;
    int64_t whole;
} remembered;

static bool is_current(const md_eval_machine *m, const remembered *r)
{
    bool same = r->is_valid;
    for (int32_t i = 0; i < r->n && same; i++)
        same = r->at[i] == m->at[r->index[i]];
    return same;
}

static void set_current(const md_eval_machine *m, remembered *r)
{
    for (int32_t i = 0; i < r->n; i++)
        r->at[i] = m->at[r->index[i]];
    r->is_valid = true;
}

static double run_real_remembered(md_eval_machine *m, const md_eval_code *c)
{
    remembered *r = c->more;
    if (!is_current(m, r)) {
        r->real = md_eval_real(m, c->arg[0]);
        set_current(m, r);
    }
    return r->real;
}

static int64_t run_int_remembered(md_eval_machine *m, const md_eval_code *c)
{
    remembered *r = c->more;
    if (!is_current(m, r)) {
        r->whole = md_eval_int(m, c->arg[0]);
        set_current(m, r);
    }
    return r->whole;
}

/* The same value, remembered until an index that it uses moves. */
const md_eval_code *md_eval_remember(md_eval_machine *m, const md_eval_code *a)
{
    if (!a)
        return NULL;
    bool is_real = a->real;
    remembered *r = md_arena_alloc(m->arena, sizeof *r);
    md_eval_code *c =
        (md_eval_code *)wrap(m, a, is_real ? run_real_remembered : NULL, is_real ? NULL : run_int_remembered);
    if (!r || !c)
        return NULL;
    c->more = r;
    for (int32_t id = 0; id < m->formula->n_indices; id++)
        if (md_eval_set_has(&a->uses, id))
            r->index[r->n++] = id;
    return c;
}
