/* Family row_thread: very short rows, one thread for each. A row is read once into registers; threads exchange nothing.
 * row_persistent has at least four threads for a row, most of which such rows leave idle. */
#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"
#include "family/cuda/row/row_thread_fit.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_row_thread; /* defined at the end of this file */

enum { VECTORS, THREADS, KEEP, ALIGN };
enum { MOST_VECTORS = 4 }; /* of more than an element */

static md_fa_cuda_row row_of(const md_fa_config *config)
{
    return (md_fa_cuda_row){.source = "cuda/row_thread.cu",
                            .lanes = 1,
                            .vectors = config->value[VECTORS],
                            .rows = config->value[THREADS],
                            .keeps = config->value[KEEP],
                            .align = (md_fa_cuda_align)config->value[ALIGN],
                            .is_resident = true};
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_cuda_row *)spec = row_of(config);
    return true;
}

/* Of single elements a thread has room for a power of two, more than half of it used. */
static bool holds_tightly(int32_t vectors, int64_t n)
{
    return (vectors & (vectors - 1)) == 0 && n <= vectors && n > vectors / 2;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_cuda_row row = row_of(config);
    int64_t n = md_st_size(target->program, md_fa_stage(target)->axis, size);
    const bool is_single = md_fa_cuda_row_is_single(row.align);
    const int64_t whole = MD_MAX(n / md_fa_cuda_row_width(target, &row), 1);
    if (is_single ? !holds_tightly(row.vectors, whole) : whole != row.vectors || whole > MOST_VECTORS)
        return false;
    if (row.keeps && !md_fa_cuda_row_can_keep(target))
        return false;
    return md_fa_cuda_row_fits(target, &row, size);
}

/* What lies beyond the whole vectors of a row goes element by element. */
static double end_us(const md_fa_cuda_row_fixed *f, double n)
{
    if (f->width > 4 && f->align != MD_FA_CUDA_ALIGNED && n > f->width)
        return SHORT_END * fmod(n, f->width);
    return n > f->width * f->vectors ? END : 0;
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_fixed room;
    const md_fa_cuda_row_fixed *f = md_fa_fixed_of(&room, &md_fa_cuda_row_thread, target, config);
    if (md_fa_cuda_row_is_single(f->align)) {
        md_fa_cuda_row_single_features(out, target, f, size);
        return;
    }
    const bool is_aligned = f->align == MD_FA_CUDA_ALIGNED;
    const md_st_stage *st = md_fa_stage(target);
    const double n = (double)md_st_size(target->program, st->axis, size),
                 rows = (double)md_st_points(target->program, st->n_outer, st->outer, size),
                 vectors = fmin(f->vectors, ceil(n / f->width)), row_bytes = n * 16 / f->width,
                 many = row_bytes <= FEW_BYTES ? MANY_SHIFTED * fmin(rows / MANY_ROWS, 1) : 0,
                 less = f->epilogue_loads > 0 ? is_aligned ? 0 : WEIGHTS_SHIFTED + many
                        : is_aligned          ? ALONE_ALIGNED
                                              : ALONE_SHIFTED;
    /* down columns the elements of a thread lie apart: 16-bit ones are put together one by one */
    const bool is_apart = md_fa_cuda_row_traffic(target) > 1;
    const double more = !is_apart      ? EACH_MORE_VECTOR * fmax(vectors - 1, 0)
                        : f->width > 4 ? EACH_ELEMENT * fmin(n, f->vectors * f->width)
                                       : 0;
    md_fa_cuda_row_features(out, target, f, size);
    out->serial_us += more - fmin(less, out->serial_us) + BLOCK * rows / f->rows;
    out->serial_us += end_us(f, n) * rows;
    out->serial_us += f->align != MD_FA_CUDA_STRIDED && is_apart ? ONE_BY_ONE : 0;
}

/* Vectors begin at the row's first element, whatever its address. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    if (md_fa_cuda_row_is_single((md_fa_cuda_align)config->value[ALIGN])) /* one element after the other */
        return (md_fa_class){.group = "row_one_by_one", .field = {"keep"}, .is_repeatable = true, .is_invariant = true};
    return md_fa_cuda_row_class(false, false);
}

const md_fa_family md_fa_cuda_row_thread = {
    .name = "row_thread",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .is_persistent = true,
    .is_reduction = true,
    .n_fields = 4,
    .field = {{"vecs", 1, 5, {1, 2, 3, 4, 8}},
              {"threads", 128, 2, {128, 256}},
              {"keep", 0, 2, {0, 1}},
              {"align", MD_FA_CUDA_ALIGNED, 3, {MD_FA_CUDA_ALIGNED, MD_FA_CUDA_STRIDED, MD_FA_CUDA_SINGLE}}},
    .kind = &md_fa_cuda_row_kind,
    .spec_of = spec_of,
    .applies = md_fa_row_applies,
    .legal = legal,
    .features = features,
    .numeric = numeric,
};
