/* Family gemm_rows: products of 16-bit operands on Hopper's tensor cores whose rows of operand A lie anywhere
 * (kernels/cuda/gemm_wgmma_rows.cu): windows of a tensor with channels last, as in a convolution; rows of groups, as in
 * a mixture of experts, which a launch before sorts (kernels/cuda/group_rows.cu); rows that a look-up finds. A row is a
 * run of memory along K in pieces of 16 bytes. `cluster`: two blocks share operand B; equal to `split`, the blocks of a
 * cluster add up the slices of a tile, otherwise a second launch does. `epilogue`: 0 any; 1 for a single 16-bit result,
 * in registers and by the copy engine or by pieces of rows. `few`: rows of groups, at most 64, are sorted by every
 * block. `pick`: columns of a second tile, of 64 rows; once the rows of groups are counted, the device picks one of the
 * two (kernels/cuda/pick_tile.h). */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "family/cuda/product/gemm_rows_fit.h"
#include "family/cuda/product/mma_tile.h"
#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/product/wgmma_shape.h"

#include "kernels/cuda/grouped.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, COLUMNS, PINGPONG, CLUSTER, SPLIT, EPILOGUE, FEW, PICK };
enum { RULE_TENSOR, RULE_DIM, N_RULE_DEPTH, RULE_DEPTH, MOST_DEPTHS = 8 - RULE_DEPTH }; /* rule_value of envelopes */
static const double MANY_TILES = 8, SURELY = 3; /* standard deviations, times the root of two */
enum { SORT_THREADS = 1024, WORDS_OF_ADDRESS = 2, MOST_POINTS = 64, MOST_FEW = 64, UNIT_BYTES = 24, PIECE = 8 };

typedef struct rows_spec {
    md_fa_wgmma_spec wgmma;
    md_fa_wgmma_shape second; /* no columns: there is none */
    bool is_window;
} rows_spec;
_Static_assert(sizeof(rows_spec) <= sizeof(md_fa_spec), "there is room for it");

/* ---- Which products */

/* True if the elements of a window lie along the last index of K in whole pieces, which are there altogether or not. */
static bool has_pieces(int32_t *n_terms, const md_cg_product *p)
{
    md_cg_window_pieces w;
    const md_st_product *product = md_cg_product_stage(p);
    const int32_t n_k = product->n_k, run = p->program->index[product->k[n_k - 1]].dim;
    const int64_t size = p->program->formula->dim[run].size;
    if (n_k - 1 > MOST_DEPTHS || (size >= 0 && size % PIECE != 0) || !md_cg_product_window_is_small(p, MD_CG_A) ||
        !md_cg_product_window_pieces(&w, p, MD_CG_A))
        return false;
    *n_terms = w.n_terms;
    return true;
}

/* Bytes of shared memory for the lines of two tiles of `rows` rows, and for the points of the filter. */
static int32_t line_bytes(const rows_spec *s, int32_t n_terms, int32_t rows)
{
    const int32_t words = md_cg_product_window_point_words(&s->wgmma.product);
    return 4 * (s->is_window ? 2 * rows * (1 + words) + 32 * words * (1 + (n_terms + 3) / 4 * 4)
                             : 2 * rows * WORDS_OF_ADDRESS);
}

static bool product_of(rows_spec *s, int32_t *n_terms, const md_fa_target *target)
{
    md_cg_product *p = &s->wgmma.product;
    md_kn_map map[MD_FA_CUDA_MAPS];
    const bool is_grouped = md_cg_product_of(p, target->program, target->stage, MD_CG_COLUMNS_GROUPED);
    if (!is_grouped && !md_cg_product_of(p, target->program, target->stage, MD_CG_COLUMNS_STORED))
        return false;
    p->dialect = MD_DEV_CUDA;
    s->is_window = !is_grouped && md_cg_product_window(p) == MD_CG_A;
    if (s->is_window) {
        p->gathers_windows = true;
        p->along[MD_CG_A] = md_cg_product_window_along(p, MD_CG_A);
    } else if (!is_grouped && !p->row_load[MD_CG_A]) {
        return false; /* gemm_wgmma's */
    }
    if (target->facts->capability != 90 || md_fa_cuda_mma_type(p) == MD_F32 ||
        md_cg_product_along(p, MD_CG_A) != MD_CG_ALONG_DEPTH || !md_fa_cuda_map_columns(map, p) ||
        (s->is_window && (p->n_products != 1 || !has_pieces(n_terms, p))))
        return false;
    return true;
}

