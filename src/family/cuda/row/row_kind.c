/* The kind of families in which a group of threads has a row (row_looped, row_persistent, row_thread). */
#include "family/cuda/row/row.h"

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const md_fa_cuda_row_fixed *f = known;
    (md_fa_cuda_row_is_single(f->align) ? md_fa_cuda_row_single_features : md_fa_cuda_row_features)(out, target, f,
                                                                                                    size);
}

const md_fa_kind md_fa_cuda_row_kind = {.envelope = md_fa_cuda_row_envelope,
                                        .fix = md_fa_cuda_row_fix,
                                        .features = features,
                                        .emit = md_fa_cuda_row_emit,
                                        .geometry = md_fa_cuda_row_geometry};
