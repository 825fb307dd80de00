/* A measured search on a simulated device, whose times come from a script so that equal runs are equal. */
#ifndef MD_TESTS_TUNE_SEARCH_WORLD_H
#define MD_TESTS_TUNE_SEARCH_WORLD_H

#include "support/check.h"
#include "support/devices/sim_device.h"

#include "tune/search/search.h"
#include "tune/tune.h"

/* Times that the model gets wrong: each field of each family has a value that it likes, and others cost. */
typedef struct search_world {
    md_dev_facts facts;
    md_fx_formula *formula;
    md_st_program *program;
    md_fa_target target;
    uint64_t seed;
    double step; /* what one place away from the liked value costs */
    const char *fails, *zero, *nan, *slow; /* part of a variant's name; NULL */
    int32_t n_slow;
    /* Nothing runs before all queued builds have ended. Builds advance the device's clock when the pool's threads come
     * to them, which would be anywhere. */
    bool builds_first;
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    md_tn_wisdom *wisdom;
    md_tn_counters count;
} search_world;

#define SEARCH_SOFTMAX "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))"
#define SEARCH_GELU "Y[i,j] = gelu(X[i,j])"

/** `noise` of each timing; every build takes compile_ms. */
void search_world_open(search_world *w, const char *formula, md_dtype dtype, uint64_t seed, double noise,
                       double compile_ms);
/** The same on a device of these facts; `settings`: all but its facts, prices and pool. */
void search_world_open_on(search_world *w, const md_dev_facts *facts, const char *formula, md_dtype dtype,
                          const sim_device_options *settings);
void search_world_close(search_world *w);
/** What a variant takes at these sizes, without noise. */
double search_price_of(const search_world *w, const char *variant, const int64_t *size);
md_tn_point search_point(int64_t i, int64_t j);
/** All of a search but its special wishes. */
md_tn_job search_job(search_world *w, const md_tn_point *p, int32_t n, md_tune rigor);
/** The best of all families' records at a point; returns how many families have one. */
int32_t search_found(md_tn_record *out, search_world *w, const md_tn_point *p, md_tune rigor);
/** Variants that were built. */
uint64_t search_compiles(const search_world *w);

#endif
