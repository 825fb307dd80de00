/* The model's times, and their correction by measured times. */
#include "dispatch/select/select.h"

#include "dispatch/pool/pool.h"
#include "dispatch/space/points.h"
#include "tune/tune.h"

#include <math.h>

void md_ds_select_sizes(int64_t out[MD_FX_MAX_DIMS], const md_ds_op *op, const int64_t *size, const md_ds_as *as)
{
    md_ds_as_sizes(out, &op->space, size, as);
    for (int32_t s = 0; s < op->n_stages && as->n > 0; s++)
        if (!(md_ds_work(&op->stage[s].target, out) <= MD_DS_MOST_WORK))
            md_ds_bring_into_reach(out, &op->stage[s].target);
}

static double predict(md_fa_target *target, const md_bd_variant *v, const int64_t *sizes)
{
    target->fixed = v->has_fixed ? &v->fixed : NULL;
    return md_tn_predict_us(target, v->family, &v->config, sizes);
}

void md_ds_predict_us(double *us, const md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n,
                      const bool *wanted)
{
    const md_ds_pool *pool = &op->stage[stage];
    md_fa_memo memo;
    md_fa_target target = pool->target;
    md_fa_memo_begin(&memo);
    target.memo = &memo;
    for (int32_t i = 0; i < n; i++)
        us[i] = !wanted || wanted[i] ? predict(&target, pool->variant[i], sizes) : -1.0;
}

/* The two least times so far of variants that no library answers for. */
typedef struct leaders {
    double us[2];
    int32_t variant[2]; /* -1: none */
} leaders;

static void follow(leaders *l, int32_t variant, double us)
{
    const int32_t at = us < l->us[0] ? 0 : 1;
    if (!(us < l->us[at]))
        return;
    if (at == 0) {
        l->us[1] = l->us[0];
        l->variant[1] = l->variant[0];
    }
    l->us[at] = us;
    l->variant[at] = variant;
}

/* us[variant] is the factor of its correction, and becomes its time. */
static void predict_one(double *us, leaders *l, md_fa_target *target, const md_ds_pool *pool, int32_t variant,
                        const int64_t *sizes)
{
    static const double rounding = 1.0 + 1e-12; /* rounding of the factor leaves no variant out */
    const bool is_exact = pool->variant[variant]->family->library_calls != NULL;
    target->memo->enough_us = is_exact ? HUGE_VAL : l->us[1] / us[variant] * rounding;
    us[variant] *= predict(target, pool->variant[variant], sizes);
    if (!is_exact)
        follow(l, variant, us[variant]);
}

void md_ds_predict_fastest(double *us, md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n, const bool *wanted)
{
    md_ds_pool *pool = &op->stage[stage];
    md_fa_memo memo;
    md_fa_target target = pool->target;
    bool is_done[MD_DS_MAX_VARIANTS] = {false};
    leaders l = {{HUGE_VAL, HUGE_VAL}, {-1, -1}};
    const uint32_t likely = atomic_load_explicit(&pool->likely, memory_order_relaxed);
    const int32_t first[] = {(int32_t)(likely & 0xffff) - 1, (int32_t)(likely >> 16) - 1};
    md_fa_memo_begin(&memo);
    target.memo = &memo;
    for (int32_t i = 0; i < n; i++)
        us[i] = wanted[i] ? 1.0 : -1.0;
    md_ds_correct_picks(us, pool, sizes, n);
    for (int32_t i = 0; i < MD_COUNT(first); i++)
        if (first[i] >= 0 && first[i] < n && wanted[first[i]] && !is_done[first[i]]) {
            predict_one(us, &l, &target, pool, first[i], sizes);
            is_done[first[i]] = true;
        }
    for (int32_t i = 0; i < n; i++)
        if (wanted[i] && !is_done[i])
            predict_one(us, &l, &target, pool, i, sizes);
    atomic_store_explicit(&pool->likely, (uint32_t)(l.variant[0] + 1) | (uint32_t)(l.variant[1] + 1) << 16,
                          memory_order_relaxed);
}

void md_ds_model_us(double *us, md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n, const bool *wanted)
{
    md_ds_predict_us(us, op, stage, sizes, n, wanted);
    md_ds_correct_picks(us, &op->stage[stage], sizes, n);
}

static bool is_unexpected(const md_fa_answer *answer, double by_shape)
{
    static const double UNEXPECTED = 1.5;
    return answer->slices > 1 && answer->us > UNEXPECTED * by_shape;
}

/* The geometric mean of the time by the shape and the time by the answer, which picks better than either of them alone
 * (data/results/model.md). But slices that the shape's model did not expect are a fact. */
static double join(double by_shape, const md_fa_answer *answer)
{
    if (!(answer->us > 0.0))
        return by_shape;
    return is_unexpected(answer, by_shape) ? answer->us : sqrt(by_shape * answer->us);
}

static bool can_answer(const md_bd_variant *v)
{
    return v->family->library_answer && v->n_launches == 1;
}

void md_ds_take_answers(double *us, const md_ds_op *op, int32_t stage, const md_kn_shape *shape, const int64_t *sizes,
                        int32_t n)
{
    const md_ds_pool *pool = &op->stage[stage];
    for (int32_t d = 0; d < op->space.n; d++)
        if (sizes[op->space.dim[d]] != shape->size[op->space.dim[d]])
            return;
    for (int32_t i = 0; i < n; i++) {
        if (!(us[i] > 0.0) || !can_answer(pool->variant[i]))
            continue;
        const md_fa_answer answer = md_bd_variant_answer(pool->variant[i], shape);
        us[i] = join(us[i], &answer);
    }
}

bool md_ds_answers_otherwise(const md_ds_op *op, int32_t stage, int32_t variant, const md_ds_query *query)
{
    const md_ds_pool *pool = &op->stage[stage];
    const md_bd_variant *v = pool->variant[variant];
    if (!can_answer(v))
        return false;
    const md_fa_answer answer = md_bd_variant_answer(v, query->shape);
    return answer.slices > 1 &&
           is_unexpected(&answer, md_tn_predict_us(&pool->target, v->family, &v->config, query->select_sizes));
}