static md_fa_wgmma_shape shape_of(const rows_spec *s, const md_fa_config *config, int32_t n_terms)
{
    const int32_t *v = config->value;
    md_fa_wgmma_shape shape = {.rows = v[ROWS],
                               .columns = v[COLUMNS] / s->wgmma.product.n_products,
                               .cluster = v[CLUSTER],
                               .is_pingpong = v[PINGPONG],
                               .has_result = v[EPILOGUE],
                               .gathers = true,
                               .sorts_here = v[FEW] ? MOST_FEW : 0,
                               .line_bytes = line_bytes(s, n_terms, v[ROWS]) + v[FEW] * MOST_FEW * UNIT_BYTES,
                               .split = v[SPLIT]};
    shape.is_cluster_reduced = v[SPLIT] > 1 && v[CLUSTER] == v[SPLIT];
    if (shape.is_cluster_reduced)
        shape.cluster = 1;
    md_fa_wgmma_shape_derive(&shape, &s->wgmma.product);
    return shape;
}

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    rows_spec *s = out;
    int32_t n_terms = 0;
    if (!product_of(s, &n_terms, target))
        return false;
    s->wgmma.shape = shape_of(s, config, n_terms);
    s->second = (md_fa_wgmma_shape){.rows = 0};
    if (config->value[PICK] > 0) {
        md_fa_config second = *config;
        second.value[ROWS] = 64;
        second.value[COLUMNS] = config->value[PICK];
        s->second = shape_of(s, &second, n_terms);
    }
    return true;
}

/* True if every block can sort the rows for itself at these sizes, or at some. */
static bool is_few(const md_fa_target *target, const md_cg_product *p, const int64_t *size)
{
    return p->is_grouped && (!size || md_st_points(target->program, p->n_rows, p->rows, size) <= MOST_FEW);
}

/* True if the two tiles are worth a pick: the second is the smaller one, and there is no more than tiles. */
static bool can_pick(const rows_spec *s, const md_fa_target *target)
{
    const md_fa_wgmma_shape *a = &s->wgmma.shape, *b = &s->second;
    return s->wgmma.product.is_grouped && a->cluster == 1 && a->split == 1 && !a->is_pingpong &&
           a->rows * a->columns > b->rows * b->columns && md_fa_wgmma_shape_fits(b, target, &s->wgmma.product);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    rows_spec s;
    md_kn_map map;
    if (!spec_of(&s, target, config) || !md_fa_wgmma_shape_fits(&s.wgmma.shape, target, &s.wgmma.product))
        return false;
    if (s.second.columns && !can_pick(&s, target))
        return false;
    const md_fa_wgmma_shape *shape = &s.wgmma.shape;
    const md_fa_cuda_tiles tiles = {.rows = shape->rows, .columns = shape->columns, .split = shape->split};
    if (shape->split > 1 && (s.wgmma.product.is_grouped || shape->has_result || shape->is_pingpong))
        return false;
    if (shape->cluster > 2 || (shape->cluster == 2 && shape->split > 1) ||
        !md_fa_cuda_product_is_worth_trying(target, &s.wgmma.product, &tiles, size))
        return false;
    if (shape->sorts_here && (shape->cluster > 1 || !is_few(target, &s.wgmma.product, size)))
        return false;
    return !shape->has_result || md_fa_wgmma_map_result(&map, &s.wgmma.product);
}

