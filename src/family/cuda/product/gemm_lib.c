/* Family gemm_lib: products by cuBLASLt (what of a stage it computes: lib_layout.c). `rank`: which answer of its
 * heuristic is used; the heuristic is asked for each shape. */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "device/blas/blas.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/lib_cost.h"
#include "family/cuda/product/lib_layout.h"
#include "family/cuda/product/wgmma_cost.h"

#include <string.h>

enum { RANK };
enum { LIBRARY_BYTES = 32 << 20 }; /* workspace that the library asks for on Hopper */

typedef md_fa_cuda_lib_layout layout;

static const layout *layout_of(layout *room, const md_fa_target *target)
{
    return md_fa_cuda_lib_layout_of(room, target->program, target->stage);
}

/* Which answer of the library's heuristic a variant uses. */
typedef struct answer {
    int32_t rank;
    bool is_tf32;
} answer;

static bool is_tf32(const layout *plan, const md_fa_target *target)
{
    return target->allows_tf32 && plan->map[0].dtype == MD_F32;
}

static bool applies(const md_fa_target *target)
{
    layout room;
    return layout_of(&room, target) && md_dev_cuda_has_gemm();
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    layout room;
    (void)config, (void)size;
    return layout_of(&room, target) != NULL; /* whether there is a library is asked once, of the family */
}

/* rule_value of an envelope: whether the library's epilogue is used, then the rows of each matrix, -1 behind them. */
enum { RULE_EPILOGUE, RULE_ROWS, AXIS_BITS = 4, NO_AXIS = (1 << AXIS_BITS) - 1 };
_Static_assert(MD_MAX_RANK <= NO_AXIS, "an axis fits its bits");

static int32_t pack_rows(const md_kn_map *m)
{
    const int32_t inner = m->n_dims[0] == 1 ? m->axis[0] : NO_AXIS; /* rows along several axes are contiguous */
    return (m->tensor << AXIS_BITS | m->axis[1]) << AXIS_BITS | inner;
}

/* The library reads matrices whose rows lie behind each other. With one of its epilogues it has no kernel for rows
 * whose distance exceeds 32 bits (measured). */
static const char *row_stride_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    for (const int32_t *rows = envelope->rule_value + RULE_ROWS; *rows >= 0; rows++) {
        const int32_t inner = *rows & NO_AXIS, outer = *rows >> AXIS_BITS & NO_AXIS;
        const int32_t tensor = *rows >> AXIS_BITS >> AXIS_BITS;
        const int64_t stride = shape->stride[tensor][outer];
        if (shape->extent[tensor][outer] > 1 && stride < (inner == NO_AXIS ? 1 : shape->extent[tensor][inner]))
            return "rows that overlap";
        if (envelope->rule_value[RULE_EPILOGUE] && stride > INT32_MAX)
            return "rows too far apart for the library's epilogue";
    }
    return NULL;
}

static void limit_row_strides(md_kn_envelope *out, const layout *plan, bool has_epilogue)
{
    const int32_t n_maps = plan->is_direct ? 4 : plan->p.n_products + 1;
    int32_t n = RULE_ROWS;
    for (int32_t i = 0; i < n_maps; i++)
        if ((i <= plan->p.n_products || i == 3) && plan->map[i].n_dims[1] > 0)
            out->rule_value[n++] = pack_rows(&plan->map[i]);
    out->rule_value[n] = -1;
    out->rule_value[RULE_EPILOGUE] = has_epilogue;
    out->rule_miss = row_stride_miss;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    layout room;
    (void)config;
    *out = (md_kn_envelope){0};
    const layout *plan = layout_of(&room, target);
    if (!plan)
        return;
    /* With unaligned rows the library's epilogue rounds twice (bf16 [17,37] x [37,33] + bias: off by 0.64 of the last
     * place), or has no kernel (K = 3). */
    const bool has_epilogue = plan->is_direct && plan->epilogue;
    /* Of images whose rows are no whole pieces it takes 3 to 6 times as long (28 x 28, 80 us beside cuDNN's 14). */
    const md_fx_tensor *tensor = target->program->formula->tensor;
    for (int32_t o = 0; o <= plan->p.n_products; o++)
        md_fa_cuda_map_needs(out, &plan->map[o], has_epilogue || tensor[plan->map[o].tensor].is_apart);
    if (plan->is_direct)
        md_fa_cuda_map_needs(out, &plan->map[3], has_epilogue);
    if (has_epilogue && plan->epilogue & MD_DEV_CUDA_GEMM_BIAS) {
        out->unit |= UINT32_C(1) << plan->bias;
        out->aligned16 |= UINT32_C(1) << plan->bias;
    }
    limit_row_strides(out, plan, has_epilogue);
    for (int32_t d = 0; d < target->program->formula->n_dims; d++) {
        out->lo[d] = 1;
        out->hi[d] = INT32_MAX;
    }
}

