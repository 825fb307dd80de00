/* How many blocks an SM holds, and how much of the memory rate a launch can reach with the bytes it has in flight. */
#include "family/cuda/cuda.h"

#include "base/status.h"

#include <math.h>

/* Bytes in flight on an SM that saturate memory: 48 KiB on Hopper with HBM3e, 16 KiB on A100 (as CUB's transform is
 * tuned). */
static double saturation_bytes(const md_dev_facts *facts)
{
    return facts->capability >= 90 ? 48.0 * 1024 : 16.0 * 1024;
}
/* An SM reaches at most this many times its share of the memory rate (64 bytes a clock; the share is 18 on H200). */
static const double SM_BURST = 3.0;

int32_t md_fa_cuda_resident(const md_dev_facts *facts, const md_fa_cuda_load *load)
{
    int32_t registers = load->registers > 0 ? (load->registers + 7) / 8 * 8 : 40;
    int32_t threads = (MD_MAX(load->threads, 32) + 31) / 32 * 32;
    int64_t n = facts->threads_per_sm / threads;
    n = MD_MIN(n, facts->registers_per_sm / (registers * threads));
    n = MD_MIN(n, facts->blocks_per_sm);
    if (load->shared_bytes > 0)
        n = MD_MIN(n, facts->shared_per_sm / (load->shared_bytes + 1024));
    return (int32_t)n;
}

/* A cluster lies within one GPC. How many SMs each GPC has is not told: its pairs of SMs may be switched off, and
 * boards of the same name differ. Most SMs are left over where GPCs are as uneven as they can be. */
enum { MOST_GPCS = 8, LEAST_SMS = 14, MOST_SMS = 18 };

int64_t md_fa_cuda_clusters(const md_dev_facts *facts, int32_t cluster, int32_t blocks)
{
    const int64_t sms = MD_MAX(facts->threads, 1),
                  gpcs = MD_MAX((sms + MOST_SMS - 1) / MOST_SMS, MD_MIN(MOST_GPCS, sms / LEAST_SMS));
    int64_t missing = gpcs * MOST_SMS - sms, clusters = 0;
    for (int64_t i = 0; i < gpcs; i++) {
        const int64_t off = MD_MIN(missing, MOST_SMS - LEAST_SMS);
        clusters += (MOST_SMS - off) / cluster;
        missing -= off;
    }
    return MD_MAX(MD_MIN(clusters, sms / cluster), 1) * blocks;
}

double md_fa_cuda_rate(const md_dev_facts *facts, const md_fa_cuda_load *load)
{
    double resident = MD_MAX(md_fa_cuda_resident(facts, load), 1);
    double sms = MD_MAX(facts->threads, 1), blocks = fmax(load->blocks, 1);
    double capacity = resident * sms;
    if (load->cluster > 1)
        capacity = floor(capacity / load->cluster * md_fa_cuda_cluster_part(load->cluster)) * load->cluster;
    capacity = fmax(capacity, 1);
    double waves = ceil(blocks / capacity);
    double fill = blocks / (waves * capacity); /* part of the waves that has blocks */
    /* blocks end at different times, so that the next wave's blocks fill some of the gaps */
    double tail = blocks <= capacity ? 1 : fill + (1 - fill) * (1 - 1 / waves) * 0.5;
    double running = fmin(blocks, capacity);
    double busy = fmin(running, sms);
    double flight = running * load->threads * fmax(load->bytes, 4);
    double saturation = flight / busy / saturation_bytes(facts); /* on an SM that has blocks */
    double each = fmin(saturation, SM_BURST); /* times an SM's share of the memory rate */
    return fmax(fmin(each * busy / sms, 1) * tail, 1e-3);
}

static void make_width(void *out, const md_st_program *program, int32_t stage, const void *user)
{
    const md_st_stage *st = &program->stage[stage];
    size_t least = 4;
    (void)user;
    for (int32_t i = 0; i < st->n_tensors; i++)
        least = MD_MIN(least, md_dtype_size(program->formula->tensor[st->tensor[i]].dtype));
    *(int32_t *)out = (int32_t)(16 / MD_MAX(least, 2));
}

int32_t md_fa_cuda_width(const md_st_program *program, int32_t stage)
{
    int32_t room;
    const int32_t *width = md_st_look(
        &room, program, stage, &(md_st_fact){.which = MD_ST_KNOWN_WIDTH, .n_bytes = sizeof room, .make = make_width});
    return *width;
}