static bool takes(const md_fa_target *target, int32_t field, int32_t value, const int64_t *size)
{
    md_cg_product p;
    (void)size;
    return field != PICK || value == 0 || md_cg_product_of(&p, target->program, target->stage, MD_CG_COLUMNS_GROUPED);
}

/* ---- Where it is right */

/* Elements of the window's tensor have numbers of 32 bits, points of the filter a bit, and runs are whole pieces. */
static const char *window_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    const int32_t tensor = envelope->rule_value[RULE_TENSOR], *depth = envelope->rule_value + RULE_DEPTH;
    const int32_t n = envelope->rule_value[N_RULE_DEPTH];
    double last = 0, points = 1;
    for (int32_t axis = 0; axis < MD_MAX_RANK; axis++)
        last += (double)MD_MAX(shape->extent[tensor][axis] - 1, 0) * fabs((double)shape->stride[tensor][axis]);
    for (int32_t i = 0; i < n; i++)
        points *= (double)shape->size[depth[i]];
    return last >= 1 << 30                                       ? "more elements than places of 32 bits"
           : points > MOST_POINTS                                ? "a filter of more points than bits tell of"
           : shape->size[envelope->rule_value[RULE_DIM]] % PIECE ? "runs that are no multiple of eight elements"
                                                                 : NULL;
}

static void window_envelope(md_kn_envelope *out, const md_fa_target *target, const md_cg_product *p)
{
    const md_st_product *product = &md_fa_stage(target)->product;
    const md_fx_index *index = target->program->index;
    for (int32_t d = 0; d < target->program->formula->n_dims; d++)
        out->hi[d] = 1 << 24;
    out->rule_miss = window_miss;
    out->rule_value[RULE_TENSOR] = p->window[MD_CG_A]->id;
    out->rule_value[RULE_DIM] = index[product->k[product->n_k - 1]].dim;
    out->rule_value[N_RULE_DEPTH] = product->n_k - 1;
    for (int32_t i = 0; i < out->rule_value[N_RULE_DEPTH]; i++)
        out->rule_value[RULE_DEPTH + i] = index[product->k[i]].dim;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const rows_spec *s = spec;
    const md_cg_product *p = &s->wgmma.product;
    const uint32_t a = UINT32_C(1) << md_cg_product_memory(p, MD_CG_A)->id;
    md_fa_wgmma_envelope(out, target, &s->wgmma.shape, p);
    out->unit |= a;
    out->aligned16 |= a;
    if (s->is_window)
        window_envelope(out, target, p);
    out->row_points_max = s->wgmma.shape.sorts_here ? MOST_FEW : 1 << 30; /* places of rows are 32-bit words */
    out->n_row_dims = p->n_rows;
    for (int32_t i = 0; i < p->n_rows; i++)
        out->row_dim[i] = target->program->index[p->rows[i]].dim;
    if (p->is_grouped)
        md_fa_product_group_envelope(out, target);
}

/* ---- Geometry and cost */
static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const rows_spec *s = spec;
    const md_fa_wgmma_shape *tile = &s->wgmma.shape;
    md_fa_product sized;
    md_fa_product_measure(&sized, target, &s->wgmma.product, shape->size);
    *out = (md_kn_geometries){0};
    out->launch[0].grain = out->launch[1].grain = 1;
    if (sized.batch == 0 || sized.rows == 0 || sized.columns == 0)
        return;
    md_fa_wgmma_geometry(out, target, tile, &sized);
    if (!s->wgmma.product.is_grouped)
        return;
    const int64_t groups = md_fa_product_groups(target, shape);
    md_grouping at = md_grouping_of(sized.rows, groups, tile->rows * tile->cluster);
    int64_t tiles = at.most_units * ((sized.columns + tile->columns - 1) / tile->columns);
    if (s->second.columns) {
        at = md_grouping_of(sized.rows, groups, s->second.rows);
        tiles = MD_MAX(tiles, at.most_units * ((sized.columns + s->second.columns - 1) / s->second.columns));
    }
    md_kn_geometry *g = &out->launch[tile->sorts_here ? 0 : 1];
    *g = md_fa_cuda_launch(MD_MIN(tiles, MD_MAX(target->facts->threads / tile->cluster, 1)) * tile->cluster,
                           tile->threads);
    g->cluster = tile->cluster;
    g->scratch_bytes = MD_MAX(tile->shared, s->second.shared);
    g->overlaps = true;
    if (tile->sorts_here)
        return;
    out->launch[0] = md_fa_cuda_launch(1, SORT_THREADS);
    out->workspace_bytes = at.all * (int64_t)sizeof(int32_t);
}

