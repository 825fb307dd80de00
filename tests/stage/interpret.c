/* Runs a program's stages from their description alone, one scalar at a time in doubles. */
#include "interpret.h"

#include "base/dtype.h"
#include "base/status.h"
#include "evaluate.h"
#include "support/check.h"

#include <math.h>

/* ---- rows ---- */

static void clear(const md_st_row *row, results *r)
{
    for (int32_t i = 0; i < row->n_reductions; i++)
        r->ref[i] = identity(row->reduction[i].op, row->reduction[i].type, row->reduction[i].body_type);
}

/* In a part where all is masked exp(-inf - -inf) would be NaN, though such elements count as 0 in the row. */
static value body_value(machine *m, const md_st_reduction *reduction)
{
    const results *r = m->row;
    if (!r->is_part || reduction->merge != MD_ST_MERGE_RESCALED || r->ref[reduction->shift].real != -INFINITY)
        return evaluate(m, reduction->body);
    results unshifted = *r;
    unshifted.ref[reduction->shift] = real(0);
    m->row = &unshifted;
    value v = evaluate(m, reduction->body);
    m->row = r;
    return v;
}

/* All levels over elements [begin, end) of the axis. */
static void run_part(machine *m, const md_st_stage *s, results *r, int64_t begin, int64_t end)
{
    clear(&s->row, r);
    r->count = end - begin;
    m->row = r;
    for (int32_t level = 0; level < s->row.n_levels; level++)
        for (int32_t i = 0; i < s->row.n_reductions; i++) {
            const md_st_reduction *reduction = &s->row.reduction[i];
            value sum = r->ref[i];
            for (int64_t x = begin; x < end && reduction->level == level; x++) {
                m->at[s->axis] = x;
                value v = body_value(m, reduction);
                if (!is_position(reduction->op)) {
                    sum = combine(reduction->op, sum, v);
                } else if (x == begin || is_better(reduction->op, r->best[i], v)) {
                    r->best[i] = v;
                    sum = whole(x);
                }
            }
            r->ref[i] = sum;
        }
}

static double weighted(double sum, double shift, double merged)
{
    return shift == merged || shift == -INFINITY ? sum : sum * exp(shift - merged);
}

static double chan(const results *a, const results *b, int32_t i, int32_t sum)
{
    if (a->count == 0 || b->count == 0)
        return a->count == 0 ? b->ref[i].real : a->ref[i].real;
    double n_a = (double)a->count, n_b = (double)b->count;
    double delta = to_real(b->ref[sum]) / n_b - to_real(a->ref[sum]) / n_a;
    return a->ref[i].real + b->ref[i].real + delta * delta * n_a * n_b / (n_a + n_b);
}

/* Results of a part and of one that lies behind it. */
static void merge(const md_st_row *row, results *a, const results *b)
{
    results both = *a;
    both.count = a->count + b->count;
    for (int32_t i = 0; i < row->n_reductions; i++) { /* shifts stand in front of what depends on them */
        const md_st_reduction *reduction = &row->reduction[i];
        if (is_position(reduction->op)) {
            bool is_b = b->count > 0 && (a->count == 0 || is_better(reduction->op, a->best[i], b->best[i]));
            both.ref[i] = is_b ? b->ref[i] : a->ref[i];
            both.best[i] = is_b ? b->best[i] : a->best[i];
        } else if (reduction->merge == MD_ST_MERGE_PLAIN) {
            both.ref[i] = combine(reduction->op, a->ref[i], b->ref[i]);
        } else if (reduction->merge == MD_ST_MERGE_RESCALED) {
            int32_t k = reduction->shift;
            assert_true(k >= 0 && k < i && row->reduction[k].merge == MD_ST_MERGE_PLAIN);
            both.ref[i] = real(weighted(a->ref[i].real, a->ref[k].real, both.ref[k].real) +
                               weighted(b->ref[i].real, b->ref[k].real, both.ref[k].real));
        } else {
            assert_int_equal(reduction->merge, MD_ST_MERGE_CHAN);
            assert_true(reduction->shift >= 0 && reduction->shift < i);
            both.ref[i] = real(chan(a, b, i, reduction->shift));
        }
    }
    *a = both;
}

