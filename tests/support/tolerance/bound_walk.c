/* Error bounds of expressions at a point of their indices, with their reductions and scans. */
#include "support/tolerance/bound_walk.h"

#include "base/dtype.h"
#include "base/status.h"

#include <stdlib.h>

/* What a reduction or scan gave when the indices that it uses stood where they stood. */
typedef struct kept {
    bool is_valid;
    int32_t n;
    int32_t index[MD_FX_MAX_INDICES];
    int64_t at[MD_FX_MAX_INDICES];
    bound_value *value; /* one, or one for each position of the scan */
} kept;

bound_axes bound_axes_of(const bound_walker *walker, int32_t tensor)
{
    const md_fx_tensor *t = &walker->f->tensor[tensor];
    bound_axes a = {.rank = t->rank};
    for (int32_t i = 0; i < t->rank; i++)
        a.size[i] = t->role == MD_FX_TEMP ? walker->b->size[t->dim[i]] : walker->b->tensor[tensor].size[i];
    return a;
}

/* Position in row-major order; -1 where an index lies outside and is not clamped. */
int64_t bound_position_of(const bound_walker *walker, const bound_axes *a, int64_t *at)
{
    int64_t position = 0;
    for (int32_t i = 0; i < a->rank; i++) {
        if ((at[i] < 0 || at[i] >= a->size[i]) && (walker->f->bounds != MD_BOUNDS_CLAMP || a->size[i] == 0))
            return -1;
        at[i] = at[i] < 0 ? 0 : at[i] >= a->size[i] ? a->size[i] - 1 : at[i];
        position = position * a->size[i] + at[i];
    }
    return position;
}

bound_value bound_read_memory(const md_tensor *t, const int64_t *at)
{
    int64_t offset = 0;
    for (int32_t i = 0; i < t->rank; i++)
        offset += at[i] * t->stride[i];
    if (md_dtype_is_real(t->dtype))
        return bound_real(md_dtype_load(t->dtype, t->data, offset), 0.0);
    return bound_int(md_dtype_load_int(t->dtype, t->data, offset), 0.0);
}

static bound_value load(bound_walker *walker, const md_fx_node *node)
{
    int64_t at[MD_MAX_RANK];
    bool uncertain = false;
    for (int32_t i = 0; i < node->n_args; i++) {
        bound_value s = bound_value_of(walker, node->arg[i]);
        uncertain |= s.e > 0.0;
        at[i] = s.i;
    }
    bound_axes a = bound_axes_of(walker, node->id);
    int64_t position = bound_position_of(walker, &a, at);
    bound_value v = bound_real(0.0, 0.0);
    if (position >= 0)
        v = walker->array[node->id] != NULL ? walker->array[node->id][position]
                                            : bound_read_memory(&walker->b->tensor[node->id], at);
    if (uncertain)
        v.e = (double)INFINITY;
    return v;
}

static bound_value leaf(bound_walker *walker, const md_fx_node *node)
{
    bool is_real = md_dtype_is_real(node->type);
    switch (node->kind) {
    case MD_FX_CONST:
        return is_real ? bound_real(node->num, 0.0) : bound_int(node->integer, 0.0);
    case MD_FX_INDEX:
        return bound_int(walker->at[node->id], 0.0);
    case MD_FX_SIZE:
        return bound_int(walker->b->size[node->id], 0.0);
    default: /* SCALAR */
        return is_real ? bound_real(md_dtype_round(node->type, walker->b->real[node->id]), 0.0)
                       : bound_int(walker->b->integer[node->id], 0.0);
    }
}

/* ---- reductions ---- */

int64_t bound_size_of(const bound_walker *walker, int32_t index)
{
    return walker->b->size[walker->f->index[index].dim];
}

static bool begin(bound_walker *walker, const md_fx_node *node)
{
    bool any = true;
    for (int32_t i = 0; i < node->n_bound; i++) {
        walker->at[node->bound[i]] = 0;
        any &= bound_size_of(walker, node->bound[i]) > 0;
    }
    return any;
}

static bool next(bound_walker *walker, const md_fx_node *node)
{
    for (int32_t i = node->n_bound - 1; i >= 0; i--) {
        if (++walker->at[node->bound[i]] < bound_size_of(walker, node->bound[i]))
            return true;
        walker->at[node->bound[i]] = 0;
    }
    return false;
}

static bound_value body_of(bound_walker *walker, const md_fx_node *node, bool to_real)
{
    bound_value a = bound_value_of(walker, node->arg[0]);
    return to_real && !md_dtype_is_real(node->arg[0]->type) ? bound_real((double)a.i, a.e) : a;
}

