/* What a device allows at best, and what keeps a config from it, by the cost model. */
#include "tune/tune.h"

#include <math.h>

/* f32 operations of the CUDA cores -> those of the tensor cores on operands of 16 bits: 19.5 -> 312 TFLOP/s on an A100,
 * 67 -> 989 on an H100. Twice as much on 8 bits. */
static const double TENSOR_GAIN = 14.8;

/* What is mended: the features of the config become what the formula needs at least. */
typedef struct loss {
    const char *reason;
    void (*mend)(md_fa_features *features, const md_dev_facts *facts, double flops, double bytes);
} loss;

static void mend_bytes(md_fa_features *f, const md_dev_facts *facts, double flops, double bytes)
{
    (void)facts, (void)flops;
    f->memory_bytes = fmin(f->memory_bytes, bytes);
    f->cache_bytes = 0.0;
}

static void mend_rate(md_fa_features *f, const md_dev_facts *facts, double flops, double bytes)
{
    (void)facts, (void)flops, (void)bytes;
    f->memory_rate = 1.0;
}

static void mend_lanes(md_fa_features *f, const md_dev_facts *facts, double flops, double bytes)
{
    (void)flops, (void)bytes;
    f->parallel = facts->threads;
}

static void mend_loop(md_fa_features *f, const md_dev_facts *facts, double flops, double bytes)
{
    (void)facts, (void)flops, (void)bytes;
    f->ops_rate = 1.0;
}

static void mend_operations(md_fa_features *f, const md_dev_facts *facts, double flops, double bytes)
{
    (void)facts, (void)bytes;
    f->ops = fmin(f->ops, flops);
    f->transcendental = 0.0;
}

static void mend_start(md_fa_features *f, const md_dev_facts *facts, double flops, double bytes)
{
    (void)facts, (void)flops, (void)bytes;
    f->serial_us = 0.0;
    f->launches = 1;
}

static const loss losses[] = {{"it moves more bytes than its tensors have", mend_bytes},
                              {"too few loads in flight, or waves of blocks that are not full", mend_rate},
                              {"too few blocks for all lanes", mend_lanes},
                              {"instructions beside the arithmetic", mend_loop},
                              {"more operations than the formula counts: functions such as exp, padding of tiles, "
                               "conversions",
                               mend_operations},
                              {"latency, and launches after the first", mend_start}};

/* The least time in us that the device could take: the higher of the bytes at its rate and the operations at its peak,
 * that of the tensor cores for products of 16 bits or less. */
static double roof_us(const md_dev_facts *facts, const md_tn_need *need, bool *is_arithmetic)
{
    const double gain = facts->kind == MD_DEV_CUDA && need->is_product && need->operand_bytes <= 2
                            ? TENSOR_GAIN * 2.0 / need->operand_bytes
                            : 1.0;
    const md_fa_features moved = {.memory_bytes = need->bytes, .ops_rate = 1.0, .parallel = facts->threads};
    const md_fa_features nothing = {.ops_rate = 1.0, .parallel = facts->threads};
    const double memory = md_tn_model_us(facts, &moved) - md_tn_model_us(facts, &nothing);
    const double arithmetic = need->flops / (facts->gflops * gain) * 1e-3;
    *is_arithmetic = arithmetic > memory;
    return fmax(memory, arithmetic);
}

/* What is left where there is no work: the launch. */
static double launch_us(const md_dev_facts *facts, const md_fa_features *f)
{
    const md_fa_features nothing = {.ops_rate = 1.0, .parallel = f->parallel, .launches = 1};
    return md_tn_model_us(facts, &nothing);
}

md_tn_shortfall md_tn_shortfall_of(const md_dev_facts *facts, const md_fa_features *features, const md_tn_need *need)
{
    const double us = md_tn_model_us(facts, features);
    md_tn_shortfall out = {.us = us, .reason = "the launch", .lost_us = launch_us(facts, features)};
    out.roof_us = roof_us(facts, need, &out.is_arithmetic);
    for (int32_t i = 0; i < MD_COUNT(losses); i++) {
        md_fa_features mended = *features;
        losses[i].mend(&mended, facts, need->flops, need->bytes);
        const double lost = us - md_tn_model_us(facts, &mended);
        if (lost > out.lost_us) {
            out.lost_us = lost;
            out.reason = losses[i].reason;
        }
    }
    return out;
}
