/* Family gemm_grouped: products whose rows look up which matrix they are multiplied by, as in a mixture of experts. The
 * first launch sorts rows by group and cuts them into tiles (kernels/cuda/group_rows.cu); the second makes the tiles,
 * with tensor cores where operands have 16 bits (gemm_grouped_mma.cu), else without (gemm_grouped.cu). How many rows a
 * group has is known on the device only: the grid has a block for every tile that there can be. */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "family/cuda/product/gemm_grouped_fit.h"
#include "family/cuda/product/mma_tile.h"

#include "kernels/cuda/grouped.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, COLUMNS, STAGES, WARP_COLUMNS };
enum { SORT_THREADS = 1024, THREAD_ROWS = 4, THREAD_COLUMNS = 4, SIMT_DEPTH = 16 };

/* 0 for the largest value, 1 for its half, and so on. */
static int32_t halvings(int32_t value)
{
    return value >= 128 ? 0 : value >= 64 ? 1 : value >= 32 ? 2 : 3;
}

typedef struct grouped_spec {
    md_cg_product p;
    md_fa_cuda_mma_tile t; /* without tensor cores only rows, columns, threads and shared count */
    int32_t columns; /* as the config says it */
    bool is_mma;
} grouped_spec;

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    grouped_spec *s = out;
    const int32_t *v = config->value;
    md_cg_product *p = &s->p;
    md_fa_cuda_mma_tile *t = &s->t;
    const bool is_product = md_cg_product_of(p, target->program, target->stage, MD_CG_COLUMNS_GROUPED);
    p->dialect = MD_DEV_CUDA;
    if (!is_product)
        return false;
    *t = md_fa_cuda_mma_tile_of(p, &(md_fa_cuda_mma_fields){v[ROWS], v[COLUMNS], v[STAGES], 1, v[WARP_COLUMNS]});
    s->columns = v[COLUMNS];
    s->is_mma = md_fa_cuda_mma_type(p) != MD_F32;
    if (s->is_mma)
        return true;
    const int64_t pitch_a = t->rows + 4, pitch_b = t->columns + 4;
    const int64_t stages = 2 * SIMT_DEPTH * (pitch_a + p->n_products * pitch_b),
                  results = p->n_products * t->rows * pitch_b;
    t->threads = t->rows / THREAD_ROWS * (t->columns / THREAD_COLUMNS);
    t->shared = MD_MAX(stages, results) * md_fa_cuda_product_bytes(p);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    grouped_spec s;
    (void)size;
    if (!spec_of(&s, target, config))
        return false;
    if (s.is_mma)
        return md_fa_cuda_mma_is_legal(target, &s.p, &s.t);
    /* One tile is enough without tensor cores, which multiply all usual types. */
    return s.t.rows == 32 && s.columns == 64 && config->value[STAGES] == 3 && config->value[WARP_COLUMNS] == 32;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const grouped_spec *s = spec;
    md_fa_product_group_envelope(out, target);
    out->row_points_max = 1 << 30; /* places of rows are 32-bit words */
    out->n_row_dims = s->p.n_rows;
    for (int32_t i = 0; i < s->p.n_rows; i++)
        out->row_dim[i] = target->program->index[s->p.rows[i]].dim;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const grouped_spec *s = spec;
    md_fa_product sized;
    out->launch[1].grain = 1;
    md_fa_product_measure(&sized, target, &s->p, shape->size);
    if (sized.rows == 0 || sized.columns == 0)
        return;
    const md_grouping at = md_grouping_of(sized.rows, md_fa_product_groups(target, shape), s->t.rows);
    out->launch[0] = md_fa_cuda_launch(1, SORT_THREADS);
    out->launch[1] =
        md_fa_cuda_launch(at.most_units * ((sized.columns + s->t.columns - 1) / s->t.columns), s->t.threads);
    out->launch[1].scratch_bytes = s->t.shared;
    out->launch[1].overlaps = true;
    out->workspace_bytes = at.all * (int64_t)sizeof(int32_t);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const grouped_spec *s = known;
    md_fa_product sized;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 2};
    md_fa_product_measure(&sized, target, &s->p, size);
    if (sized.rows == 0 || sized.columns == 0)
        return;
    /* Rows are taken to be spread evenly: tiles of the groups that have rows, and of those only. */
    const double rows = (double)sized.rows,
                 groups = fmax((double)md_st_groups(target->program, target->stage, size), 1);
    const double used = md_fa_product_used_groups(groups, rows);
    md_fa_cuda_tiles tiles = md_fa_cuda_mma_tiles(target, &s->t);
    md_fa_product even = sized;
    even.batch = (int64_t)ceil(used);
    even.rows = (int64_t)ceil(rows / used);
    even.bytes = sized.a_bytes + (sized.bytes - sized.a_bytes) * used / groups;
    tiles.flops = s->is_mma ? 16 * RATE[halvings(s->t.rows)] * NARROW[halvings(MD_MAX(s->columns, 32))] : SIMT_RATE;
    md_fa_cuda_product_features(out, target, &even, &tiles);
    out->launches = 2;
    out->serial_us += SORT + SORT_ROW * ceil(rows / SORT_THREADS) + SORT_GROUP * groups / SORT_THREADS;
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const grouped_spec *s = spec;
    md_strbuf defines = {0};
    md_fa_cuda_product_text text = {
        .source = "cuda/gemm_grouped_mma.cu", .begin = "cuda/group_rows.cu", .lanes = 4, .split = 1};
    if (s->is_mma) {
        md_fa_cuda_mma_print(&defines, &s->p, &s->t);
    } else {
        text.source = "cuda/gemm_grouped.cu";
        md_strbuf_printf(&defines,
                         "#define MD_BM %" PRId32 "\n#define MD_BN %" PRId32
                         "\n#define MD_TM %d\n#define MD_TN %d\n#define MD_BK %d\n",
                         s->t.rows, s->t.columns, THREAD_ROWS, THREAD_COLUMNS, SIMT_DEPTH);
        md_fa_cuda_product_print_along(&defines, &s->p);
        md_fa_cuda_simt_print_direct(&defines, &s->p);
    }
    return md_fa_cuda_product_emit(out, target, &s->p, &text, &defines);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    grouped_spec s;
    const bool is_mma = spec_of(&s, target, config) && s.is_mma;
    return (md_fa_class){
        .group = is_mma ? "gemm_grouped_mma" : "gemm_grouped", .is_repeatable = true, .is_invariant = true};
}

static const md_fa_kind kind = {
    .checks_config = true, .envelope = envelope, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_cuda_gemm_grouped = {
    .name = "gemm_grouped",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .n_fields = 4,
    .field = {{"rows", 64, 4, {64, 128, 32, 16}},
              {"columns", 64, 3, {64, 128, 32}},
              {"stages", 3, 2, {3, 4}},
              {"warp_columns", 32, 1, {32, 16}, 1}}, /* columns of a warp */
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
