/* Reductions: loops over bound indices, in the order of the formula. */
#include "expr/eval/code.h"

#include <math.h>

typedef struct reduction {
    const md_eval_code *body;
    bool unbiased;
    int32_t n;
    int32_t index[MD_MAX_RANK];
    int64_t size[MD_MAX_RANK];
    double count;
} reduction;

/* The first position of the loop; false where it has none. */
static bool begin(md_eval_machine *m, const reduction *r)
{
    bool has_any = true;
    for (int32_t i = 0; i < r->n; i++) {
        m->at[r->index[i]] = 0;
        has_any &= r->size[i] > 0;
    }
    return has_any;
}

/* The next position, the last index moving fastest. */
static inline bool next(md_eval_machine *m, const reduction *r)
{
    if (md_eval_is_over(m))
        return false;
    for (int32_t i = r->n - 1; i >= 0; i--) {
        if (++m->at[r->index[i]] < r->size[i])
            return true;
        m->at[r->index[i]] = 0;
    }
    return false;
}

static double run_sum(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    md_eval_sum sum = {0.0, 0.0};
    for (bool more = begin(m, r); more; more = next(m, r))
        md_eval_sum_add(&sum, md_eval_real(m, r->body));
    return md_eval_sum_of(&sum);
}

static int64_t run_int_sum(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    uint64_t sum = 0;
    for (bool more = begin(m, r); more; more = next(m, r))
        sum += (uint64_t)md_eval_int(m, r->body);
    return (int64_t)sum;
}

static double run_prod(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    double product = 1.0;
    for (bool more = begin(m, r); more; more = next(m, r))
        product *= md_eval_real(m, r->body);
    return product;
}

static int64_t run_int_prod(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    uint64_t product = 1;
    for (bool more = begin(m, r); more; more = next(m, r))
        product *= (uint64_t)md_eval_int(m, r->body);
    return (int64_t)product;
}

static double run_mean(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    return run_sum(m, c) / r->count; /* the mean of no element is NaN */
}

/* Two passes: exact up to the last rounding, however far the mean lies from 0. */
static double run_var(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    double mean = run_mean(m, c);
    md_eval_sum sum = {0.0, 0.0};
    for (bool more = begin(m, r); more; more = next(m, r)) {
        double d = md_eval_real(m, r->body) - mean;
        md_eval_sum_add(&sum, d * d);
    }
    double count = r->unbiased ? r->count - 1.0 : r->count;
    return md_eval_sum_of(&sum) / (count > 0.0 ? count : 0.0);
}

static double run_max(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    double best = -INFINITY;
    for (bool more = begin(m, r); more; more = next(m, r))
        best = md_scalar_max(best, md_eval_real(m, r->body));
    return best;
}

static double run_min(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    double best = INFINITY;
    for (bool more = begin(m, r); more; more = next(m, r))
        best = md_scalar_min(best, md_eval_real(m, r->body));
    return best;
}

static int64_t run_int_max(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    int64_t best = INT64_MIN;
    for (bool more = begin(m, r); more; more = next(m, r)) {
        int64_t x = md_eval_int(m, r->body);
        best = MD_MAX(best, x);
    }
    return best;
}

static int64_t run_int_min(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    int64_t best = INT64_MAX;
    for (bool more = begin(m, r); more; more = next(m, r)) {
        int64_t x = md_eval_int(m, r->body);
        best = MD_MIN(best, x);
    }
    return best;
}

/* The first NaN, else the first of the largest; positions count over all bound indices, row-major. */
static int64_t arg_best(md_eval_machine *m, const reduction *r, double sign)
{
    int64_t position = 0, best_position = 0;
    double best = 0.0;
    for (bool more = begin(m, r); more; more = next(m, r), position++) {
        double x = sign * md_eval_real(m, r->body);
        if (position == 0 || x > best || (isnan(x) && !isnan(best))) {
            best = x;
            best_position = position;
        }
    }
    return best_position;
}