static bound_value plain_reduction(bound_walker *walker, const md_fx_node *node)
{
    bound_running r = bound_run_start(node->op, node->type);
    for (bool more = begin(walker, node); more; more = next(walker, node))
        bound_run_add(&r, body_of(walker, node, false));
    return bound_run_result(&r);
}

static bound_value mean(bound_walker *walker, const md_fx_node *node, double *n)
{
    bound_type t = bound_type_of(node->type);
    bound_running r = bound_run_start(MD_FX_R_SUM, node->type);
    for (bool more = begin(walker, node); more; more = next(walker, node))
        bound_run_add(&r, body_of(walker, node, true));
    bound_value s = bound_run_result(&r);
    *n = r.n;
    if (r.n == 0.0)
        return bound_real((double)NAN, 0.0);
    if (!isfinite(s.v) || !isfinite(s.e))
        return s;
    return bound_rounded(t, s.v / r.n, s.e / r.n + 2.0 * t.u * fabs(s.v / r.n), true);
}

static bound_value variance(bound_walker *walker, const md_fx_node *node)
{
    bound_type t = bound_type_of(node->type);
    double n, sum = 0.0, e = 0.0;
    bound_value m = mean(walker, node, &n);
    double count = node->unbiased ? n - 1.0 : n;
    if (!isfinite(m.v))
        return bound_real((double)NAN, isfinite(m.e) ? 0.0 : (double)INFINITY);
    for (bool more = begin(walker, node); more; more = next(walker, node)) {
        bound_value a = body_of(walker, node, true);
        double d = a.v - m.v, off = a.e + m.e + t.u * (fabs(a.v) + fabs(m.v));
        sum += d * d;
        e += 2.0 * fabs(d) * off + off * off;
    }
    if (count <= 0.0)
        return bound_real((double)NAN, isfinite(e) ? 0.0 : (double)INFINITY);
    if (sum > t.max)
        e = (double)INFINITY;
    return bound_rounded(t, sum / count, e / count + (bound_sum_factor(n) + 4.0) * t.u * (sum / count), true);
}

static bound_value arg_reduction(bound_walker *walker, const md_fx_node *node)
{
    double sign = node->op == MD_FX_R_ARGMAX ? 1.0 : -1.0;
    bound_value best = bound_real(0.0, 0.0);
    int64_t position = 0, found = 0;
    double challenger = (double)-INFINITY; /* the highest that another candidate with an error may reach */
    bool uncertain = false;
    for (bool more = begin(walker, node); more; more = next(walker, node), position++) {
        bound_value a = body_of(walker, node, true);
        a.v *= sign;
        uncertain |= !isfinite(a.e);
        bool better = position == 0 || a.v > best.v || (isnan(a.v) && !isnan(best.v));
        bound_value loser = better ? best : a;
        if (position > 0 && (loser.e > 0.0 || (better ? a.e : best.e) > 0.0))
            challenger = fmax(challenger, loser.v + loser.e);
        if (better) {
            best = a;
            found = position;
        }
    }
    uncertain |= !isnan(best.v) && challenger >= best.v - best.e;
    return bound_int(found, uncertain ? (double)INFINITY : 0.0);
}

static bound_value any_all(bound_walker *walker, const md_fx_node *node)
{
    bool is_any = node->op == MD_FX_R_ANY, uncertain = false, settled = false;
    for (bool more = begin(walker, node); more; more = next(walker, node)) {
        bound_value a = bound_value_of(walker, node->arg[0]);
        bool is_real = md_dtype_is_real(node->arg[0]->type);
        bool truth = is_real ? a.v != 0.0 : a.i != 0, unsure = is_real ? fabs(a.v) <= a.e && a.e > 0.0 : a.e > 0.0;
        settled |= !unsure && truth == is_any;
        uncertain |= unsure;
    }
    return bound_int(settled ? is_any : !is_any, uncertain && !settled ? (double)INFINITY : 0.0);
}

static bound_value reduction(bound_walker *walker, const md_fx_node *node)
{
    double n;
    switch ((int)node->op) {
    case MD_FX_R_MEAN:
        return mean(walker, node, &n);
    case MD_FX_R_VAR:
        return variance(walker, node);
    case MD_FX_R_ARGMAX:
    case MD_FX_R_ARGMIN:
        return arg_reduction(walker, node);
    case MD_FX_R_ANY:
    case MD_FX_R_ALL:
        return any_all(walker, node);
    default:
        return plain_reduction(walker, node);
    }
}

/* ---- scans, and what is kept ---- */

