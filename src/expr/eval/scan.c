/* Scans: all values along the index at once. Where an index moves inside that of the scan, lines of values are kept for
 * its positions, as many as memory allows. */
#include "expr/eval/code.h"

#include <math.h>

typedef union cell {
    double real;
    int64_t whole;
} cell;

/* A line of values: for one position of the other indices that they depend on. */
typedef struct line {
    bool is_valid;
    int64_t at[MD_FX_MAX_INDICES];
    cell *value; /* one per position of the scan's index */
} line;

static const size_t MOST_BYTES = (size_t)64 << 20; /* most memory of all lines */

typedef struct scan {
    const md_eval_code *body;
    md_fx_op op;
    bool exclusive, reverse, is_bool;
    int32_t index;
    int64_t size;
    cell *value; /* of the line that is being filled */
    int32_t n_outer; /* the other indices that the values depend on */
    int32_t outer[MD_FX_MAX_INDICES];
    /* of the others; 1 where an index does not move while that of the scan does */
    int64_t outer_size[MD_FX_MAX_INDICES];
    int64_t n_lines;
    line *lines; /* a position's line is found by its number modulo n_lines */
} scan;

static double real_start(md_fx_op op)
{
    return op == MD_FX_S_PROD ? 1.0 : op == MD_FX_S_MAX ? -INFINITY : op == MD_FX_S_MIN ? INFINITY : 0.0;
}

static int64_t int_start(const scan *s)
{
    if (s->op == MD_FX_S_MAX)
        return s->is_bool ? 0 : INT64_MIN;
    if (s->op == MD_FX_S_MIN)
        return s->is_bool ? 1 : INT64_MAX;
    return s->op == MD_FX_S_PROD;
}

/* A step of recur_max or recur_min. An infinity that stands for "no value so far" stays one, even if a is the opposite
 * infinity, where the plain sum would be NaN. */
static double extreme_step(md_fx_op op, double a, double y, double b)
{
    const double none = op == MD_FX_S_MAX_PLUS ? -INFINITY : INFINITY, sum = a == none || y == none ? none : a + y;
    return op == MD_FX_S_MAX_PLUS ? md_scalar_max(sum, b) : md_scalar_min(sum, b);
}

/* The steps of a recurrence one after the other, as the text has them. */
static void fill_recurrence(md_eval_machine *m, scan *s)
{
    const md_eval_code *const a = s->body->arg[0], *const b = s->body->arg[1], *const restart = s->body->arg[2];
    cell y = {.whole = 0};
    if (s->body->real)
        y.real = s->op == MD_FX_S_MAX_PLUS ? -INFINITY : s->op == MD_FX_S_MIN_PLUS ? INFINITY : 0.0;
    for (int64_t i = 0; i < s->size; i++) {
        int64_t position = s->reverse ? s->size - 1 - i : i;
        m->at[s->index] = position;
        const cell before = y;
        const bool is_new = restart && md_eval_int(m, restart) != 0;
        if (s->body->real && s->op != MD_FX_S_LINEAR)
            y.real = extreme_step(s->op, md_eval_real(m, a), y.real, md_eval_real(m, b));
        else if (s->body->real)
            y.real = is_new ? md_eval_real(m, b) : md_eval_real(m, a) * y.real + md_eval_real(m, b);
        else if (is_new)
            y.whole = md_eval_int(m, b);
        else
            y.whole = (int64_t)((uint64_t)md_eval_int(m, a) * (uint64_t)y.whole + (uint64_t)md_eval_int(m, b));
        s->value[position] = s->exclusive ? before : y;
    }
}

static void fill_real(md_eval_machine *m, scan *s)
{
    md_eval_sum sum = {real_start(s->op), s->op == MD_FX_S_SUM ? 0.0 : -0.0}; /* a product of -0 stays -0 */
    for (int64_t i = 0; i < s->size; i++) {
        int64_t position = s->reverse ? s->size - 1 - i : i;
        m->at[s->index] = position;
        if (s->exclusive)
            s->value[position].real = md_eval_sum_of(&sum);
        double x = md_eval_real(m, s->body);
        if (s->op == MD_FX_S_SUM)
            md_eval_sum_add(&sum, x);
        else if (s->op == MD_FX_S_PROD)
            sum.high *= x;
        else
            sum.high = s->op == MD_FX_S_MAX ? md_scalar_max(sum.high, x) : md_scalar_min(sum.high, x);
        if (!s->exclusive)
            s->value[position].real = md_eval_sum_of(&sum);
    }
}

static void fill_int(md_eval_machine *m, scan *s)
{
    int64_t total = int_start(s);
    for (int64_t i = 0; i < s->size; i++) {
        int64_t position = s->reverse ? s->size - 1 - i : i;
        m->at[s->index] = position;
        int64_t before = total, x = md_eval_int(m, s->body);
        if (s->op == MD_FX_S_SUM)
            total = (int64_t)((uint64_t)total + (uint64_t)x);
        else if (s->op == MD_FX_S_PROD)
            total = (int64_t)((uint64_t)total * (uint64_t)x);
        else
            total = s->op == MD_FX_S_MAX ? MD_MAX(total, x) : MD_MIN(total, x);
        s->value[position].whole = s->exclusive ? before : total;
    }
}