static int64_t run_argmax(md_eval_machine *m, const md_eval_code *c)
{
    return arg_best(m, c->more, 1.0);
}

static int64_t run_argmin(md_eval_machine *m, const md_eval_code *c)
{
    return arg_best(m, c->more, -1.0);
}

static int64_t arg_best_int(md_eval_machine *m, const reduction *r, bool largest)
{
    int64_t position = 0, best_position = 0, best = 0;
    for (bool more = begin(m, r); more; more = next(m, r), position++) {
        int64_t x = md_eval_int(m, r->body);
        if (position == 0 || (largest ? x > best : x < best)) {
            best = x;
            best_position = position;
        }
    }
    return best_position;
}

static int64_t run_int_argmax(md_eval_machine *m, const md_eval_code *c)
{
    return arg_best_int(m, c->more, true);
}

static int64_t run_int_argmin(md_eval_machine *m, const md_eval_code *c)
{
    return arg_best_int(m, c->more, false);
}

static int64_t run_any(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    int64_t found = 0;
    for (bool more = begin(m, r); more; more = next(m, r))
        found |= md_eval_int(m, r->body) != 0; /* no early end: an index outside further on is to be reported */
    return found;
}

static int64_t run_all(md_eval_machine *m, const md_eval_code *c)
{
    const reduction *r = c->more;
    int64_t all = 1;
    for (bool more = begin(m, r); more; more = next(m, r))
        all &= md_eval_int(m, r->body) != 0;
    return all;
}

/* How each reduction runs over real bodies and over integer ones. */
typedef struct forms {
    bool real_body, bool_body; /* what the body is converted to; neither: left as it is */
    md_eval_real_fn real;
    md_eval_int_fn integer; /* integer result of an integer body */
    md_eval_int_fn from_real; /* integer result of a real body */
} forms;

static const forms form_of[MD_FX_N_OPS] = {
    [MD_FX_R_SUM] = {.real = run_sum, .integer = run_int_sum},
    [MD_FX_R_PROD] = {.real = run_prod, .integer = run_int_prod},
    [MD_FX_R_MAX] = {.real = run_max, .integer = run_int_max},
    [MD_FX_R_MIN] = {.real = run_min, .integer = run_int_min},
    [MD_FX_R_MEAN] = {.real_body = true, .real = run_mean},
    [MD_FX_R_VAR] = {.real_body = true, .real = run_var},
    [MD_FX_R_ARGMAX] = {.integer = run_int_argmax, .from_real = run_argmax},
    [MD_FX_R_ARGMIN] = {.integer = run_int_argmin, .from_real = run_argmin},
    [MD_FX_R_ANY] = {.bool_body = true, .integer = run_any},
    [MD_FX_R_ALL] = {.bool_body = true, .integer = run_all},
};

const md_eval_code *md_eval_reduce(md_eval_machine *m, const md_fx_node *node, const md_eval_code *body)
{
    const forms *f = &form_of[node->op];
    md_eval_code *c = md_eval_code_new(m);
    reduction *r = md_arena_alloc(m->arena, sizeof *r);
    if (f->real_body)
        body = md_eval_to_real(m, body);
    else if (f->bool_body)
        body = md_eval_to_bool(m, body);
    if (!c || !r || !body)
        return NULL;
    if (body->real && f->from_real)
        c->integer = f->from_real;
    else if (body->real)
        c->real = f->real;
    else
        c->integer = f->integer;
    c->more = r;
    c->uses = body->uses;
    r->body = body;
    r->unbiased = node->unbiased;
    r->n = node->n_bound;
    r->count = 1.0;
    for (int32_t i = 0; i < node->n_bound; i++) {
        r->index[i] = node->bound[i];
        r->size[i] = m->binding->size[m->formula->index[node->bound[i]].dim];
        r->count *= (double)r->size[i];
        md_eval_set_remove(&c->uses, node->bound[i]);
    }
    return c;
}
