/* The time of a config by the cost model. */
#include "tune/model/model_fit.h"
#include "tune/model/trees.h"
#include "tune/tune.h"

#include "base/status.h"

#include <float.h>
#include <math.h>

/* The cost model: a roofline with three roofs (memory, private caches, arithmetic), each as high as the lanes that the
 * variant keeps busy can push it, plus what does not overlap with work: launches and latency.
 *
 *   time = max(memory, cache, arithmetic) + OVERLAP_LOSS * (the other two) + launches + serial
 *
 * The constants of model_fit.h and the rates in md_dev_facts are all it knows; it only has to rank variants of one
 * stage. */

/* No variant takes less: a time of 0 would win every comparison. */
static const double LEAST_US = 0.02;

static double sane(double x, double fallback)
{
    return x > 0.0 && x <= DBL_MAX ? x : fallback;
}

/* GB/s from memory with p lanes busy: one lane has its own limit, all lanes have the machine's. */
static double memory_rate(const md_dev_facts *facts, double p)
{
    double all = sane(facts->memory_gbps, 10.0);
    double one = fmin(sane(facts->lane_gbps, all / facts->threads), all);
    return fmin(one * p, all);
}

/* Bytes that fit into a cache move at its rate, the rest at the next one's: monotone and without steps. */
static double memory_us(const md_dev_facts *facts, double n_bytes, double p)
{
    double slow = memory_rate(facts, p);
    double fast = fmax(sane(facts->cache_gbps, slow) * p, slow);
    double middle = fmin(slow * SHARED_CACHE_GAIN, fast);
    double private_bytes = fmin(n_bytes, 0.5 * (double)facts->l2_bytes * p);
    double shared_limit = fmin((double)facts->l3_bytes, SHARED_BYTES_PER_LANE * facts->threads);
    double shared_bytes = fmin(n_bytes - private_bytes, fmax(shared_limit - private_bytes, 0.0));
    double far_bytes = n_bytes - private_bytes - shared_bytes;
    return (private_bytes / fast + shared_bytes / middle + far_bytes / slow) * 1e-3;
}

static double arithmetic_us(const md_dev_facts *facts, const md_fa_features *f, double p)
{
    double gflops = sane(facts->gflops, 10.0) / facts->threads * p;
    double rate = fmin(sane(f->ops_rate, 1.0), 1.0);
    return (sane(f->ops, 0.0) / rate + sane(f->transcendental, 0.0) * OPS_PER_TRANSCENDENTAL) / gflops * 1e-3;
}

static double host_us(const md_dev_facts *facts, const md_fa_features *f)
{
    double p = fmin(fmax(sane(f->parallel, 1.0), 1.0), facts->threads);
    double memory = memory_us(facts, sane(f->memory_bytes, 0.0), p);
    double cache = sane(f->cache_bytes, 0.0) / (sane(facts->cache_gbps, 10.0) * p) * 1e-3;
    double arithmetic = arithmetic_us(facts, f, p);
    double highest = fmax(fmax(memory, cache), arithmetic);
    double others = memory + cache + arithmetic - highest;
    double launch = p > 1.0 ? fmax(sane(facts->launch_us, 1.0), LONE_LAUNCH_US) : LONE_LAUNCH_US;
    double us = highest + OVERLAP_LOSS * others + launch * f->launches + sane(f->serial_us, 0.0);
    return fmax(us, LEAST_US);
}

/* ---- GPUs: what a launch costs apart from its work, then the higher of two roofs. The family says which part of the
 * memory rate its loads in flight and its waves can reach. */

static double gpu_us(const md_dev_facts *facts, const md_fa_features *f)
{
    double rate = sane(facts->memory_gbps, 1000.0) * MD_MIN(sane(f->memory_rate, 1.0), 1.0);
    double memory = (sane(f->memory_bytes, 0.0) + sane(f->cache_bytes, 0.0) / GPU_L2_GAIN) / rate * 1e-3;
    double busy = MD_MIN(sane(f->parallel, facts->threads), facts->threads) / facts->threads;
    double gflops = sane(facts->gflops, 10000.0) * busy * MD_MIN(sane(f->ops_rate, 1.0), 1.0);
    double arithmetic = (sane(f->ops, 0.0) + sane(f->transcendental, 0.0) * GPU_OPS_PER_TRANSCENDENTAL) / gflops * 1e-3;
    double us = MD_MAX(memory, arithmetic) + GPU_OVERLAP_LOSS * MD_MIN(memory, arithmetic);
    return GPU_LAUNCH_US + GPU_NEXT_LAUNCH_US * (MD_MAX(f->launches, 1) - 1) + us + sane(f->serial_us, 0.0);
}

double md_tn_model_us(const md_dev_facts *facts, const md_fa_features *features)
{
    return facts->kind == MD_DEV_CUDA ? gpu_us(facts, features) : host_us(facts, features);
}

double md_tn_factor_of(const md_dev_facts *facts, const md_fa_family *family)
{
    const md_dev_factors *f = facts->factors;
    for (int32_t i = 0; f && i < f->n; i++)
        if (f->family[i] == family)
            return f->factor[i];
    return 1.0;
}

/* By the form alone; a config that takes longer than `enough` need not be exact. */
static double plain_us(md_fa_features *features, const md_fa_target *target, const md_fa_family *family,
                       const md_fa_config *config, const int64_t *size, double enough)
{
    const double before = target->memo ? target->memo->enough_us : 0;
    *features = (md_fa_features){.ops_rate = 1.0, .parallel = 1.0, .launches = 1};
    if (target->memo)
        target->memo->enough_us = enough;
    md_fa_features_of(features, family, target, config, size);
    if (target->memo)
        target->memo->enough_us = before;
    return md_tn_model_us(target->facts, features);
}

static double enough_of(const md_fa_target *target)
{
    return target->memo ? target->memo->enough_us : HUGE_VAL;
}

double md_tn_form_us(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config,
                     const int64_t *size)
{
    const double factor = md_tn_factor_of(target->facts, family);
    md_fa_features features;
    return factor * plain_us(&features, target, family, config, size, enough_of(target) / factor);
}

double md_tn_predict_us(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config,
                        const int64_t *size)
{
    const md_tn_trees *trees = md_tn_trees_of(target->facts, family);
    if (!trees)
        return md_tn_form_us(target, family, config, size);
    const double factor = md_tn_factor_of(target->facts, family),
                 enough = enough_of(target) / (factor * MD_TN_TREE_LEAST);
    md_fa_features features;
    const double us = plain_us(&features, target, family, config, size, enough);
    if (us > enough)
        return factor * us; /* the trees bring it below `enough` no more */
    return factor * us * md_tn_trees_factor(trees, &(md_tn_question){target, config, size, &features, us});
}
