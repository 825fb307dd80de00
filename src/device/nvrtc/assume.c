/* Facts of typical GPUs, for machines without one. */
#include "device/device.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* As facts.c derives them from what the driver reports, so that kernels that are chosen for these facts are those that
 * the board's own facts choose: 86.6% of the rate by clock (kHz) and width (bits), and two flops a lane and clock. */
#define COPY_GBPS(khz, bits) (2.0 * (khz)*1e3 * (bits) / 8.0 * 1e-9 * 0.866)
#define GFLOPS(sms, lanes, khz) ((sms) * (lanes)*2.0 * (khz)*1e-6)

/* What differs between boards; sizes of memories in KB, MB and GB. */
typedef struct board {
    const char *name, *arch;
    int32_t capability, sms;
    double gflops, memory_gbps;
    int32_t l1_kb, shared_per_block_kb, l2_mb, threads_per_sm, blocks_per_sm, global_gb;
} board;

/* The first of an architecture is its typical one. H200 and H100: clocks as reported; others as published. The last is
 * what every GPU from 8.0 on has: for PTX. */
static const board boards[] = {
    {"NVIDIA A100 (assumed)", "sm_80", 80, 108, GFLOPS(108, 64.0, 1410000.0), COPY_GBPS(1593000.0, 5120.0), 164, 163,
     40, 2048, 32, 80},
    {"NVIDIA H200 (assumed)", "sm_90a", 90, 132, GFLOPS(132, 128.0, 1980000.0), COPY_GBPS(3201000.0, 6016.0), 228, 227,
     60, 2048, 32, 141},
    {"NVIDIA H100 (assumed)", "sm_90a", 90, 132, GFLOPS(132, 128.0, 1980000.0), COPY_GBPS(2619000.0, 5120.0), 228, 227,
     50, 2048, 32, 80},
    {"NVIDIA B200 (assumed)", "sm_100a", 100, 148, GFLOPS(148, 128.0, 1965000.0), 6800, 228, 227, 126, 2048, 32, 180},
    {"GPU of capability 8.0 or more (assumed)", "compute_80", 80, 48, GFLOPS(48, 128.0, 1700000.0), 600, 100, 99, 24,
     1536, 16, 12},
};

static void fill(md_dev_facts *out, const board *b)
{
    *out = (md_dev_facts){.kind = MD_DEV_CUDA,
                          .capability = b->capability,
                          .threads = b->sms,
                          .vector_bytes = 16,
                          .l1_bytes = (int64_t)b->l1_kb << 10,
                          .l2_bytes = (int64_t)b->l2_mb << 20,
                          .memory_gbps = b->memory_gbps,
                          .lane_gbps = 75,
                          .cache_gbps = 45,
                          .gflops = b->gflops,
                          .launch_us = 2.2,
                          .shared_per_block = (int64_t)b->shared_per_block_kb << 10,
                          .shared_per_sm = (int64_t)b->l1_kb << 10,
                          .registers_per_sm = 65536,
                          .threads_per_sm = b->threads_per_sm,
                          .blocks_per_sm = b->blocks_per_sm,
                          .global_bytes = (int64_t)b->global_gb << 30};
    snprintf(out->name, sizeof out->name, "%s", b->name);
    snprintf(out->arch, sizeof out->arch, "%s", b->arch);
}

md_status md_dev_cuda_assume(md_dev_facts *out, int32_t capability)
{
    for (int32_t i = 0; i < MD_COUNT(boards); i++) {
        if (boards[i].capability == capability) {
            fill(out, &boards[i]);
            return MD_OK;
        }
    }
    return md_fail(MD_INVALID_ARGUMENT, "no facts of a GPU of compute capability %d are known; 80, 90 and 100 are",
                   (int)capability);
}

md_status md_dev_cuda_assume_board(md_dev_facts *out, const char *arch, int32_t number)
{
    int32_t n = 0;
    for (int32_t i = 0; i < MD_COUNT(boards); i++) {
        if (strcmp(boards[i].arch, arch) == 0 && n++ == number) {
            fill(out, &boards[i]);
            return MD_OK;
        }
    }
    return n ? md_fail(MD_NOT_FOUND, "%.20s has %d boards", arch, (int)n)
             : md_fail(MD_INVALID_ARGUMENT, "'%.40s' is no architecture: sm_80, sm_90a, sm_100a and ptx are known",
                       arch);
}