/* How many tiles of `tile` rows the groups have, if rows fall on any of them alike: the sum over j of how probable it
 * is that a group has more than j tiles' rows, by the normal distribution. */
static double expected_units(double groups, double rows, int32_t tile)
{
    const double mean = rows / groups, wide = sqrt(2 * mean * (1 - 1 / groups));
    if (groups <= 1)
        return ceil(rows / tile);
    if (wide > MANY_TILES * tile)
        return groups * (mean / tile + 0.5);
    const double sure = fmax(floor((mean - SURELY * wide) / tile), 0);
    double units = groups * sure;
    for (double j = sure; mean + SURELY * wide > j * tile; j++)
        units += j == 0 ? md_fa_product_used_groups(groups, rows) : groups * erfc((j * tile + 0.5 - mean) / wide) / 2;
    return units;
}

/* The work of rows that fall on any group alike, or half of them on one. */
static md_fa_product spread(const md_fa_product *whole, double groups, int32_t tile_rows, bool is_skewed)
{
    md_fa_product sized = *whole;
    const double rows = (double)whole->rows, even = is_skewed ? ceil(rows / 2) : rows,
                 used = md_fa_product_used_groups(groups, even),
                 units = expected_units(groups, even, tile_rows) + ceil((rows - even) / tile_rows);
    sized.batch = (int64_t)ceil(units);
    sized.rows = (int64_t)ceil(rows / units);
    sized.bytes = whole->a_bytes + (whole->bytes - whole->a_bytes) * used / groups;
    return sized;
}

/* Exact where two tiles are compared: differences of times that are surely too long mean nothing. */
static double us_of(const md_fa_target *target, const rows_spec *s, const md_fa_wgmma_shape *tile,
                    const md_fa_product *sized)
{
    const double enough = s->second.columns ? HUGE_VAL : md_fa_enough_us(target);
    const md_fa_wgmma variant = {.rows = tile->rows,
                                 .columns = tile->columns,
                                 .split = tile->split,
                                 .cluster = tile->cluster,
                                 .is_cluster_reduced = tile->is_cluster_reduced,
                                 .stages = tile->stages * tile->deep,
                                 .is_pingpong = tile->is_pingpong,
                                 .has_result = tile->has_result};
    const bool is_alone = !s->is_window && tile->rows == 64 && tile->columns * sized->p.n_products >= 256;
    const double plain = md_fa_wgmma_us(target->facts, sized, &variant, enough) * (is_alone ? ALONE : 1),
                 memory = sized->bytes / target->facts->memory_gbps * 1e-3;
    return plain + fmax(plain - memory, 0) * (s->is_window ? MORE_OF_WINDOW : MORE_OF_ROWS);
}

/* The product of rows of groups. Where the device picks, the time is less by a part of what that saves where half of
 * the rows are one group's. */
