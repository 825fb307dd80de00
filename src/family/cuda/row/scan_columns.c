/* Scans of few long columns in one pass (cuda/scan_columns.cu): how many blocks, how much workspace, what it costs. */
#include "family/cost.h"
#include "family/cuda/row/scan.h"

#include <math.h>

/* THREADS: of a block. ACROSS: its vectors of columns. DOWN: its runs of a column. GROUP_TILES: of a group, whose first
 * tile adds up. COUNTED: tiles whose states fit the stream's counters. */
enum { THREADS = 256, ACROSS = 8, DOWN = THREADS / ACROSS, GROUP_TILES = 16, COUNTED = 65535, STATE_BYTES = 16 };
/* HOP_US: from one group's totals to the next one's. TILE_US, ITEM_US: of an SM for a tile, and for each of its items
 * (H200: [8,65536,64] of f32 takes 376, 223, 178 and 151 us with 2, 4, 6 and 8 items). */
static const double HOP_US = 2.5, TILE_US = 2.42, ITEM_US = 0.3;

/* Blocks of all tiles of columns, as cuda/scan_columns.cu counts them; *chains: those side by side. */
static int64_t column_tiles(int64_t *chains, const md_fa_target *target, int32_t items, const md_fa_cuda_scan_size *s)
{
    int64_t width = md_fa_cuda_width(target->program, target->stage) * ACROSS, length = (int64_t)DOWN * items;
    *chains = s->lanes > 0 && s->n > 0 ? s->rows / s->lanes * ((s->lanes + width - 1) / width) : 0;
    return *chains * ((s->n + length - 1) / length);
}

void md_fa_cuda_place_column_tiles(md_kn_plan_geometry *out, const md_fa_target *target, int32_t items,
                                   const int64_t *size)
{
    md_fa_cuda_scan_size s;
    int64_t chains, threads = THREADS;
    md_fa_cuda_scan_measure(&s, target, size);
    int64_t tiles = column_tiles(&chains, target, items, &s), in_workspace = tiles > COUNTED ? tiles + 1 : 0;
    int64_t groups = tiles / GROUP_TILES + chains, width = md_fa_cuda_width(target->program, target->stage) * ACROSS;
    *out = (md_kn_plan_geometry){.workspace_bytes = in_workspace * STATE_BYTES +
                                                    (tiles + groups) * width * md_fa_cuda_scan_total(target)};
    out->launch[0] = md_fa_cuda_launch((in_workspace + threads - 1) / threads, THREADS);
    out->launch[1] = md_fa_cuda_launch(tiles, THREADS);
}

/* Each tensor is touched once. Groups of tiles wait for the group before: HOP_US each. */
void md_fa_cuda_column_tile_features(md_fa_features *out, const md_fa_target *target, int32_t items,
                                     const int64_t *size)
{
    md_fa_cuda_scan_size s;
    int64_t chains;
    md_fa_cuda_scan_measure(&s, target, size);
    int64_t tiles = column_tiles(&chains, target, items, &s);
    double points = (double)s.rows * (double)s.n, depth = (double)tiles / (double)MD_MAX(chains, 1);
    const double rate = md_fa_cuda_bytes_per_us(target->facts), memory = s.bytes / (0.9 * rate);
    const double working = (double)tiles / MD_MAX(target->facts->threads, 1) * (TILE_US + ITEM_US * items);
    const double waiting = ceil(depth / GROUP_TILES) * HOP_US, us = fmax(fmax(memory, working), waiting);
    *out = (md_fa_features){.ops_rate = 1, .parallel = target->facts->threads, .launches = 1 + (tiles > COUNTED)};
    out->memory_bytes = s.bytes;
    out->memory_rate = fmax(s.bytes / fmax(us, 1e-9) / rate, 1e-9);
    out->serial_us = 3.0;
    out->ops = points * (s.ops + 8);
    out->transcendental = points * s.transcendental;
}