/* Cuts [begin, end) at random, down to single elements and empty parts; merges neighbours. */
static void run_online(machine *m, const md_st_stage *s, results *r, int64_t begin, int64_t end, int depth)
{
    if (depth == 0 || check_random(m->options->random) % 5 == 0) {
        run_part(m, s, r, begin, end);
        return;
    }
    int64_t cut = begin + (int64_t)(check_random(m->options->random) % (uint64_t)(end - begin + 1));
    results behind;
    memset(&behind, 0, sizeof(behind));
    behind.is_part = true;
    run_online(m, s, r, begin, cut, depth - 1);
    run_online(m, s, &behind, cut, end, depth - 1);
    merge(&s->row, r, &behind);
}

static void settle(const md_st_row *row, results *r)
{
    for (int32_t i = 0; i < row->n_reductions; i++) {
        const md_st_reduction *reduction = &row->reduction[i];
        if (reduction->merge == MD_ST_MERGE_RESCALED && r->count > 0 && r->ref[reduction->shift].real == -INFINITY)
            r->ref[i] = real(NAN);
    }
}

static void run_row(machine *m, const md_st_stage *s)
{
    results r;
    memset(&r, 0, sizeof(r));
    int64_t n = size_of(m, s->axis);
    if (s->row.is_online && m->options->online) {
        r.is_part = true;
        run_online(m, s, &r, 0, n, 4);
        settle(&s->row, &r);
    } else {
        run_part(m, s, &r, 0, n);
    }
    m->row = &r;
    for (int64_t x = 0; x < n && s->row.has_elements; x++) {
        value v[MD_ST_MAX_STORES];
        m->at[s->axis] = x;
        for (int32_t i = 0; i < s->n_stores; i++)
            v[i] = s->store[i].per_row ? (value){0} : evaluate(m, s->store[i].value);
        for (int32_t i = 0; i < s->n_stores; i++)
            if (!s->store[i].per_row)
                store(m, &s->store[i], v[i]);
    }
    m->at[s->axis] = INT64_MIN / 2; /* per-row values must not depend on it */
    for (int32_t i = 0; i < s->n_stores; i++)
        if (s->store[i].per_row)
            store(m, &s->store[i], evaluate(m, s->store[i].value));
}

/* ---- stages ---- */

static void store_all(machine *m, const md_st_stage *s)
{
    value v[MD_ST_MAX_STORES];
    for (int32_t i = 0; i < s->n_stores; i++)
        v[i] = evaluate(m, s->store[i].value);
    for (int32_t i = 0; i < s->n_stores; i++)
        store(m, &s->store[i], v[i]);
}

static void run_along_axis(machine *m, const md_st_stage *s)
{
    results r;
    memset(&r, 0, sizeof(r));
    m->row = &r;
    int64_t n = s->axis >= 0 ? size_of(m, s->axis) : 1;
    for (int64_t x = 0; x < n; x++) {
        if (s->axis >= 0)
            m->at[s->axis] = x;
        if (s->kind == MD_ST_SCAN)
            r.ref[0] = scan_to(m, &s->scan, s->axis);
        store_all(m, s);
    }
    m->row = NULL;
}

/* True if a step of K is summed. The bounds must say what the guard says. */
static bool is_in_span(machine *m, const md_st_product *product)
{
    if (product->guard == NULL)
        return true;
    const int64_t k = m->at[product->k[0]];
    const bool holds = evaluate(m, product->guard).whole != 0,
               is_inside = (product->begin == NULL || k >= evaluate(m, product->begin).whole) &&
                           (product->end == NULL || k < evaluate(m, product->end).whole);
    assert_int_equal(holds, is_inside);
    return holds;
}

