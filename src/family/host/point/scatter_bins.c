/* Family scatter_bins: sums that are scattered (a histogram, weights by bin, a gradient of an embedding) go to bins
 * in the workspace first, f64 of reals and i64 of integers, each share of the points to its own; the bins are
 * then added to the target and rounded once. So updates round as f64 does, shares run at the same time, and their
 * number follows from the sizes alone. split0: one share, each element in the order of its updates. */
#include "family/applies.h"
#include "family/cost.h"
#include "family/emit.h"
#include "family/host/point/bins.h"
#include "family/host/point/sweep.h"
#include "family/host/point/sweep_fit.h"
#include "family/numeric.h"

#include "base/dtype.h"
#include "base/status.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

enum { SPLIT };
enum {
    FEW_UPDATES = 4096,
    UPDATES_EACH = 4,
    MOST_ELEMENTS = 1 << 22,
    FEW_ELEMENTS = 4096,
    MOST_SHARES = 16,
    SHARE_POINTS = 65536,
    HEAD_BYTES = 64
};

static const md_st_store *store_of(const md_st_stage *st)
{
    return &st->store[0];
}

static md_dtype dtype_of(const md_fa_target *target)
{
    return target->program->formula->tensor[store_of(md_fa_stage(target))->tensor].dtype;
}

static bool is_other(void *user, const md_fx_node *node)
{
    return node->kind != MD_FX_LOAD || node->id != *(const int32_t *)user;
}

bool md_fa_bins_apply(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    const md_st_store *s = store_of(st);
    if (!md_fa_scatter_applies(target) || !st->has_duplicates || st->n_stores != 1 || s->assign != MD_FX_ADD_TO)
        return false;
    int32_t tensor = s->tensor;
    return !md_dtype_is_packed(dtype_of(target)) && md_dtype_compute(dtype_of(target)) != MD_BOOL &&
           md_fx_visit(s->value, is_other, &tensor);
}

bool md_fa_bins_round_less(const md_fa_target *target)
{
    return md_dtype_is_real(dtype_of(target)) && dtype_of(target) != MD_F64;
}

static double points_of(const md_st_program *program, int32_t stage, const int64_t *size)
{
    const md_st_stage *st = &program->stage[stage];
    const double lanes = st->axis >= 0 ? (double)md_st_size(program, st->axis, size) : 1;
    return lanes * (double)md_st_points(program, st->n_outer, st->outer, size);
}

/* Elements of the target. */
static double elements_of(const md_st_program *program, int32_t stage, const int64_t *size)
{
    const md_fx_tensor *t = &program->formula->tensor[store_of(&program->stage[stage])->tensor];
    double elements = 1;
    for (int32_t i = 0; i < t->rank; i++) {
        const int64_t n = program->formula->dim[t->dim[i]].size;
        elements *= (double)(n >= 0 ? n : size[t->dim[i]]);
    }
    return elements;
}

/* By extents: an axis may be longer than its dim says. */
static double elements_at(const md_st_program *program, int32_t stage, const md_kn_shape *shape)
{
    const int32_t tensor = store_of(&program->stage[stage])->tensor;
    double elements = 1;
    for (int32_t i = 0; i < program->formula->tensor[tensor].rank; i++)
        elements *= (double)shape->extent[tensor][i];
    return elements;
}

bool md_fa_bins_wanted(const md_st_program *program, int32_t stage, const md_kn_shape *shape)
{
    const double points = points_of(program, stage, shape->size), elements = elements_at(program, stage, shape);
    return points > FEW_UPDATES && elements <= fmin(points / UPDATES_EACH, MOST_ELEMENTS) &&
           (shape->contiguous >> store_of(&program->stage[stage])->tensor & 1) != 0;
}

/* Bins of an element, as in kernels/host/scatter_bins.c. */
static double copies_of(const md_fa_config *config, double elements)
{
    return config->value[SPLIT] && elements <= FEW_ELEMENTS ? 4 : 1;
}

/* Into how many shares the points are cut. A share must have enough points to be worth the clearing and adding of its
 * bins. */
static int64_t shares_of(const md_fa_config *config, double points, double elements)
{
    const double least = fmax(SHARE_POINTS, 4 * elements * copies_of(config, elements));
    if (points <= 0)
        return 0;
    return config->value[SPLIT] == 0 ? 1 : (int64_t)fmax(1, fmin(MOST_SHARES, points / least));
}