static int64_t result_bytes(const md_fa_product *sized)
{
    int64_t bytes =
        sized->batch * sized->rows * sized->columns * sized->p.n_products * md_fa_cuda_product_bytes(&sized->p);
    return (bytes + 255) / 256 * 256;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    layout room;
    md_fa_product sized;
    (void)config;
    *out = (md_kn_geometries){0};
    out->launch[0].grain = out->launch[1].grain = 1;
    const layout *plan = layout_of(&room, target);
    if (!plan)
        return;
    md_fa_product_measure(&sized, target, &plan->p, shape->size);
    if (sized.batch == 0 || sized.rows == 0 || sized.columns == 0)
        return;
    out->launch[0].blocks = 1;
    if (!plan->is_direct)
        md_fa_cuda_product_sum(out, target, &sized, 2); /* the launch is that of adding up slices of K */
    out->workspace_bytes = LIBRARY_BYTES + (plan->is_direct ? 0 : result_bytes(&sized));
}

/* Our epilogue: its least time in us, and its memory traffic relative to the sums. */
static const double EPILOGUE = 0.998, RESULTS = 2.88;

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    layout layout_room;
    md_fa_product room;
    const layout *plan = layout_of(&layout_room, target);
    const md_fa_product *sized = plan ? md_fa_cuda_product_work(out, &room, target, size) : NULL;
    if (!sized)
        return;
    const bool is_plain = md_dtype_size((md_dtype)plan->map[0].dtype) > 2 && !is_tf32(plan, target);
    md_fa_product sums = *sized;
    sums.epilogue_ops = sums.epilogue_transcendental = 0;
    const md_fa_cuda_library how = {is_plain, plan->is_direct, plan->is_direct && plan->epilogue, config->value[RANK],
                                    (int32_t)md_dtype_size((md_dtype)plan->map[3].dtype)};
    md_fa_cuda_product_time_features(out, md_fa_cuda_library_us(target, &sums, &how), 1);
    out->serial_us += 0.02 * config->value[RANK];
    if (plan->is_direct && plan->epilogue)
        out->serial_us += md_fa_cuda_library_epilogue_us(sized);
    if (!plan->is_direct) {
        out->launches = 2;
        out->serial_us += EPILOGUE;
        out->memory_bytes += RESULTS * (double)result_bytes(sized);
    }
}

static void fill_matrix(md_dev_cuda_gemm *gemm, int32_t which, const md_kn_map *m, const md_kn_shape *shape,
                        int64_t inner, int64_t outer)
{
    const int64_t *stride = shape->stride[m->tensor];
    gemm->leading[which] = m->n_dims[1] > 0 && outer > 1 ? stride[m->axis[1]] : inner;
    gemm->leading[which] = MD_MAX(gemm->leading[which], inner);
    gemm->stride[which] = m->n_dims[2] > 0 ? stride[m->axis[2]] : 0;
}

static void measure(md_dev_cuda_gemm *gemm, const layout *plan, const md_kn_shape *shape)
{
    const md_cg_product *p = &plan->p;
    const md_st_product *product = &p->program->stage[p->stage].product;
    const int64_t *size = shape->size;
    gemm->rows = md_st_points(p->program, p->n_rows, p->rows, size);
    gemm->columns = md_st_points(p->program, p->n_columns, p->columns, size);
    gemm->depth = md_st_points(p->program, product->n_k, product->k, size);
    gemm->batch = md_st_points(p->program, product->n_batch, product->batch, size);
    gemm->in = plan->map[0].dtype;
    gemm->out = plan->is_direct ? plan->map[3].dtype : (int32_t)p->type;
    gemm->epilogue = plan->is_direct ? plan->epilogue : 0;
}