static double grouped_us(const md_fa_target *target, const rows_spec *s, const md_fa_product *whole,
                         const int64_t *size)
{
    const double groups = fmax((double)md_st_groups(target->program, target->stage, size), 1);
    double us[2][2]; /* by tile, and by whether rows are skewed */
    for (int32_t t = 0; t < (s->second.columns ? 2 : 1); t++)
        for (int32_t skewed = 0; skewed < (s->second.columns ? 2 : 1); skewed++) {
            const md_fa_wgmma_shape *tile = t ? &s->second : &s->wgmma.shape;
            const md_fa_product sized = spread(whole, groups, tile->rows, skewed);
            us[t][skewed] = us_of(target, s, tile, &sized);
        }
    if (!s->second.columns)
        return us[0][0];
    const int32_t even = us[1][0] < us[0][0]; /* the tile for rows that fall on any group alike */
    return us[even][0] + (s->wgmma.shape.sorts_here ? PICK_HERE : PICK_SORTED) -
           SKEWED * fmax(us[even][1] - us[!even][1], 0);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const rows_spec *s = known;
    const md_fa_wgmma_shape *tile = &s->wgmma.shape;
    const bool is_grouped = s->wgmma.product.is_grouped;
    const int32_t launches =
        (is_grouped && !tile->sorts_here) || (tile->split > 1 && !tile->is_cluster_reduced) ? 2 : 1;
    md_fa_product sized;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = launches};
    md_fa_product_measure(&sized, target, &s->wgmma.product, size);
    if (sized.batch == 0 || sized.rows == 0 || sized.columns == 0)
        return;
    const double rows = (double)sized.rows;
    double us = is_grouped ? grouped_us(target, s, &sized, size) : us_of(target, s, tile, &sized);
    if (is_grouped)
        us += tile->sorts_here ? SORT_HERE + SORT_HERE_ROW * rows : SORT + SORT_ROW * ceil(rows / SORT_THREADS);
    md_fa_cuda_product_time_features(out, us, launches);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const rows_spec *s = spec;
    return md_fa_wgmma_emit_picked(out, target, &s->wgmma.shape, s->second.columns ? &s->second : NULL,
                                   &s->wgmma.product);
}

/* Which tile a routing gets is decided on the device. */
static void describe(md_strbuf *out, const md_fa_target *target, const md_fa_config *config)
{
    rows_spec s;
    md_fa_wgmma_tile_time time[2];
    if (!spec_of(&s, target, config) || !s.second.columns)
        return;
    md_fa_wgmma_pick_table(time, target, &s.wgmma.product, &s.wgmma.shape, &s.second);
    md_strbuf_printf(out,
                     "rows are counted on the device, which then picks the tile of less time in rounds of %" PRId32 ":",
                     target->facts->threads);
    for (int32_t i = 0; i < 2; i++) {
        const md_fa_wgmma_shape *tile = i ? &s.second : &s.wgmma.shape;
        md_strbuf_printf(out, "%s %" PRId32 " x %" PRId32 " (%" PRId32 " ns for 64 of K, %" PRId32 " at its end)",
                         i ? " or" : "", tile->rows, tile->columns, time[i].step_ns, time[i].end_ns);
    }
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    const bool is_cluster_reduced = config->value[SPLIT] > 1 && config->value[SPLIT] == config->value[CLUSTER];
    (void)target;
    return md_fa_cuda_product_class(is_cluster_reduced ? "gemm_rows_met" : "gemm_rows");
}

static const md_fa_kind kind = {
    .checks_config = true, .envelope = envelope, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_cuda_gemm_rows = {
    .name = "gemm_rows",
    .device = MD_DEV_CUDA,
    .n_fields = 8,
    .field = {{"rows", 128, 3, {128, 64, 256}},
              {"columns", 128, 8, {128, 256, 64, 192, 224, 96, 160, 32}},
              {"pingpong", 0, 2, {0, 1}},
              {"cluster", 1, 4, {1, 2, 4, 8}},
              {"split", 1, 4, {1, 2, 4, 8}},
              {"epilogue", 0, 2, {1, 0}},
              {"few", 0, 2, {0, 1}},
              {"pick", 0, 5, {0, 64, 128, 256, 32}, .is_quiet = true}},
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .takes = takes,
    .numeric = numeric,
    .describe = describe,
};