static void run_product(machine *m, const md_st_stage *s)
{
    const md_st_product *product = &s->product;
    results r;
    memset(&r, 0, sizeof(r));
    m->row = &r;
    for (int32_t p = 0; p < product->n_products; p++) {
        value sum = identity(MD_FX_R_SUM, product->type, product->type);
        for (bool more = first(m, product->n_k, product->k); more; more = next(m, product->n_k, product->k)) {
            if (!is_in_span(m, product))
                continue;
            value a = evaluate(m, product->a[p]), b = evaluate(m, product->b[p]);
            value ab = md_dtype_is_real(product->type) ? real(to_real(a) * to_real(b))
                                                       : whole((int64_t)((uint64_t)a.whole * (uint64_t)b.whole));
            sum = combine(MD_FX_R_SUM, sum, ab);
        }
        r.ref[p] = sum;
    }
    store_all(m, s);
    m->row = NULL;
}

static void check_product(const machine *m, const md_st_stage *s)
{
    const md_st_product *product = &s->product;
    assert_true(product->n_m > 0 && product->n_n > 0 && product->n_k > 0 && product->n_products > 0);
    assert_int_equal(product->n_batch + product->n_m + product->n_n, s->n_outer);
    for (int32_t p = 0; p < product->n_products; p++) {
        for (int32_t i = 0; i < product->n_n; i++)
            assert_false(md_fx_uses_index(product->a[p], product->n[i]));
        const md_fx_node *b = product->look_up ? product->of_group[p] : product->b[p];
        for (int32_t i = 0; i < product->n_m; i++)
            assert_false(md_fx_uses_index(b, product->m[i]));
        assert_true(!product->look_up || md_fx_uses_index(b, product->group));
    }
    for (int32_t i = 0; i < product->n_n && product->look_up; i++)
        assert_false(md_fx_uses_index(product->look_up, product->n[i]));
    assert_true(!product->look_up || product->n_batch == 0);
    for (int32_t i = 0; i < s->n_outer && product->guard != NULL; i++) {
        bool is_batch = false;
        for (int32_t k = 0; k < product->n_batch; k++)
            is_batch |= product->batch[k] == s->outer[i];
        assert_true(is_batch || !md_fx_uses_index(product->guard, s->outer[i]));
    }
    (void)m;
}

/* ---- chains: key by key ---- */

static value chain_x(machine *m, const md_st_chain *c)
{
    value sum = identity(MD_FX_R_SUM, MD_F32, MD_F32);
    for (bool more = first(m, c->n_depth, c->depth); more; more = next(m, c->n_depth, c->depth))
        sum =
            combine(MD_FX_R_SUM, sum,
                    real(to_real(evaluate(m, c->side[MD_ST_Q].value)) * to_real(evaluate(m, c->side[MD_ST_K].value))));
    return sum;
}

static int64_t bound_value(machine *m, const md_st_bound *b)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < b->n; i++)
        sum += b->term[i].coef * (b->term[i].term != NULL ? evaluate(m, b->term[i].term).whole : 1);
    return sum;
}

/* True if all guards hold. A guard that is a bound must say the same as the bound. */
static bool is_open(machine *m, const md_st_chain *c, int64_t key)
{
    bool holds = true, is_inside = true;
    for (int32_t i = 0; i < c->n_guards; i++)
        holds &= evaluate(m, c->guard[i]).whole != 0;
    for (int32_t i = 0; i < c->n_bounds; i++)
        is_inside &= (key < bound_value(m, &c->bound[i])) == c->bound[i].is_end;
    assert_true(is_inside || !holds);
    assert_true(!c->is_bounded || is_inside == holds);
    return holds;
}