/* The alignment that the shape promises for a tensor, so that the library's answer depends on the shape alone. */
static int32_t alignment_of(const layout *plan, const md_kn_shape *shape, int32_t tensor)
{
    const int32_t item = (int32_t)md_dtype_size(plan->p.program->formula->tensor[tensor].dtype);
    return shape->aligned16 >> tensor & 1 ? 16 : item;
}

/* The alignment of an offset in the workspace, which is aligned to 256 bytes. */
static int32_t alignment_at(int64_t offset)
{
    return offset % 16 == 0 ? 16 : offset % 8 == 0 ? 8 : 4;
}

/* Bytes of a plane: the sums of one product. */
static int64_t plane_bytes(const layout *plan, const md_dev_cuda_gemm *gemm)
{
    return gemm->rows * gemm->columns * md_fa_cuda_product_bytes(&plan->p);
}

/* Describes product q of the stage to the library. Without is_direct the sums go to the workspace, plane by plane. */
static void describe(md_dev_cuda_gemm *out, const layout *plan, const md_kn_shape *shape, const answer *which,
                     int32_t q)
{
    const md_kn_map *a = &plan->map[0], *b = &plan->map[MD_CG_B + q], *c = &plan->map[3];
    md_dev_cuda_gemm gemm;
    memset(&gemm, 0, sizeof gemm);
    measure(&gemm, plan, shape);
    gemm.rank = which->rank;
    gemm.is_tf32 = which->is_tf32;
    gemm.along_rows[0] = md_cg_product_along(&plan->p, MD_CG_A) == MD_CG_ALONG_ROWS;
    gemm.along_rows[1] = md_cg_product_along(&plan->p, MD_CG_B + q) == MD_CG_ALONG_ROWS;
    fill_matrix(&gemm, 0, a, shape, gemm.along_rows[0] ? gemm.rows : gemm.depth,
                gemm.along_rows[0] ? gemm.depth : gemm.rows);
    fill_matrix(&gemm, 1, b, shape, gemm.along_rows[1] ? gemm.columns : gemm.depth,
                gemm.along_rows[1] ? gemm.depth : gemm.columns);
    gemm.alignment[0] = alignment_of(plan, shape, a->tensor);
    gemm.alignment[1] = alignment_of(plan, shape, b->tensor);
    if (plan->is_direct) {
        fill_matrix(&gemm, 2, c, shape, gemm.columns, gemm.rows);
        gemm.alignment[2] = alignment_of(plan, shape, c->tensor);
        if (gemm.epilogue & MD_DEV_CUDA_GEMM_BIAS)
            gemm.alignment[2] = MD_MIN(gemm.alignment[2], alignment_of(plan, shape, plan->bias));
    } else {
        gemm.leading[2] = gemm.columns;
        gemm.stride[2] = gemm.rows * gemm.columns * plan->p.n_products;
        gemm.alignment[2] = alignment_at(q * plane_bytes(plan, &gemm));
    }
    *out = gemm;
}

static md_status run_product(const layout *plan, const md_kn_call *call, const answer *which, int32_t q)
{
    md_dev_cuda_gemm gemm;
    describe(&gemm, plan, call->shape, which, q);
    const int64_t plane = plane_bytes(plan, &gemm);
    const int64_t results = plan->is_direct ? 0 : (gemm.batch * plane * plan->p.n_products + 255) / 256 * 256;
    const md_dev_cuda_gemm_data data = {.a = call->data[plan->map[0].tensor],
                                        .b = call->data[plan->map[MD_CG_B + q].tensor],
                                        .bias = gemm.epilogue & MD_DEV_CUDA_GEMM_BIAS ? call->data[plan->bias] : NULL,
                                        .c = plan->is_direct ? call->data[plan->map[3].tensor]
                                                             : (char *)call->workspace + q * plane,
                                        .workspace = (char *)call->workspace + results,
                                        .workspace_bytes = LIBRARY_BYTES};
    return md_dev_cuda_gemm_run(call->device, call->stream, &gemm, &data);
}

_Static_assert(sizeof(md_dev_cuda_gemm) <= sizeof(md_fa_library_call) &&
                   MD_CG_MAX_OPERANDS - 1 <= MD_FA_MAX_LIBRARY_CALLS,
               "every product of a stage is a call of the library");