/* y = a * y + b. Kernels combine steps in any tree. The term of step s in the value at t is multiplied by t - s
 * factors, one rounding each, and summed with the others: 2 u for every step that it passes, of all terms'
 * magnitudes. A tree of few neighbours adds at most 16 roundings of that sum. A product of factors that overflows, or
 * a value that is not finite, leaves the rest open up to the next restart. */
typedef struct recurrence {
    double v, e, magnitude, product, highest;
    int64_t i;
    bool is_open;
} recurrence;

static void take_step(recurrence *r, bound_type t, bound_value a, bound_value b, bool is_new)
{
    const double factor = is_new ? 0.0 : fabs(a.v) + a.e;
    r->e = is_new ? b.e : factor * r->e + fabs(r->v) * a.e + b.e;
    r->magnitude = (is_new ? 0.0 : factor * r->magnitude) + fabs(b.v) + b.e;
    r->v = is_new ? b.v : a.v * r->v + b.v;
    r->i = is_new ? b.i : (int64_t)((uint64_t)a.i * (uint64_t)r->i + (uint64_t)b.i);
    r->product = is_new ? 0.0 : factor * fmax(r->product, 1.0);
    r->highest = fmax(r->highest, r->magnitude);
    r->e += 2.0 * t.u * r->magnitude + t.tiny * (1.0 + r->highest);
    const bool is_wild = !(r->product <= t.max) || !(r->magnitude <= t.max) || !isfinite(r->v) || !isfinite(r->e);
    r->is_open = (r->is_open && !is_new) || is_wild;
}

/* y = max(a + y, b) or min: sums of a along the way that kernels form in any tree, 2 u of their magnitude for each
 * step. What nothing comes before is forgotten. */
static void take_extreme_step(recurrence *r, bound_type t, bound_value a, bound_value b, bool is_max)
{
    const double none = is_max ? -INFINITY : INFINITY, sum = a.v == none || r->v == none ? none : a.v + r->v;
    const double least = isfinite(b.v) ? fabs(b.v) + b.e : 0.0;
    r->magnitude = fmax(isfinite(sum) ? r->magnitude + fabs(a.v) + a.e : 0.0, least);
    r->e = fmax(sum == none ? 0.0 : r->e + a.e, b.e) + 2.0 * t.u * r->magnitude;
    r->is_open |= isnan(a.v) || isnan(b.v) || isnan(sum) || !(r->magnitude <= t.max) || !isfinite(r->e);
    r->v = is_max ? fmax(sum, b.v) : fmin(sum, b.v);
}

static void recur(bound_walker *walker, const md_fx_node *node, bound_value *out)
{
    const md_fx_node *const step = node->arg[0];
    const bool is_real = md_dtype_is_real(node->type);
    const bound_type t = bound_type_of(node->type);
    int64_t size = bound_size_of(walker, node->bound[0]), stood = walker->at[node->bound[0]];
    recurrence r = {.v = node->op == MD_FX_S_MAX_PLUS ? -INFINITY : node->op == MD_FX_S_MIN_PLUS ? INFINITY : 0.0};
    for (int64_t i = 0; i < size; i++) {
        int64_t position = node->reverse ? size - 1 - i : i;
        walker->at[node->bound[0]] = position;
        const recurrence before = r;
        const bound_value c = step->n_args > 2 ? bound_value_of(walker, step->arg[2]) : bound_int(0, 0.0);
        const bound_value a = bound_value_of(walker, step->arg[0]), b = bound_value_of(walker, step->arg[1]);
        if (node->op == MD_FX_S_LINEAR)
            take_step(&r, t, a, b, c.i != 0);
        else
            take_extreme_step(&r, t, a, b, node->op == MD_FX_S_MAX_PLUS);
        r.is_open |= c.e > 0.0;
        const recurrence *const y = node->exclusive ? &before : &r;
        if (is_real)
            out[position] = bound_real(y->v, y->is_open ? (double)INFINITY : y->e + 16.0 * t.u * y->magnitude);
        else
            out[position] = bound_int(y->i, y->is_open ? (double)INFINITY : 0.0);
    }
    walker->at[node->bound[0]] = stood;
}