static line *line_of(const md_eval_machine *m, const scan *s)
{
    uint64_t number = 0;
    for (int32_t i = 0; i < s->n_outer; i++)
        if (s->outer_size[i] > 1)
            number = number * (uint64_t)s->outer_size[i] + (uint64_t)m->at[s->outer[i]];
    return &s->lines[number % (uint64_t)s->n_lines];
}

static const cell *value_at(md_eval_machine *m, scan *s)
{
    line *l = line_of(m, s);
    bool same = l->is_valid;
    for (int32_t i = 0; i < s->n_outer && same; i++)
        same = l->at[i] == m->at[s->outer[i]];
    int64_t position = m->at[s->index];
    if (!same) {
        s->value = l->value;
        if (md_fx_is_recurrence(s->op))
            fill_recurrence(m, s);
        else if (s->body->real)
            fill_real(m, s);
        else
            fill_int(m, s);
        m->at[s->index] = position;
        for (int32_t i = 0; i < s->n_outer; i++)
            l->at[i] = m->at[s->outer[i]];
        l->is_valid = true;
    }
    return &l->value[position];
}

static double run_real(md_eval_machine *m, const md_eval_code *c)
{
    return value_at(m, c->more)->real;
}

static int64_t run_int(md_eval_machine *m, const md_eval_code *c)
{
    return value_at(m, c->more)->whole;
}

/* As many lines as there are positions of the other indices, or as fit the memory. False if memory is short. */
static bool make_lines(md_eval_machine *m, scan *s)
{
    const size_t line_cells = (size_t)MD_MAX(s->size, 1);
    const int64_t most = MD_MAX((int64_t)(MOST_BYTES / sizeof(cell) / line_cells), 1);
    s->n_lines = 1;
    for (int32_t i = 0; i < s->n_outer; i++)
        s->n_lines = s->outer_size[i] > most / s->n_lines ? most : s->n_lines * MD_MAX(s->outer_size[i], 1);
    s->lines = md_arena_alloc(m->arena, (size_t)s->n_lines * sizeof *s->lines);
    cell *value = md_arena_alloc(m->arena, (size_t)s->n_lines * line_cells * sizeof *value);
    for (int64_t i = 0; s->lines && value && i < s->n_lines; i++)
        s->lines[i].value = value + i * (int64_t)line_cells;
    return s->lines && value;
}

/* Where an index stands among those that the statement's loop walks, the innermost last; n_free if it is not there. */
static int32_t depth_of(const md_fx_stmt *walked, int32_t index)
{
    int32_t i = 0;
    while (i < walked->n_free && walked->free[i] != index)
        i++;
    return i;
}

const md_eval_code *md_eval_scan(md_eval_machine *m, const md_fx_node *node, const md_eval_code *body)
{
    md_eval_code *c = md_eval_code_new(m);
    scan *s = md_arena_alloc(m->arena, sizeof *s);
    int64_t size = m->binding->size[m->formula->index[node->bound[0]].dim];
    if (!c || !s || !body || (uint64_t)size > SIZE_MAX / sizeof(cell))
        return NULL;
    s->body = body;
    s->op = node->op;
    s->exclusive = node->exclusive;
    s->reverse = node->reverse;
    s->is_bool = node->type == MD_BOOL;
    s->index = node->bound[0];
    s->size = size;
    for (int32_t id = 0; id < m->formula->n_indices; id++)
        if (id != s->index && md_eval_set_has(&body->uses, id)) {
            const bool is_still = m->walked && depth_of(m->walked, id) < depth_of(m->walked, s->index);
            s->outer_size[s->n_outer] = is_still ? 1 : m->binding->size[m->formula->index[id].dim];
            s->outer[s->n_outer++] = id;
        }
    if (!make_lines(m, s))
        return NULL;
    c->real = body->real ? run_real : NULL;
    c->integer = body->real ? NULL : run_int;
    c->more = s;
    c->uses = body->uses;
    md_eval_set_add(&c->uses, s->index);
    return c;
}

/* Never called: the scan asks for the operands. */
static double no_real(md_eval_machine *m, const md_eval_code *c)
{
    return md_eval_real(m, c->arg[1]);
}

static int64_t no_int(md_eval_machine *m, const md_eval_code *c)
{
    return md_eval_int(m, c->arg[1]);
}

const md_eval_code *md_eval_step(md_eval_machine *m, const md_fx_node *node, const md_eval_code *const *arg)
{
    md_eval_code *c = md_eval_code_new(m);
    if (!c)
        return NULL;
    c->real = arg[1]->real ? no_real : NULL;
    c->integer = arg[1]->real ? NULL : no_int;
    for (int32_t i = 0; i < node->n_args; i++) {
        c->arg[i] = arg[i];
        md_eval_set_join(&c->uses, &arg[i]->uses);
    }
    return c;
}