static void print_bins(md_strbuf *defines, md_strbuf *expr, const md_fa_target *target, bool is_split, int32_t phase)
{
    const int32_t tensor = store_of(md_fa_stage(target))->tensor;
    const md_dtype dtype = dtype_of(target), compute = md_dtype_compute(dtype);
    const char *name = md_dtype_name(dtype);
    md_strbuf_printf(defines,
                     "#define MD_PHASE %" PRId32 "\n#define MD_FEW %d\n#define MD_TARGET t%" PRId32
                     "\n#define MD_BIN %s\n#define MD_UP md_load_%s_s\n#define MD_DOWN md_store_%s_s\n"
                     "#define MD_ROUND %s\n",
                     phase, is_split ? (int)FEW_ELEMENTS : 0, tensor, md_cg_suffix(compute, false), name, name,
                     dtype == MD_F32                                        ? "(float)"
                     : md_dtype_is_narrow(dtype) && md_dtype_is_real(dtype) ? "md_odd_sd_sf"
                                                                            : "");
    md_strbuf_add(expr, "MD_INLINE int64_t md_elements(const md_params *p)\n{\n(void)p;\nreturn ");
    md_cg_print_elements(expr, target->program, tensor);
    md_strbuf_add(expr, ";\n}\n");
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_sweep *)spec = (md_fa_sweep){.source = "host/scatter_bins.c",
                                         .is_strided = true,
                                         .is_binned = true,
                                         .print = print_bins,
                                         .is_split = config->value[SPLIT] != 0,
                                         .n_extra = 2,
                                         .extra = {{.kind = MD_KN_WORKSPACE}, {.kind = MD_KN_BLOCKS}}};
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const double points = points_of(target->program, target->stage, size),
                 elements = elements_of(target->program, target->stage, size);
    (void)config;
    return elements <= 8 * points;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)config;
    *out = (md_kn_envelope){.contiguous = UINT32_C(1) << store_of(md_fa_stage(target))->tensor};
}

static void print_use(md_strbuf *defines, md_dtype dtype)
{
    md_strbuf_add(defines, "#define MD_USE_");
    for (const char *c = md_dtype_name(dtype); *c; c++)
        md_strbuf_printf(defines, "%c", toupper((unsigned char)*c));
    md_strbuf_add(defines, " 1\n");
}

/* The launch that adds the bins to the target. */
static md_status print_end(md_kn_launch_source *launch, const md_fa_target *target, bool is_split)
{
    md_strbuf defines = {0}, expr = {0};
    MD_TRY(md_fa_begin_launch(launch, target));
    launch->param[launch->n_params++] = (md_kn_param){.kind = MD_KN_WORKSPACE};
    launch->param[launch->n_params++] = (md_kn_param){.kind = MD_KN_BLOCKS};
    md_strbuf_printf(&defines, "#define MD_VL %" PRId32 "\n", md_cg_width(target->facts));
    print_use(&defines, dtype_of(target));
    md_cg_print_params(&expr, launch->param, launch->n_params);
    print_bins(&defines, &expr, target, is_split, 2);
    return md_fa_end_launch(MD_OK, launch, MD_DEV_HOST, "host/scatter_bins.c", &defines, &expr);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_sweep sweep;
    (void)spec_of(&sweep, target, config);
    MD_TRY(md_fa_sweep_emit(out, target, &sweep));
    out->n_launches = 2;
    const md_status status = print_end(&out->launch[1], target, config->value[SPLIT] != 0);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    const double points = points_of(target->program, target->stage, shape->size),
                 elements = elements_at(target->program, target->stage, shape);
    const int64_t shares = elements > 0 ? shares_of(config, points, elements) : 0;
    *out = (md_kn_geometries){0};
    out->launch[0] = (md_kn_geometry){.blocks = shares, .grain = 1};
    out->launch[1] = (md_kn_geometry){
        .blocks = shares > 0 ? (int64_t)fmax(1, fmin(target->facts->threads, elements / SHARE_POINTS)) : 0, .grain = 1};
    out->workspace_bytes = HEAD_BYTES + shares * (HEAD_BYTES + (int64_t)(copies_of(config, elements) * elements) * 8);
}

/* Bins are cleared, updated, read; the target is read and written. Pages of large bins are new in each call. */
static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const double points = points_of(target->program, target->stage, size),
                 elements = elements_of(target->program, target->stage, size),
                 shares = (double)shares_of(config, points, elements), bins = shares * elements;
    md_fa_sweep sweep;
    (void)spec_of(&sweep, target, config);
    sweep.is_strided = false; /* most bins are read at neighbouring places */
    md_fa_sweep_features(out, target, &sweep, size);
    out->parallel = md_fa_host_parallel(shares, target->facts);
    if (bins * 8 > (double)target->facts->l2_bytes) {
        out->memory_bytes += bins * 16;
        out->serial_us += bins * 8 / 4096 * PAGE_US;
    }
    out->ops += bins * 2 * md_fa_host_ops_per_cycle(target->facts);
    out->launches = 2;
}

/* Integers are exact in any order. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    if (!md_dtype_is_real(dtype_of(target)))
        return (md_fa_class){.group = "scatter", .is_repeatable = true, .is_invariant = true};
    return (md_fa_class){
        .group = "scatter_bins", .field = {"split"}, .is_repeatable = true, .is_invariant = config->value[SPLIT] == 0};
}

const md_fa_family md_fa_host_scatter_bins = {
    .name = "scatter_bins",
    .device = MD_DEV_HOST,
    .n_fields = 1,
    .field = {{"split", 1, 2, {1, 0}}},
    .kind = &md_fa_host_sweep_kind,
    .spec_of = spec_of,
    .applies = md_fa_bins_apply,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