static void scan(bound_walker *walker, const md_fx_node *node, bound_value *out)
{
    if (md_fx_is_recurrence(node->op)) {
        recur(walker, node, out);
        return;
    }
    static const md_fx_op as[] = {[0] = MD_FX_R_SUM,
                                  [MD_FX_S_PROD - MD_FX_S_SUM] = MD_FX_R_PROD,
                                  [MD_FX_S_MAX - MD_FX_S_SUM] = MD_FX_R_MAX,
                                  [MD_FX_S_MIN - MD_FX_S_SUM] = MD_FX_R_MIN};
    int64_t size = bound_size_of(walker, node->bound[0]), stood = walker->at[node->bound[0]];
    bound_running r = bound_run_start(as[node->op - MD_FX_S_SUM], node->type);
    for (int64_t i = 0; i < size; i++) {
        int64_t position = node->reverse ? size - 1 - i : i;
        walker->at[node->bound[0]] = position;
        bound_value before = bound_run_result(&r);
        bound_run_add(&r, bound_value_of(walker, node->arg[0]));
        out[position] = node->exclusive ? before : bound_run_result(&r);
    }
    walker->at[node->bound[0]] = stood;
}

static kept *kept_of(bound_walker *walker, const md_fx_node *node)
{
    const void *known = NULL;
    if (md_memo_find(&walker->kept, node, NULL, 0, &known))
        return (kept *)known;
    kept *k = calloc(1, sizeof(*k));
    bool is_scan = node->kind == MD_FX_SCAN;
    if (k != NULL)
        k->value = calloc(is_scan ? (size_t)bound_size_of(walker, node->bound[0]) + 1 : 1, sizeof(*k->value));
    if (k == NULL || k->value == NULL || !md_memo_put(&walker->kept, node, NULL, 0, k))
        abort(); /* a test has no use for going on */
    for (int32_t id = 0; id < walker->f->n_indices; id++)
        if (md_fx_uses_index(node, id) && !(is_scan && id == node->bound[0]))
            k->index[k->n++] = id;
    return k;
}

static bound_value reduction_or_scan(bound_walker *walker, const md_fx_node *node)
{
    kept *k = kept_of(walker, node);
    bool same = k->is_valid;
    for (int32_t i = 0; i < k->n && same; i++)
        same = k->at[i] == walker->at[k->index[i]];
    if (!same) {
        if (node->kind == MD_FX_SCAN)
            scan(walker, node, k->value);
        else
            *k->value = reduction(walker, node);
        for (int32_t i = 0; i < k->n; i++)
            k->at[i] = walker->at[k->index[i]];
        k->is_valid = true;
    }
    return k->value[node->kind == MD_FX_SCAN ? walker->at[node->bound[0]] : 0];
}

static bound_value operation(bound_walker *walker, const md_fx_node *node)
{
    bound_value a[3];
    if (node->op == MD_FX_WHERE) {
        bound_value c = bound_value_of(walker, node->arg[0]);
        bool truth = md_dtype_is_real(node->arg[0]->type) ? c.v != 0.0 : c.i != 0;
        if (c.e == 0.0)
            return bound_value_of(walker, node->arg[truth ? 1 : 2]);
        return bound_either(bound_value_of(walker, node->arg[truth ? 1 : 2]),
                            bound_value_of(walker, node->arg[truth ? 2 : 1]), md_dtype_is_real(node->type));
    }
    for (int32_t i = 0; i < node->n_args; i++)
        a[i] = bound_value_of(walker, node->arg[i]);
    return bound_op(node, a, &walker->options);
}

bound_value bound_convert(const bound_walker *walker, md_dtype to, bool from_real, bound_value a)
{
    bound_value r = bound_cast(to, from_real, a);
    if (walker->options.moves_rounding && (to == MD_BF16 || to == MD_F16))
        r.e += md_dtype_moved_roundoff(to) * fabs(r.v);
    return r;
}

bound_value bound_value_of(bound_walker *walker, const md_fx_node *node)
{
    switch (node->kind) {
    case MD_FX_LOAD:
        return load(walker, node);
    case MD_FX_OP:
        return operation(walker, node);
    case MD_FX_CAST:
        return bound_convert(walker, node->to, md_dtype_is_real(node->arg[0]->type),
                             bound_value_of(walker, node->arg[0]));
    case MD_FX_REDUCE:
    case MD_FX_SCAN:
        return reduction_or_scan(walker, node);
    case MD_FX_CHECK:
    case MD_FX_LENGTH:
        return bound_value_of(walker, node->arg[0]);
    default:
        return leaf(walker, node);
    }
}

void bound_walk_finish(bound_walker *walker)
{
    const bool is_table = walker->kept.capacity > 0;
    const md_memo_slot *slot = is_table ? walker->kept.slot : walker->kept.few;
    for (size_t i = 0; i < (is_table ? walker->kept.capacity : walker->kept.n); i++) {
        kept *k = (kept *)slot[i].value;
        if (slot[i].a == NULL)
            continue;
        free(k->value);
        free(k);
    }
    md_memo_finish(&walker->kept);
}
