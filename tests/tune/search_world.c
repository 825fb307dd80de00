/* The simulated device of searches: a model time, distorted by values of fields that are liked or not. */
#include "tune/search_world.h"
#include "device/open.h"

#include <math.h>

static double distort(const search_world *w, const md_fa_family *f, const md_fa_config *c)
{
    double factor = 1.0;
    for (int32_t i = 0; i < f->n_fields; i++) {
        uint64_t s = w->seed + 1000 * (uint64_t)(i + 1) + (uint64_t)f->name[4] * 7 + (uint64_t)f->name[0];
        int32_t liked = 0, at = 0;
        const int32_t value = f->field[i].value[check_random(&s) % (uint64_t)(f->field[i].n + f->field[i].more)];
        for (int32_t k = 0; k < f->field[i].n + f->field[i].more; k++) {
            liked += f->field[i].value[k] < value;
            at += f->field[i].value[k] < c->value[i];
        }
        factor *= 1.0 + w->step * abs(liked - at);
    }
    return factor;
}

double search_price_of(const search_world *w, const char *variant, const int64_t *size)
{
    const md_fa_family *f;
    md_fa_config c;
    if (md_fa_parse(&f, &c, w->facts.kind, variant) != MD_OK)
        return -1.0;
    return md_tn_predict_us(&w->target, f, &c, size) * distort(w, f, &c);
}

static double price(void *user, const char *variant, const md_kn_call *call)
{
    search_world *w = user;
    if (w->builds_first)
        md_bd_wait_all(w->builder);
    if (w->fails && strstr(variant, w->fails))
        return -1.0;
    if (w->zero && strstr(variant, w->zero))
        return 0.0;
    if (w->nan && strstr(variant, w->nan))
        return NAN;
    const double us = search_price_of(w, variant, call->shape->size);
    if (!w->slow || !strstr(variant, w->slow))
        return us;
    w->n_slow++;
    return 1000.0 * us;
}

void search_world_open(search_world *w, const char *formula, md_dtype dtype, uint64_t seed, double noise,
                       double compile_ms)
{
    md_dev_facts facts;
    assert_ok(md_dev_cuda_assume(&facts, 90));
    search_world_open_on(
        w, &facts, formula, dtype,
        &(sim_device_options){.seed = seed, .noise = noise, .compile_ms = compile_ms, .timing_us = 20.0});
}

void search_world_open_on(search_world *w, const md_dev_facts *facts, const char *formula, md_dtype dtype,
                          const sim_device_options *settings)
{
    memset(w, 0, sizeof *w);
    const md_fx_options o = {.dtype = dtype};
    w->facts = *facts;
    assert_ok(md_fx_formula_create(&w->formula, formula, &o));
    assert_ok(md_st_program_create(&w->program, w->formula));
    w->target = (md_fa_target){w->program, 0, &w->facts};
    w->seed = settings->seed;
    w->step = 0.06;
    assert_ok(md_pool_create(&w->pool, 2));
    sim_device_options sim = *settings;
    sim.facts = &w->facts;
    sim.price = price;
    sim.user = w;
    sim.pool = w->pool;
    assert_ok(sim_device_open(&w->dev, &sim));
    assert_ok(md_bd_create(&w->builder, w->dev));
    assert_ok(md_tn_wisdom_create(&w->wisdom));
}

void search_world_close(search_world *w)
{
    md_bd_destroy(&w->builder);
    md_tn_wisdom_destroy(&w->wisdom);
    md_dev_close(&w->dev);
    md_pool_destroy(&w->pool);
    md_st_program_destroy(&w->program);
    md_fx_formula_destroy(&w->formula);
}

md_tn_point search_point(int64_t i, int64_t j)
{
    md_tn_point p = {.is_ragged = false};
    p.size[0] = i;
    p.size[1] = j;
    return p;
}

md_tn_job search_job(search_world *w, const md_tn_point *p, int32_t n, md_tune rigor)
{
    return (md_tn_job){.builder = w->builder,
                       .target = w->target,
                       .wisdom = w->wisdom,
                       .count = &w->count,
                       .rigor = rigor,
                       .budget_ms = 1e7,
                       .n_points = n,
                       .point = p,
                       .seed = 1};
}

int32_t search_found(md_tn_record *out, search_world *w, const md_tn_point *p, md_tune rigor)
{
    char *key = NULL;
    int32_t n = 0;
    memset(out, 0, sizeof *out);
    assert_ok(md_tn_key(&key, &w->target, p->size, p->is_ragged));
    for (const md_fa_family *const *f = md_fa_families(w->facts.kind); *f; f++) {
        md_tn_record r;
        if (md_tn_wisdom_find(&r, w->wisdom, key, (*f)->name, rigor) != MD_OK)
            continue;
        n++;
        if (r.count > 0 && (!out->key || r.us < out->us)) {
            md_tn_record_finish(out);
            *out = r;
        } else {
            md_tn_record_finish(&r);
        }
    }
    free(key);
    return n;
}

uint64_t search_compiles(const search_world *w)
{
    return atomic_load(&md_bd_count(w->builder)->compiles);
}
