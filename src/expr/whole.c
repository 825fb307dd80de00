/* Makes and evaluates programs of whole numbers. */
#include "expr/whole.h"

#include "base/grow.h"
#include "base/status.h"
#include "expr/scalar.h"

#include <stdlib.h>
#include <string.h>

enum { STACK = 64 };

/* An operation over other nodes, or a leaf. */
typedef struct md_fx_whole_node {
    md_fx_whole_step step;
    int32_t arg[3]; /* nodes, in the order in which they are computed */
    int32_t depth; /* values at once that it needs */
} node;

/* ---- Making */

static node *add(md_fx_whole_maker *m)
{
    const size_t n = (size_t)m->n;
    m->failed |= !md_grow(&m->node, n, sizeof *m->node) || !md_grow(&m->open, n, sizeof *m->open);
    if (m->failed)
        return NULL;
    m->node[m->n] = (node){.depth = 1};
    return &m->node[m->n];
}

void md_fx_whole_push(md_fx_whole_maker *m, int32_t op, int64_t value)
{
    node *x = add(m);
    if (!x)
        return;
    x->step.op = op;
    x->step.value = value;
    m->open[m->n_open++] = m->n++;
}

/* The operand that needs most is computed first: then the depth grows with the logarithm of the length only. */
static void order(md_fx_whole_maker *m, node *x, const int32_t *arg)
{
    for (int32_t i = 0; i < x->step.n_args; i++) {
        int32_t place = 0;
        for (int32_t k = 0; k < x->step.n_args; k++)
            place += m->node[arg[k]].depth > m->node[arg[i]].depth ||
                     (k < i && m->node[arg[k]].depth == m->node[arg[i]].depth);
        x->step.at[i] = (uint8_t)place;
        x->arg[place] = arg[i];
        x->depth = MD_MAX(x->depth, m->node[arg[i]].depth + place);
    }
}

void md_fx_whole_apply(md_fx_whole_maker *m, md_fx_op op)
{
    node *x = add(m);
    if (!x)
        return;
    x->step.op = op;
    x->step.n_args = (uint8_t)md_fx_op_info(op)->arity;
    m->n_open -= x->step.n_args;
    order(m, x, &m->open[m->n_open]);
    m->open[m->n_open++] = m->n++;
}

md_fx_whole *md_fx_whole_finish(md_fx_whole_maker *m, const char *text, size_t n_text)
{
    const size_t n_bytes = sizeof(md_fx_whole) + (size_t)m->n * sizeof(md_fx_whole_step);
    md_fx_whole *w = m->failed ? NULL : calloc(1, n_bytes + n_text + 1);
    if (w) {
        w->text = memcpy((char *)w + n_bytes, text, n_text);
        w->n = m->n;
        for (int32_t at = m->n; m->n_open > 0;) { /* from the last step to the first */
            const node *x = &m->node[m->open[--m->n_open]];
            w->step[--at] = x->step;
            for (int32_t i = 0; i < x->step.n_args; i++)
                m->open[m->n_open++] = x->arg[i];
        }
    }
    m->n = m->n_open = 0;
    return w;
}

void md_fx_whole_maker_destroy(md_fx_whole_maker *m)
{
    free(m->node);
    free(m->open);
    *m = (md_fx_whole_maker){0};
}

/* ---- Values */

static bool divide(int64_t *out, md_fx_op op, int64_t a, int64_t b)
{
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    *out = md_scalar_int(op)(a, b, 0);
    return true;
}

static bool compute(int64_t *out, md_fx_op op, int64_t a, int64_t b, int64_t c)
{
    switch (op) {
    case MD_FX_ADD:
        return !__builtin_add_overflow(a, b, out);
    case MD_FX_SUB:
        return !__builtin_sub_overflow(a, b, out);
    case MD_FX_MUL:
        return !__builtin_mul_overflow(a, b, out);
    case MD_FX_NEG:
        return !__builtin_sub_overflow((int64_t)0, a, out);
    case MD_FX_FLOORDIV:
    case MD_FX_MOD:
        return divide(out, op, a, b);
    default: /* these cannot fail, or wrap as the language says */
        *out = md_scalar_int(op)(a, b, c);
        return true;
    }
}

/* A value of a step, or none. */
typedef struct value {
    int64_t is;
    bool is_there;
} value;

/* `where`, `and` and `or` look at their first operand before the others, so those need no value if it decides. */
static value step(md_fx_op op, const value *a, const value *b, const value *c)
{
    value out = {0};
    if (op == MD_FX_WHERE && a->is_there)
        return a->is != 0 ? *b : *c;
    if ((op == MD_FX_AND || op == MD_FX_OR) && a->is_there && (a->is != 0) == (op == MD_FX_OR))
        return (value){op == MD_FX_OR, true};
    if (a->is_there && b->is_there && c->is_there)
        out.is_there = compute(&out.is, op, a->is, b->is, c->is);
    return out;
}

bool md_fx_whole_eval(int64_t *out, const md_fx_whole *w, const int64_t *input)
{
    static const value none = {0, true};
    value stack[STACK];
    int32_t n = 0;
    for (const md_fx_whole_step *s = w->step; s < &w->step[w->n]; s++) {
        const value *a = &stack[n - s->n_args + s->at[0]], *b = &stack[n - s->n_args + s->at[1]],
                    *c = &stack[n - s->n_args + s->at[2]];
        value v = {s->value, true};
        if (s->op == MD_FX_WHOLE_INPUT)
            v.is = input[s->value];
        else if (s->op != MD_FX_WHOLE_CONSTANT)
            v = step((md_fx_op)s->op, a, s->n_args > 1 ? b : &none, s->n_args > 2 ? c : &none);
        n -= s->n_args;
        stack[n++] = v;
    }
    *out = stack[0].is;
    return stack[0].is_there;
}

md_status md_fx_whole_fail(const md_fx_whole *w)
{
    return md_fail(MD_INVALID_ARGUMENT, "'%s' divides by 0 or exceeds 64 bits at these sizes", w->text);
}

bool md_fx_whole_reads(const md_fx_whole *w, int32_t n)
{
    for (int32_t i = 0; i < w->n; i++)
        if (w->step[i].op == MD_FX_WHOLE_INPUT && w->step[i].value < n)
            return true;
    return false;
}
