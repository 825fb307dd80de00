/* The time of a product in cuBLASLt. Its kernels for rows that are aligned to 16 bytes are modelled in wgmma_cost.c. */
#include "family/cuda/product/lib_cost.h"

#include "family/cost.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/product/lib_fit.h"

#include <math.h>

enum { FEW_ROWS = 16 };
enum { ROW_CLASSES = 3 };
/* Columns that an SM has at a time. */
enum { FEW_COLUMNS = 48, FEW_ROWS_PLAIN = 10 };

/* True if all matrices are aligned to 16 bytes. */
static bool is_aligned(const md_fa_product *sized, bool is_direct)
{
    return (is_direct ? sized->columns : 2 * sized->columns) % 8 == 0 && md_fa_product_line(sized, 0) % 8 == 0 &&
           md_fa_product_line(sized, 1) % 8 == 0;
}

/* Not hypot: glibc's newest version of it would be all that keeps a wheel from systems of 2021. */
static double root_of_squares(double a, double b)
{
    return sqrt(a * a + b * b);
}

static double one_row_us(const md_dev_facts *facts, double bytes, double depth, int32_t item)
{
    const double memory = bytes / (facts->memory_gbps * ROW_MEMORY[item > 2]) * 1e-3;
    return ROW_START + root_of_squares(memory, ROW_STEP * depth * 1e-3);
}

static double few_rows_us(const md_dev_facts *facts, double bytes, double depth, double rows, double waves)
{
    const double memory = bytes / facts->memory_gbps * 1e-3;
    const double step = FEW_STEP[rows <= 2 ? 0 : rows <= 10 ? 1 : 2];
    return FEW_START + root_of_squares(memory, fmax(ceil(waves), 1) * depth * step * 1e-3);
}

/* One step of K, by the second answer: us of a launch, results in a us, part of the memory rate. From 8 products on an
 * H100. The first answer has tiles; so have some of the later ones. */
enum { OUTER_RANK = 1 };

static double outer_us(const md_dev_facts *facts, double results, int32_t item)
{
    return OUTER_START + fmax(results / OUTER_RESULTS, results * item / (facts->memory_gbps * OUTER_MEMORY) * 1e-3);
}

/* later = 0: as of most kernels. */
static double later_factor(int32_t rank, double later)
{
    return rank <= 0 ? 1 : later > 0 ? later : LATER;
}

/* ---- By the answer */

/* A kind of kernels, by the number of its algorithm: constants fitted to 1,150 random shapes with all answers for each,
 * on an H200; 66 to 589 kernels at layers of models, on another H200; adding slices (and the start of 20) to 346
 * kernels in calls on an H100, 0.4 to 1.1 us more. us: of a
 * launch, of a step of K alone, of filling a step for 64 rows or columns, of the epilogue of 64 x 64 elements, of
 * adding slices and of each slice. flops of an SM in a us; parts of the memory rate and GB/s of adding; the norm that
 * joins computing and memory; factors for rows that are aligned to 2, and to 4 or 8 bytes. scale: over the measured
 * time, so that it compares with our own products, some of which take less than their model says. later: the factor
 * of answers after the first; 0: LATER. */
typedef struct kernel_kind {
    uint32_t algorithm;
    int32_t item, depth; /* bytes of an operand's element, elements of a step of K */
    double start, step, fill, epilogue, sum, slice, rate, memory, sum_gbps, norm, by_2, by_8, scale, later;
    /* GB/s of results, whatever the memory (an H100 and an H200 agree); 0: as for operands */
    double results;
} kernel_kind;

enum { UNALIGNED = 1 };
static const kernel_kind tile_kinds[] = {
    {66, 2, 64, 3.88, 0.094, 0.0242, 0.198, 1.57, 0.0129, 9.27e6, 0.854, 4100, 3.6, 1.5, 1.2, 0.97, 1.05, 0},
    {24, 2, 32, 3.36, 0.0353, 0.324, 0, 3.4, 0.0101, 7.63e6, 0.151, 8270, 13, 0.858, 0.91, 1.05, 0, 1330},
    {55, 4, 16, 3.42, 0.1, 0.125, 0.469, 2.6, 0.216, 6.51e5, 0.462, 46800, 3.27, 1, 0.992, 1.05, 0, 0},
    {20, 4, 16, 2.5, 0.1, 0.415, 0.251, 3.4, 0.00434, 2.04e6, 0.944, 4560, 1.04, 1, 0.933, 1.05, 0, 0},
};
/* Algorithms for few rows and for one row, without tiles. */
enum { FEW_ROWS_ALGORITHM = 11, ONE_ROW_ALGORITHM = 13 };

static double operand_bytes(const md_dev_cuda_gemm *gemm, int32_t item)
{
    return (double)gemm->batch * item * (double)(gemm->rows + gemm->columns) * (double)gemm->depth;
}

static double result_bytes(const md_dev_cuda_gemm *gemm, int32_t item)
{
    return (double)gemm->batch * item * (double)gemm->rows * (double)gemm->columns;
}

