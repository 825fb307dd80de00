/* Transposes of matrices with a short side on a GPU: the text of kernels/cuda/slabs.cu, where it is right, and its
 * geometry. */
#include "family/emit.h"
#include "family/cuda/point/point.h"

#include "base/status.h"
#include "family/cuda/cuda.h"

#include "kernels/cuda/slabs.h"

#include <inttypes.h>

enum { THREADS = 128, MOST_ACROSS = 128, MOST_DIMS = 3 };
enum { N_LANES, N_LINES, RULE_DIM }; /* rule_value: how many dims, then those of lanes and of lines */

/* Dims of the lanes, or of the lines. */
static int32_t dims_of(int32_t out[MD_MAX_RANK + 1], const md_fa_transpose *t, const md_fa_target *target, int32_t of)
{
    const md_fx_index *index = target->program->index;
    int32_t n = 0;
    out[n++] = index[of == MD_FA_OF_LANES ? md_fa_stage(target)->axis : t->index].dim;
    for (int32_t i = 0; i < t->n_before[of]; i++)
        out[n++] = index[t->before[of][i]].dim;
    return n;
}

bool md_fa_cuda_slabs_fit(const md_fa_target *target, const int64_t *size)
{
    md_fa_transpose t;
    if (!md_fa_transpose_find(&t, target) || !t.is_batched || md_fa_has_packed(target) ||
        t.n_before[MD_FA_OF_LANES] >= MOST_DIMS || t.n_before[MD_FA_OF_LINES] >= MOST_DIMS)
        return false;
    return !size || MD_MIN(md_fa_transpose_points(&t, target, MD_FA_OF_LANES, size),
                           md_fa_transpose_points(&t, target, MD_FA_OF_LINES, size)) <= MOST_ACROSS;
}

static const char *side_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    const int32_t *rule = envelope->rule_value, *dim = rule + RULE_DIM;
    double lanes = 1, lines = 1;
    for (int32_t i = 0; i < rule[N_LANES]; i++)
        lanes *= (double)shape->size[dim[i]];
    for (int32_t i = 0; i < rule[N_LINES]; i++)
        lines *= (double)shape->size[dim[rule[N_LANES] + i]];
    return MD_MIN(lanes, lines) > MOST_ACROSS  ? "no short side"
           : lanes * lines > (double)(1 << 30) ? "more elements than numbers of 32 bits"
                                               : NULL;
}

void md_fa_cuda_slabs_envelope(md_kn_envelope *out, const md_fa_target *target)
{
    md_fa_transpose t;
    int32_t dim[MD_MAX_RANK + 1];
    md_fa_transpose_envelope(out, target, true);
    (void)md_fa_transpose_find(&t, target);
    out->rule_miss = side_miss;
    for (int32_t of = 0, at = RULE_DIM; of < 2; of++) {
        const int32_t n = dims_of(dim, &t, target, of);
        out->rule_value[of == MD_FA_OF_LANES ? N_LANES : N_LINES] = n;
        for (int32_t i = 0; i < n; i++)
            out->rule_value[at++] = dim[i];
    }
}

static size_t item_of(const md_fa_target *target)
{
    return md_dtype_size(target->program->formula->tensor[md_fa_stage(target)->store[0].tensor].dtype);
}

void md_fa_cuda_slabs_geometry(md_kn_geometries *out, const md_fa_target *target, const int64_t *size)
{
    md_fa_transpose t;
    const md_st_stage *st = md_fa_stage(target);
    *out = (md_kn_geometries){0};
    md_kn_geometry *launch = &out->launch[0];
    launch->grain = 1;
    (void)md_fa_transpose_find(&t, target);
    const int64_t lanes = md_fa_transpose_points(&t, target, MD_FA_OF_LANES, size),
                  lines = md_fa_transpose_points(&t, target, MD_FA_OF_LINES, size),
                  all = md_st_points(target->program, st->n_outer, st->outer, size) *
                        md_st_size(target->program, st->axis, size),
                  across = MD_MIN(lanes, lines), length = MD_MAX(lanes, lines), item = (int64_t)item_of(target);
    if (all == 0)
        return;
    const int64_t part = md_slab_part(length, across, item);
    *launch = md_fa_cuda_launch(all / (lanes * lines) * ((length + part - 1) / part), THREADS);
    launch->scratch_bytes = part * across * item;
    launch->overlaps = true;
}

static void print_count(md_strbuf *out, const char *name, const md_fa_transpose *t, const md_fa_target *target,
                        int32_t of)
{
    int32_t all[MD_MAX_RANK + 1] = {of == MD_FA_OF_LANES ? md_fa_stage(target)->axis : t->index};
    for (int32_t i = 0; i < t->n_before[of]; i++)
        all[i + 1] = t->before[of][i];
    md_fa_cuda_print_count(out, name, target->program, t->n_before[of] + 1, all);
}

md_status md_fa_cuda_slabs_emit(md_kn_source *out, const md_fa_target *target)
{
    md_fa_transpose t;
    md_strbuf defines = {0}, expr = {0};
    *out = (md_kn_source){.n_launches = 1};
    md_kn_launch_source *launch = &out->launch[0];
    (void)md_fa_transpose_find(&t, target);
    const md_status status = md_fa_begin_launch(launch, target);
    md_cg_print_params(&expr, launch->param, launch->n_params);
    print_count(&expr, "md_lanes", &t, target, MD_FA_OF_LANES);
    print_count(&expr, "md_transposed_size", &t, target, MD_FA_OF_LINES);
    md_strbuf_printf(&expr,
                     "MD_INLINE const md_e *md_source(const md_params *p) { return (const md_e *)p->t%" PRId32 "; }\n"
                     "MD_INLINE md_e *md_target(const md_params *p) { return (md_e *)p->t%" PRId32 "; }\n",
                     t.load[0]->id, md_fa_stage(target)->store[0].tensor);
    md_strbuf_printf(&defines, "#define MD_THREADS %d\n#define md_e uint%zu_t\n", (int)THREADS, 8 * item_of(target));
    const md_status ended = md_fa_end_launch(status, launch, MD_DEV_CUDA, "cuda/slabs.cu", &defines, &expr);
    if (ended != MD_OK)
        md_kn_source_finish(out);
    return ended;
}