/* One key: where the maximum grows, what is summed so far is scaled. */
static void add_key(machine *m, const md_st_stage *s, results *r, int64_t key)
{
    const md_st_chain *c = s->chain;
    m->at[s->axis] = key;
    m->row = r;
    if (!is_open(m, c, key))
        return;
    r->ref[MD_ST_REF_X] = r->ref[MD_ST_REF_E] = chain_x(m, c);
    if (c->has_maximum) {
        double x = to_real(evaluate(m, c->open)), old = r->ref[MD_ST_REF_MAXIMUM].real, new = x > old ? x : old;
        double scale = new == old ? 1 : exp(old - new);
        r->ref[MD_ST_REF_MAXIMUM] = real(new);
        r->ref[MD_ST_REF_VALUE].real *= scale;
        for (int32_t t = 0; t < c->n_terms; t++)
            r->ref[MD_ST_REF_TERM + t].real *= scale;
        r->ref[MD_ST_REF_E] = real(exp(x - (new == -INFINITY ? 0 : new)));
    }
    for (int32_t t = 0; t < c->n_terms; t++)
        r->ref[MD_ST_REF_TERM + t].real += to_real(evaluate(m, c->term[t]));
    r->ref[MD_ST_REF_VALUE].real += to_real(evaluate(m, c->weight)) * to_real(evaluate(m, c->side[MD_ST_V].value));
}

/* All columns of a row at once is what kernels do; here each column does it again. */
static void run_chain(machine *m, const md_st_stage *s)
{
    const md_st_chain *c = s->chain;
    const int64_t n = size_of(m, s->axis);
    results r;
    memset(&r, 0, sizeof(r));
    r.ref[MD_ST_REF_MAXIMUM] = real(-INFINITY);
    r.ref[MD_ST_REF_VALUE] = real(0);
    for (int32_t t = 0; t < c->n_terms; t++)
        r.ref[MD_ST_REF_TERM + t] = real(0);
    for (int64_t key = 0; key < n; key++)
        add_key(m, s, &r, key);
    m->row = &r;
    m->at[s->axis] = INT64_MIN / 2;
    if (c->has_maximum && n > 0) {
        double factor = exp(r.ref[MD_ST_REF_MAXIMUM].real - to_real(evaluate(m, c->reference)));
        r.ref[MD_ST_REF_VALUE].real *= factor;
        for (int32_t t = 0; t < c->n_terms; t++)
            r.ref[MD_ST_REF_TERM + t].real *= factor;
    }
    store_all(m, s);
    m->row = NULL;
}

/* ---- pairs: each result by itself ---- */

/* The operand's element `at` of the line that is set. */
static double pair_element(machine *m, const md_st_pair_operand *o, int64_t at)
{
    const int64_t was = m->at[o->inner];
    m->at[o->inner] = at;
    const double x = to_real(evaluate(m, o->value));
    m->at[o->inner] = was;
    return x;
}

static double pair_product(machine *m, const md_st_pairs *p, int32_t which)
{
    const md_st_pair_product *x = &p->product[which];
    double sum = 0;
    for (int64_t k = 0; k < size_of(m, x->depth); k++)
        sum += pair_element(m, &p->operand[x->of_rows], k) * pair_element(m, &p->operand[x->of_keys], k);
    return sum;
}

/* A bound leaves out nothing that has a weight. */
static void check_bounds(machine *m, const md_st_stage *s, double weight)
{
    for (int32_t i = 0; i < s->chain->n_bounds; i++)
        assert_true(weight == 0 || (m->at[s->axis] < bound_value(m, &s->chain->bound[i])) == s->chain->bound[i].is_end);
}

static void run_pair_sum(machine *m, const md_st_stage *s, int32_t which)
{
    const md_st_chain *c = s->chain;
    const md_st_pair_sum *sum = &c->pairs->sum[which];
    const int32_t n = sum->is_towards_keys ? c->n_rows : 1, *over = sum->is_towards_keys ? c->rows : &s->axis;
    const int64_t column = m->at[sum->column];
    results r;
    memset(&r, 0, sizeof(r));
    r.ref[MD_ST_REF_VALUE] = real(0);
    m->row = &r;
    for (bool more = first(m, n, over); more; more = next(m, n, over)) {
        r.ref[MD_ST_REF_X] = real(pair_product(m, c->pairs, 0));
        r.ref[MD_ST_REF_X2] = real(c->pairs->n_products > 1 ? pair_product(m, c->pairs, 1) : 0);
        const double weight = to_real(evaluate(m, sum->weight));
        check_bounds(m, s, weight);
        r.ref[MD_ST_REF_VALUE].real += weight * pair_element(m, &c->pairs->operand[sum->operand], column);
    }
    for (int32_t i = 0; i < n; i++)
        m->at[over[i]] = INT64_MIN / 2;
    store(m, &s->store[which], evaluate(m, s->store[which].value));
    m->row = NULL;
}