static double gemm_bytes(const md_dev_cuda_gemm *gemm, int32_t item)
{
    return operand_bytes(gemm, item) + result_bytes(gemm, item);
}

/* The factor for rows of operands that are not aligned to 16 bytes. */
static double line_factor(const md_dev_cuda_gemm *gemm, int32_t item, const kernel_kind *kind)
{
    const int64_t line = gemm->leading[0] * item | gemm->leading[1] * item | gemm->alignment[0] | gemm->alignment[1];
    return line % 4 ? kind->by_2 : line % 16 ? kind->by_8 : 1;
}

static double tile_us(const md_dev_facts *facts, const md_dev_cuda_gemm *gemm, const md_dev_cuda_gemm_answer *a,
                      const kernel_kind *kind)
{
    const double sms = MD_MAX(facts->threads, 1), depth = kind->depth;
    const double units =
        (double)gemm->batch * ceil((double)gemm->rows / a->rows) * ceil((double)gemm->columns / a->columns) * a->split;
    const double at_a_time = a->waves > 0 ? fmax(1, round(units / sms / (double)a->waves)) : 1;
    const double most = ceil(units / sms), steps = ceil((double)gemm->depth / depth / a->split);
    const double lines = line_factor(gemm, kind->item, kind);
    const double step =
        a->rows * (double)a->columns * depth * 2 / kind->rate + kind->fill * (a->rows + a->columns) / 64 * lines;
    const double computing = fmax(ceil(most / at_a_time) * steps * kind->step, most * steps * step) +
                             most * kind->epilogue * a->rows * (double)a->columns / 4096;
    const double gbps = facts->memory_gbps * kind->memory / lines, results = kind->results > 0 ? kind->results : gbps;
    const double memory =
        operand_bytes(gemm, kind->item) / gbps * 1e-3 + result_bytes(gemm, kind->item) / results * 1e-3;
    const double all = md_fa_norm(computing, memory, kind->norm);
    const double sum =
        (double)gemm->batch * (double)gemm->rows * (double)gemm->columns * 8 * a->split / kind->sum_gbps * 1e-3;
    return kind->scale * (kind->start + all + (a->split > 1 ? kind->sum + kind->slice * a->split + sum : 0));
}

double md_fa_cuda_library_epilogue_us(const md_fa_product *work)
{
    return LIBRARY_EPILOGUE + (double)work->batch * (double)work->rows * (double)work->columns / LIBRARY_RESULTS;
}

static double kernel_us(const md_dev_facts *facts, const md_dev_cuda_gemm *what, const md_dev_cuda_gemm_answer *answer,
                        int32_t item)
{
    if (answer->algorithm == FEW_ROWS_ALGORITHM)
        return later_factor(what->rank, 0) * SCALE *
               few_rows_us(facts, gemm_bytes(what, item), (double)what->depth, (double)what->rows,
                           (double)answer->waves);
    if (answer->algorithm == ONE_ROW_ALGORITHM && (what->rows == 1 || what->columns == 1))
        return later_factor(what->rank, 0) * SCALE *
               one_row_us(facts, gemm_bytes(what, item), (double)what->depth, item);
    for (int32_t i = 0; i < MD_COUNT(tile_kinds); i++)
        if (tile_kinds[i].algorithm == answer->algorithm && tile_kinds[i].item == item && answer->rows > 0)
            return later_factor(what->rank, tile_kinds[i].later) * tile_us(facts, what, answer, &tile_kinds[i]);
    return 0;
}

double md_fa_cuda_answer_us(const md_dev_facts *facts, const md_dev_cuda_gemm *what,
                            const md_dev_cuda_gemm_answer *answer)
{
    const int32_t item = (int32_t)md_dtype_size((md_dtype)what->in);
    if (what->is_tf32 || !(facts->memory_gbps > 0))
        return 0;
    if (what->depth == 1 && what->rank == OUTER_RANK && what->batch == 1)
        return outer_us(facts, (double)what->rows * (double)what->columns, (int32_t)md_dtype_size((md_dtype)what->out));
    return kernel_us(facts, what, answer, item);
}

/* ---- By the shape */

/* With so few tiles of 64 x 64 the library cuts K even where that takes longer. */
static bool cuts_few_tiles(const md_fa_product *sized, double most_tiles, int64_t least_depth)
{
    return (double)sized->batch * ceil((double)sized->rows / 64) * ceil((double)sized->columns / 64) <= most_tiles &&
           sized->depth >= least_depth;
}