static int32_t library_calls(md_fa_library_call out[MD_FA_MAX_LIBRARY_CALLS], const md_fa_target *target,
                             const md_fa_config *config, const md_kn_shape *shape)
{
    layout room;
    md_dev_cuda_gemm gemm;
    const layout *plan = layout_of(&room, target);
    if (!plan)
        return 0;
    const answer which = {config->value[RANK], is_tf32(plan, target)};
    for (int32_t q = 0; q < plan->p.n_products; q++) {
        describe(&gemm, plan, shape, &which, q);
        if (gemm.batch == 0 || gemm.rows == 0 || gemm.columns == 0)
            return 0;
        memcpy(&out[q], &gemm, sizeof gemm);
    }
    return plan->p.n_products;
}

static md_status load_library_call(md_dev *dev, const md_fa_library_call *call, bool may_load)
{
    md_dev_cuda_gemm gemm;
    memcpy(&gemm, call, sizeof gemm);
    return md_dev_cuda_gemm_load(dev, &gemm, LIBRARY_BYTES, may_load);
}

static md_fa_answer library_answer(md_dev *dev, const md_dev_facts *facts, const md_fa_library_call *call)
{
    md_dev_cuda_gemm gemm;
    md_dev_cuda_gemm_answer a;
    memcpy(&gemm, call, sizeof gemm);
    if (md_dev_cuda_gemm_answered(&a, dev, &gemm) != MD_OK)
        return (md_fa_answer){0};
    return (md_fa_answer){.us = md_fa_cuda_answer_us(facts, &gemm, &a),
                          .algorithm = (int32_t)a.algorithm,
                          .rows = a.rows,
                          .columns = a.columns,
                          .slices = a.split,
                          .waves = (double)a.waves};
}

static md_status run(const md_kn_call *call, const answer *which)
{
    const md_st_program *program = call->program;
    const md_st_stage *stage = call->stage;
    layout room;
    const layout *plan = md_fa_cuda_lib_layout_of(&room, program, (int32_t)(stage - program->stage));
    if (!plan)
        return md_fail(MD_INTERNAL, "family gemm_lib does not take this stage");
    for (int32_t q = 0; q < plan->p.n_products; q++)
        MD_TRY(run_product(plan, call, which, q));
    return MD_OK;
}

/* A launch function has no argument for the rank, so there is one function for each. */
#define MD_RUN(n)                                                                                                      \
    static md_status run##n(const md_kn_call *call)                                                                    \
    {                                                                                                                  \
        return run(call, &(const answer){n, false});                                                                   \
    }                                                                                                                  \
    static md_status run##n##_tf32(const md_kn_call *call)                                                             \
    {                                                                                                                  \
        return run(call, &(const answer){n, true});                                                                    \
    }
MD_RUN(0)
MD_RUN(1)
MD_RUN(2)
MD_RUN(3)
MD_RUN(4)
MD_RUN(5)
MD_RUN(6)
MD_RUN(7)
#undef MD_RUN
static const md_kn_host_function runs[2][MD_DEV_CUDA_GEMM_RANKS] = {
    {run0, run1, run2, run3, run4, run5, run6, run7},
    {run0_tf32, run1_tf32, run2_tf32, run3_tf32, run4_tf32, run5_tf32, run6_tf32, run7_tf32},
};

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    layout room;
    const layout *plan = layout_of(&room, target);
    if (!plan)
        return md_fail(MD_INTERNAL, "family gemm_lib does not take this stage");
    if (!plan->is_direct)
        MD_TRY(md_fa_cuda_product_emit_sum(&out->launch[1], target, &plan->p, 1));
    out->n_launches = plan->is_direct ? 1 : 2;
    out->launch[0].code = MD_KN_FUNCTION;
    out->launch[0].function = runs[is_tf32(plan, target)][config->value[RANK]];
    return MD_OK;
}

const md_fa_family md_fa_cuda_gemm_lib = {
    .name = "gemm_lib",
    .device = MD_DEV_CUDA,
    .is_library = true,
    .n_fields = 1,
    .field = {{"rank", 0, 8, {0, 1, 2, 3, 4, 5, 6, 7}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .library_calls = library_calls,
    .load_library_call = load_library_call,
    .library_answer = library_answer,
};