static void run_pairs(machine *m, const md_st_stage *s)
{
    const md_st_chain *c = s->chain;
    for (int32_t which = 0; which < c->pairs->n_sums; which++) {
        int32_t n = 0, outer[MD_MAX_RANK * 4];
        const bool towards_keys = c->pairs->sum[which].is_towards_keys;
        for (int32_t i = 0; i < c->n_batch; i++)
            outer[n++] = c->batch[i];
        for (int32_t i = 0; i < (towards_keys ? 1 : c->n_rows); i++)
            outer[n++] = towards_keys ? s->axis : c->rows[i];
        outer[n++] = c->pairs->sum[which].column;
        for (bool more = first(m, n, outer); more; more = next(m, n, outer))
            run_pair_sum(m, s, which);
    }
}

static void run_stage(machine *m, const md_st_stage *s)
{
    static void (*const fn[])(machine *, const md_st_stage *) = {
        [MD_ST_POINTWISE] = run_along_axis, [MD_ST_ROW] = run_row,         [MD_ST_PRODUCT] = run_product,
        [MD_ST_SCAN] = run_along_axis,      [MD_ST_NEST] = run_along_axis, [MD_ST_CHAIN] = run_chain};
    if (s->kind == MD_ST_PRODUCT)
        check_product(m, s);
    for (int32_t i = 0; i < MD_COUNT(m->at); i++)
        m->at[i] = INT64_MIN / 2; /* an index that no loop sets makes a load fail */
    if (s->chain && s->chain->pairs) {
        run_pairs(m, s);
        return;
    }
    for (bool more = first(m, s->n_outer, s->outer); more; more = next(m, s->n_outer, s->outer))
        fn[s->kind](m, s);
}

static void make_temp(machine *m, int32_t t)
{
    const md_fx_tensor *tensor = &m->formula->tensor[t];
    int64_t size[MD_MAX_RANK], n = 1;
    for (int32_t i = 0; i < tensor->rank; i++) {
        size[i] = m->binding->size[tensor->dim[i]];
        n *= size[i];
    }
    md_dtype dtype = tensor->is_declared ? tensor->dtype : md_dtype_is_real(tensor->dtype) ? MD_F64 : MD_I64;
    m->tensor[t] = md_tensor_make(calloc((size_t)n + 1, 8), dtype, tensor->rank, size);
    assert_non_null(m->tensor[t].data);
}

void interpret(const md_st_program *program, const md_fx_binding *binding, const interpret_options *options)
{
    machine m = {.program = program, .formula = program->formula, .binding = binding, .options = options};
    memcpy(m.tensor, binding->tensor, sizeof(m.tensor));
    for (int32_t t = 0; t < m.formula->n_tensors; t++)
        if (m.formula->tensor[t].role == MD_FX_TEMP) {
            m.tensor[t].data = NULL; /* of one that is not stored: a load of it crashes */
            if (program->is_temp_stored[t])
                make_temp(&m, t);
        }
    /* chains write over what their parts have written; of products with parts either runs */
    for (int32_t i = 0; i < program->n_stages; i++) {
        const md_st_stage *s = &program->stage[i];
        if (options->online ? !md_st_moves_axes(program, i) : s->n_parts == 0)
            run_stage(&m, s);
    }
    for (int32_t t = 0; t < m.formula->n_tensors; t++)
        if (program->is_temp_stored[t])
            free(m.tensor[t].data);
}
