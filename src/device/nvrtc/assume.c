/* Facts of typical GPUs, for machines without one. */
#include "device/device.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* As facts.c derives them from what the driver reports, so that kernels that are chosen for these facts are those that
 * the board's own facts choose: 86.6% of the rate by clock (kHz) and width (bits), and two flops a lane and clock. */
#define COPY_GBPS(khz, bits) (2.0 * (khz)*1e3 * (bits) / 8.0 * 1e-9 * 0.866)
#define GFLOPS(sms, lanes, khz) ((sms) * (lanes)*2.0 * (khz)*1e-6)

/* The first of an architecture is its typical one. H200 and H100: clocks as reported; others as published. */
static const md_dev_facts boards[] = {
    {
        .kind = MD_DEV_CUDA,
        .name = "NVIDIA A100 (assumed)",
        .arch = "sm_80",
        .capability = 80,
        .threads = 108,
        .vector_bytes = 16,
        .l1_bytes = 164 << 10,
        .l2_bytes = 40ll << 20,
        .memory_gbps = COPY_GBPS(1593000.0, 5120.0),
        .lane_gbps = 75,
        .cache_gbps = 45,
        .gflops = GFLOPS(108, 64.0, 1410000.0),
        .launch_us = 2.2,
        .shared_per_block = 163 << 10,
        .shared_per_sm = 164 << 10,
        .registers_per_sm = 65536,
        .threads_per_sm = 2048,
        .blocks_per_sm = 32,
        .global_bytes = 80ll << 30,
    },
    {
        .kind = MD_DEV_CUDA,
        .name = "NVIDIA H200 (assumed)",
        .arch = "sm_90a",
        .capability = 90,
        .threads = 132,
        .vector_bytes = 16,
        .l1_bytes = 228 << 10,
        .l2_bytes = 60ll << 20,
        .memory_gbps = COPY_GBPS(3201000.0, 6016.0),
        .lane_gbps = 75,
        .cache_gbps = 45,
        .gflops = GFLOPS(132, 128.0, 1980000.0),
        .launch_us = 2.2,
        .shared_per_block = 227 << 10,
        .shared_per_sm = 228 << 10,
        .registers_per_sm = 65536,
        .threads_per_sm = 2048,
        .blocks_per_sm = 32,
        .global_bytes = 141ll << 30,
    },
    {
        .kind = MD_DEV_CUDA,
        .name = "NVIDIA H100 (assumed)",
        .arch = "sm_90a",
        .capability = 90,
        .threads = 132,
        .vector_bytes = 16,
        .l1_bytes = 228 << 10,
        .l2_bytes = 50ll << 20,
        .memory_gbps = COPY_GBPS(2619000.0, 5120.0),
        .lane_gbps = 75,
        .cache_gbps = 45,
        .gflops = GFLOPS(132, 128.0, 1980000.0),
        .launch_us = 2.2,
        .shared_per_block = 227 << 10,
        .shared_per_sm = 228 << 10,
        .registers_per_sm = 65536,
        .threads_per_sm = 2048,
        .blocks_per_sm = 32,
        .global_bytes = 80ll << 30,
    },
    {
        .kind = MD_DEV_CUDA,
        .name = "NVIDIA B200 (assumed)",
        .arch = "sm_100a",
        .capability = 100,
        .threads = 148,
        .vector_bytes = 16,
        .l1_bytes = 228 << 10,
        .l2_bytes = 126ll << 20,
        .memory_gbps = 6800,
        .lane_gbps = 75,
        .cache_gbps = 45,
        .gflops = GFLOPS(148, 128.0, 1965000.0),
        .launch_us = 2.2,
        .shared_per_block = 227 << 10,
        .shared_per_sm = 228 << 10,
        .registers_per_sm = 65536,
        .threads_per_sm = 2048,
        .blocks_per_sm = 32,
        .global_bytes = 180ll << 30,
    },
    /* what every GPU from 8.0 on has: for PTX */
    {
        .kind = MD_DEV_CUDA,
        .name = "GPU of capability 8.0 or more (assumed)",
        .arch = "compute_80",
        .capability = 80,
        .threads = 48,
        .vector_bytes = 16,
        .l1_bytes = 100 << 10,
        .l2_bytes = 24ll << 20,
        .memory_gbps = 600,
        .lane_gbps = 75,
        .cache_gbps = 45,
        .gflops = GFLOPS(48, 128.0, 1700000.0),
        .launch_us = 2.2,
        .shared_per_block = 99 << 10,
        .shared_per_sm = 100 << 10,
        .registers_per_sm = 65536,
        .threads_per_sm = 1536,
        .blocks_per_sm = 16,
        .global_bytes = 12ll << 30,
    },
};

md_status md_dev_cuda_assume(md_dev_facts *out, int32_t capability)
{
    for (int32_t i = 0; i < MD_COUNT(boards); i++) {
        if (boards[i].capability == capability) {
            *out = boards[i];
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
            *out = boards[i];
            return MD_OK;
        }
    }
    return n ? md_fail(MD_NOT_FOUND, "%.20s has %d boards", arch, (int)n)
             : md_fail(MD_INVALID_ARGUMENT, "'%.40s' is no architecture: sm_80, sm_90a, sm_100a and ptx are known",
                       arch);
}