/* CUDA cores: the least time over some tiles and numbers of slices. */
static double plain_us(const md_dev_facts *facts, const md_fa_product *sized)
{
    static const int32_t tile[][2] = {{64, 64}, {128, 64}, {64, 128}, {128, 128}, {256, 128}};
    const double sms = MD_MAX(facts->threads, 1),
                 results = (double)sized->batch * (double)sized->rows * (double)sized->columns;
    const double rate = RATE * (sized->p.type == MD_F64 ? F64_RATE : 1),
                 stored = results * md_fa_cuda_product_bytes(&sized->p) * sized->p.n_products;
    const double memory =
        fmax(sized->bytes - stored, 0) / (facts->memory_gbps * MEMORY) * 1e-3 + stored / RESULTS_GBPS * 1e-3;
    const int32_t least_split = cuts_few_tiles(sized, 3, 64) ? 2 : 1;
    double best = INFINITY;
    for (int32_t i = 0; i < MD_COUNT(tile); i++)
        for (int32_t split = least_split; split <= 32; split *= 2) {
            double blocks = (double)sized->batch * ceil((double)sized->rows / tile[i][0]) *
                            ceil((double)sized->columns / tile[i][1]) * split;
            const double short_steps = ceil((double)sized->depth / 16 / split);
            const double steps = short_steps > 4 ? ceil(short_steps / 4) : short_steps / 4, /* of 64 */
                step = STEP + tile[i][0] * tile[i][1] * 128.0 * sized->p.n_products / rate;
            double work =
                ceil(blocks / sms) * steps * step + (split > 1 ? SUM + results * 8 * split / SUM_GBPS * 1e-3 : 0);
            best = fmin(best, fmax(work, memory));
        }
    return (START + best) * (sized->rows <= FEW_ROWS ? PLAIN_ROWS : 1);
}

static double without_tiles_us(const md_dev_facts *facts, const md_fa_product *sized, bool is_plain)
{
    const double sms = MD_MAX(facts->threads, 1), depth = (double)sized->depth;
    const int32_t item = is_plain ? 4 : 2;
    return sized->rows == 1 || sized->columns == 1 ? one_row_us(facts, sized->bytes, depth, item)
                                                   : few_rows_us(facts, sized->bytes, depth, (double)sized->rows,
                                                                 (double)sized->columns / (FEW_COLUMNS * sms));
}

/* The least time of the kernels for unaligned rows of 16 bits over tiles and numbers of slices that it answers with. */
static double unaligned_us(const md_dev_facts *facts, const md_fa_product *sized)
{
    static const int32_t tile[][2] = {{64, 64}, {128, 128}, {256, 128}};
    const double sms = MD_MAX(facts->threads, 1);
    const md_dev_cuda_gemm what = {
        .rows = sized->rows,
        .columns = sized->columns,
        .depth = sized->depth,
        .batch = sized->batch,
        .leading = {md_fa_product_line(sized, 0), md_fa_product_line(sized, 1), sized->columns},
        .alignment = {16, 16, 16}};
    const bool is_cut = cuts_few_tiles(sized, fmin(10, sms / 2), 17);
    double best = INFINITY;
    for (int32_t i = 0; i < MD_COUNT(tile); i++) {
        const double tiles =
            (double)sized->batch * ceil((double)sized->rows / tile[i][0]) * ceil((double)sized->columns / tile[i][1]);
        for (int32_t split = 1; split <= 64; split *= 2) {
            const md_dev_cuda_gemm_answer answer = {.rows = tile[i][0], .columns = tile[i][1], .split = split};
            if (split == 1 ? !is_cut : tiles * split <= sms && (sized->depth / split >= 32 || (is_cut && split == 2)))
                best = fmin(best, tile_us(facts, &what, &answer, &tile_kinds[UNALIGNED]));
        }
    }
    return best * sized->p.n_products;
}

static double shape_us(const md_dev_facts *facts, const md_fa_product *sized, const md_fa_cuda_library *how)
{
    const bool has_wgmma = !how->is_plain && is_aligned(sized, how->is_direct);
    const int32_t few_rows = has_wgmma || sized->batch > 1 || sized->p.type != MD_F32 ? 0
                             : how->is_plain                                          ? FEW_ROWS_PLAIN
                                                                                      : 2;
    const double us = has_wgmma       ? md_fa_wgmma_best_us(facts, sized)
                      : how->is_plain ? plain_us(facts, sized)
                                      : unaligned_us(facts, sized);
    const bool is_vector = sized->rows == 1 || sized->columns == 1;
    if (few_rows == 0 || (sized->rows > few_rows && !is_vector))
        return us;
    const double few = without_tiles_us(facts, sized, how->is_plain) + (how->has_epilogue ? FEW_EPILOGUE : 0);
    /* f32, and so few columns that K has more steps: the library answers with tiles that cut K, even where those take
     * longer */
    return is_vector ? few : how->is_plain && cuts_few_tiles(sized, 10, sized->columns + 1) ? us : fmin(us, few);
}

double md_fa_cuda_library_us(const md_fa_target *target, const md_fa_product *sized, const md_fa_cuda_library *how)
{
    const md_dev_facts *facts = target->facts;
    md_fa_memo *memo = target->memo;
    if (how->rank == OUTER_RANK && sized->depth == 1 && sized->batch == 1 && sized->p.n_products == 1)
        return outer_us(facts, (double)sized->rows * (double)sized->columns, how->item);
    const double us = memo && memo->library_us > 0 ? memo->library_us : shape_us(facts, sized, how);
    if (memo)
        memo->library_us = us;
    return us * later_factor(how->rank, 0);
}
