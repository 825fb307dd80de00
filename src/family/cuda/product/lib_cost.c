/* The time of a product in cuBLASLt. Its kernels for rows that are aligned to 16 bytes are modelled in wgmma_cost.c. */
#include "family/cuda/product/lib_cost.h"

#include "family/cuda/product/wgmma_cost.h"

#include <math.h>

/* By kind (rows aligned to 2, 4 or 8 bytes only, and CUDA cores): us of a launch, us of 64 steps of K, flops of an SM
 * in a us, part of the memory rate, us of adding slices. */
enum { PIECES = 3, PLAIN = 3, KINDS };
static const double START[KINDS] = {3.23, 4.25, 9.28, 3.14}, STEP[KINDS] = {0.623, 0.153, 0.684, 0.0486},
                    RATE[KINDS] = {1.1, 0.937, 1.15, 0.381}, MEMORY[KINDS] = {0.273, 0.246, 0.44, 0.479},
                    SUM[KINDS] = {4.26, 5.03, 0.117, 4.41};
/* A matrix times a vector takes this part of the time; on CUDA cores, one row, and few rows. */
static const double ONE_ROW = 0.532, PLAIN_ROW = 0.391, PLAIN_ROWS = 0.885;
enum { FEW_ROWS = 16 };
static const double SUM_GBPS[KINDS] = {7110, 1670, 35700, 54400}, F64_RATE = 0.5;

static int32_t pieces_of(int64_t n)
{
    return n % 2 ? 0 : n % 4 ? 1 : n % 8 ? 2 : 3;
}

/* The kind of the worst aligned matrix; PIECES: all are aligned to 16 bytes. */
static int32_t pieces(const md_fa_product *w, bool is_direct)
{
    int32_t least = pieces_of(is_direct ? w->columns : 2 * w->columns);
    for (int32_t o = 0; o <= 1; o++)
        least = MD_MIN(least, pieces_of(md_fa_product_line(w, o)));
    return least;
}

static double few_rows(int64_t rows, int32_t kind)
{
    if (rows == 1)
        return kind < PIECES ? ONE_ROW : PLAIN_ROW;
    return kind == PLAIN && rows <= FEW_ROWS ? PLAIN_ROWS : 1;
}

/* The least time over some tiles and numbers of slices. */
static double tiled_us(const md_dev_facts *facts, const md_fa_product *w, int32_t kind)
{
    static const int32_t tile[][2] = {{64, 64}, {128, 64}, {64, 128}, {128, 128}, {256, 128}};
    const double sms = MD_MAX(facts->threads, 1), results = (double)w->batch * (double)w->rows * (double)w->columns;
    const double memory = w->bytes / (facts->memory_gbps * MEMORY[kind]) * 1e-3,
                 rate = RATE[kind] * 1e6 * (w->p.type == MD_F64 ? F64_RATE : 1);
    double best = INFINITY;
    for (int32_t i = 0; i < MD_COUNT(tile); i++)
        for (int32_t split = 1; split <= 32; split *= 2) {
            double blocks =
                (double)w->batch * ceil((double)w->rows / tile[i][0]) * ceil((double)w->columns / tile[i][1]) * split;
            double steps = ceil((double)w->depth / 64 / split),
                   step = STEP[kind] + tile[i][0] * tile[i][1] * 128.0 * w->p.n_products / rate;
            double work = ceil(blocks / sms) * steps * step +
                          (split > 1 ? SUM[kind] + results * 8 * split / SUM_GBPS[kind] * 1e-3 : 0);
            best = fmin(best, fmax(work, memory));
        }
    return (START[kind] + best) * few_rows(w->rows, kind);
}

double md_fa_cuda_library_us(const md_dev_facts *facts, const md_fa_product *w, bool is_plain, bool is_direct)
{
    const int32_t kind = is_plain ? PLAIN : pieces(w, is_direct);
    return is_plain || kind < PIECES ? tiled_us(facts, w, kind) : md_fa_wgmma_best_us(facts, w);
}
