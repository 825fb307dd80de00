/* The time of a product in cuBLASLt. Its kernels for rows that are aligned to 16 bytes are modelled in wgmma_cost.c. */
#include "family/cuda/product/lib_cost.h"

#include "base/dtype.h"
#include "family/cost.h"
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

double md_fa_cuda_library_us(const md_fa_target *target, const md_fa_product *w, bool is_plain, bool is_direct)
{
    const md_dev_facts *facts = target->facts;
    md_fa_memo *memo = target->memo;
    if (memo && memo->library_us > 0)
        return memo->library_us;
    const int32_t kind = is_plain ? PLAIN : pieces(w, is_direct);
    const double us = is_plain || kind < PIECES ? tiled_us(facts, w, kind) : md_fa_wgmma_best_us(facts, w);
    if (memo)
        memo->library_us = us;
    return us;
}

/* ---- By the answer */

/* A kind of kernels, by the number of its algorithm: constants fitted to 1,150 random shapes with all answers for each,
 * on an H200. us: of a launch, of a step of K alone, of filling a step for 64 rows or columns, of the epilogue of 64 x
 * 64 elements, of adding slices and of each slice. flops of an SM in a us; parts of the memory rate and GB/s of adding;
 * the norm that joins computing and memory; factors for rows that are aligned to 2, and to 4 or 8 bytes. scale: over
 * the measured time, so that it compares with our own products, which take less than their model says
 * but for those that serve unaligned rows, as algorithm 24 does. */
typedef struct kernel_kind {
    uint32_t algorithm;
    int32_t item, depth; /* bytes of an operand's element, elements of a step of K */
    double start, step, fill, epilogue, sum, slice, rate, memory, sum_gbps, norm, by_2, by_8, scale;
    double results; /* part of the memory rate for results; 0: as for operands */
} kernel_kind;

static const kernel_kind tile_kinds[] = {
    {66, 2, 64, 2.93, 0.115, 0.03, 0.301, 1.51, 0.0128, 9.36e6, 0.837, 4490, 2.44, 1.5, 1.2, 1.16, 0},
    {24, 2, 32, 3.36, 0.0353, 0.324, 0, 2.27, 0.0101, 7.63e6, 0.151, 8270, 13, 0.858, 0.91, 1.05, 0.254},
    {55, 4, 16, 3.42, 0.1, 0.125, 0.469, 2.17, 0.216, 6.51e5, 0.462, 46800, 3.27, 1, 0.992, 1.05, 0},
    {20, 4, 16, 2.06, 0.1, 0.415, 0.251, 2.76, 0.00434, 2.04e6, 0.944, 4560, 1.04, 1, 0.933, 1.05, 0},
};
/* Products with few rows in f32, without tiles. us of 1000 steps of K, us of a further row. */
enum { FEW_ROWS_F32 = 11 };
static const double FEW_START = 2.75, FEW_STEP = 5.24, FEW_RATE = 5.29e6, FEW_MEMORY = 1.26, FEW_ROW = 0.0516;
/* As scale of tile_kinds. */
static const double SCALE = 1.05;
/* One unaligned row of 16-bit elements: us of a launch, of 1000 steps of K, part of the memory rate. From 9 shapes. */
enum { ONE_ROW_16 = 13 };
static const double ONE_START = 3.33, ONE_STEP = 0.548, ONE_MEMORY = 0.426;

static double operand_bytes(const md_dev_cuda_gemm *w, int32_t item)
{
    return (double)w->batch * item * (double)(w->rows + w->columns) * (double)w->depth;
}

static double result_bytes(const md_dev_cuda_gemm *w, int32_t item)
{
    return (double)w->batch * item * (double)w->rows * (double)w->columns;
}

static double gemm_bytes(const md_dev_cuda_gemm *w, int32_t item)
{
    return operand_bytes(w, item) + result_bytes(w, item);
}

/* The factor for rows of operands that are not aligned to 16 bytes. */
static double line_factor(const md_dev_cuda_gemm *w, int32_t item, const kernel_kind *kind)
{
    const int64_t line = w->leading[0] * item | w->leading[1] * item | w->alignment[0] | w->alignment[1];
    return line % 4 ? kind->by_2 : line % 16 ? kind->by_8 : 1;
}

static double tile_us(const md_dev_facts *facts, const md_dev_cuda_gemm *w, const md_dev_cuda_gemm_answer *a,
                      const kernel_kind *kind)
{
    const double sms = MD_MAX(facts->threads, 1), depth = kind->depth;
    const double units =
        (double)w->batch * ceil((double)w->rows / a->rows) * ceil((double)w->columns / a->columns) * a->split;
    const double at_a_time = a->waves > 0 ? fmax(1, round(units / sms / (double)a->waves)) : 1;
    const double most = ceil(units / sms), steps = ceil((double)w->depth / depth / a->split);
    const double lines = line_factor(w, kind->item, kind);
    const double step =
        a->rows * (double)a->columns * depth * 2 / kind->rate + kind->fill * (a->rows + a->columns) / 64 * lines;
    const double computing = fmax(ceil(most / at_a_time) * steps * kind->step, most * steps * step) +
                             most * kind->epilogue * a->rows * (double)a->columns / 4096;
    const double results = kind->results > 0 ? 1 / kind->results : lines / kind->memory;
    const double memory =
        (operand_bytes(w, kind->item) * lines / kind->memory + result_bytes(w, kind->item) * results) /
        facts->memory_gbps * 1e-3;
    const double all = md_fa_norm(computing, memory, kind->norm);
    const double sum = (double)w->batch * (double)w->rows * (double)w->columns * 8 * a->split / kind->sum_gbps * 1e-3;
    return kind->scale * (kind->start + all + (a->split > 1 ? kind->sum + kind->slice * a->split + sum : 0));
}

static double one_row_us(const md_dev_facts *facts, const md_dev_cuda_gemm *w)
{
    const double memory = gemm_bytes(w, 2) / (facts->memory_gbps * ONE_MEMORY) * 1e-3;
    return ONE_START + hypot(memory, ONE_STEP * (double)w->depth * 1e-3);
}

static double few_rows_us(const md_dev_facts *facts, const md_dev_cuda_gemm *w)
{
    const double flops = 2.0 * (double)w->batch * (double)w->rows * (double)w->columns * (double)w->depth;
    const double memory = gemm_bytes(w, 4) / (facts->memory_gbps * FEW_MEMORY) * 1e-3;
    return FEW_START + hypot(memory, flops / FEW_RATE) + FEW_STEP * (double)w->depth * 1e-3 +
           FEW_ROW * (double)(w->rows - 1);
}

double md_fa_cuda_answer_us(const md_dev_facts *facts, const md_dev_cuda_gemm *what,
                            const md_dev_cuda_gemm_answer *answer)
{
    const int32_t item = (int32_t)md_dtype_size((md_dtype)what->in);
    if (what->is_tf32 || !(facts->memory_gbps > 0))
        return 0;
    if (answer->algorithm == FEW_ROWS_F32 && what->in == MD_F32)
        return SCALE * few_rows_us(facts, what);
    if (answer->algorithm == ONE_ROW_16 && item == 2 && what->rows == 1)
        return SCALE * one_row_us(facts, what);
    for (int32_t i = 0; i < MD_COUNT(tile_kinds); i++)
        if (tile_kinds[i].algorithm == answer->algorithm && tile_kinds[i].item == item && answer->rows > 0)
            return tile_us(facts, what, answer, &tile_kinds[i]);
    return 0;
}
