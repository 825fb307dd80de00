/* Family conv_lib: plain convolutions by cuDNN, and gradients of their filters (conv_layout.c says of which stages).
 * `rank`: which answer of its heuristic is used; the heuristic is asked for each shape. */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "device/dnn/dnn.h"
#include "family/cuda/product/conv_layout.h"
#include "family/cuda/product/conv_lib_fit.h"
#include "family/cuda/product/wgmma_cost.h"

#include <math.h>
#include <string.h>

enum { RANK };
/* rule_value of an envelope: of each axis of the image the dims of image, result and filter (one more, 0: none), and
 * how far it is moved */
enum { N_RULE_AXES, RULE_AXIS, RULES_OF_AXIS = 2, MOST_MOVED = 255 };
enum { MOST_ALIGNED = 16, ROUNDED = 256 }; /* bytes: of what is at multiples of 16; pieces of the workspace */
enum { LIBRARY_BYTES = 32 << 20, TILE = 128 /* of results */, FEW = 16 /* channels */ };

_Static_assert((int)MD_FA_CONV_AXES == (int)MD_DEV_CUDA_CONV_AXES &&
                   (int)MD_FA_CONV_TENSORS == (int)MD_DEV_CUDA_CONV_TENSORS,
               "a layout is of the library's convolutions");
_Static_assert(sizeof(md_dev_cuda_conv) <= sizeof(md_fa_library_call), "a convolution is a call");

static md_dtype dtype_of(const md_fa_conv_layout *layout, const md_st_program *program)
{
    return program->formula->tensor[layout->tensor[0]].dtype;
}

static bool find_layout(md_fa_conv_layout *out, const md_st_program *program, int32_t stage)
{
    md_cg_product p;
    if (!md_cg_product_of(&p, program, stage, MD_CG_COLUMNS_STORED))
        return false;
    p.dialect = MD_DEV_CUDA;
    if (!md_fa_conv_layout_of(out, &p) &&
        (!md_cg_product_of(&p, program, stage, MD_CG_COLUMNS_N) || !md_fa_conv_layout_of(out, &p)) &&
        (!md_cg_product_of(&p, program, stage, MD_CG_COLUMNS_M) || !md_fa_conv_layout_of(out, &p)))
        return false;
    const md_dtype dtype = dtype_of(out, program);
    bool is_same = dtype == MD_BF16 || dtype == MD_F16 || dtype == MD_F32;
    for (int32_t i = 0; i < out->n_axes - 2; i++)
        is_same = is_same && out->step[i] <= MOST_MOVED && out->apart[i] <= MOST_MOVED && out->before[i] <= MOST_MOVED;
    for (int32_t t = 1; t < MD_FA_CONV_TENSORS; t++)
        is_same = is_same && program->formula->tensor[out->tensor[t]].dtype == dtype;
    return is_same;
}

/* What the program keeps of a stage. */
typedef struct known {
    bool takes; /* the library takes the stage */
    md_fa_conv_layout layout;
} known;

static void make_known(void *out, const md_st_program *program, int32_t stage, const void *user)
{
    known *k = out;
    (void)user;
    memset(k, 0, sizeof *k);
    k->takes = find_layout(&k->layout, program, stage);
}

/* NULL if the library does not take the stage. */
static const md_fa_conv_layout *layout_of(known *room, const md_st_program *program, int32_t stage)
{
    const known *k =
        md_st_look(room, program, stage,
                   &(md_st_fact){.which = MD_ST_KNOWN_CONVOLUTION, .n_bytes = sizeof *room, .make = make_known});
    return k->takes ? &k->layout : NULL;
}

static bool applies(const md_fa_target *target)
{
    known room;
    return layout_of(&room, target->program, target->stage) && md_dev_cuda_has_conv();
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    known room;
    (void)config, (void)size;
    return layout_of(&room, target->program, target->stage) != NULL;
}

static int32_t packed(int64_t first, int64_t second, int64_t third)
{
    return (int32_t)(first | second << 8 | third << 16);
}

/* The library gives as many zeros behind an axis as in front of it, and a result as long as its steps fit. */
static const char *border_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    for (int32_t i = 0; i < envelope->rule_value[N_RULE_AXES]; i++) {
        const int32_t dims = envelope->rule_value[RULE_AXIS + RULES_OF_AXIS * i],
                      moved = envelope->rule_value[RULE_AXIS + RULES_OF_AXIS * i + 1];
        const int64_t points = dims >> 16 ? shape->size[(dims >> 16) - 1] : 1, step = moved & 255,
                      there = shape->size[dims & 255] + 2 * (int64_t)(moved >> 16),
                      seen = (shape->size[dims >> 8 & 255] - 1) * step + (points - 1) * (moved >> 8 & 255) + 1;
        if (there < seen || there >= seen + step)
            return "another border behind an axis than in front of it";
    }
    return NULL;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    known room;
    const md_fa_conv_layout *layout = layout_of(&room, target->program, target->stage);
    (void)config;
    *out = (md_kn_envelope){0};
    if (!layout)
        return;
    /* planes of a 1 x 1 filter, too: with unaligned rows it has no plan, or a slow one (28 x 28, 44 us beside 4.8) */
    for (int32_t t = 0; t < MD_FA_CONV_TENSORS && (!layout->has_planes || layout->dim[1][2] < 0); t++)
        out->aligned16 |= UINT32_C(1) << layout->tensor[t];
    for (int32_t d = 0; d < target->program->formula->n_dims; d++) {
        out->lo[d] = 1;
        out->hi[d] = INT32_MAX;
    }
    for (int32_t i = 0; i < layout->n_axes - 2 && layout->dim[0][i + 2] >= 0; i++) {
        int32_t *rule = out->rule_value + RULE_AXIS + RULES_OF_AXIS * i;
        rule[0] = packed(layout->dim[0][i + 2], layout->dim[2][i + 2], layout->dim[1][i + 2] + 1);
        rule[1] = packed(layout->step[i], layout->apart[i], layout->before[i]);
        out->rule_value[N_RULE_AXES] = i + 1;
    }
    out->rule_miss = border_miss;
}

/* ---- Calls */

static bool describe(md_dev_cuda_conv *out, const md_fa_conv_layout *layout, const md_st_program *program,
                     const md_kn_shape *shape, int32_t rank)
{
    const md_dtype dtype = dtype_of(layout, program);
    const size_t bytes = md_dtype_size(dtype);
    memset(out, 0, sizeof *out);
    out->n_axes = layout->n_axes;
    out->dtype = (int32_t)dtype;
    out->rank = rank;
    out->kind = layout->is_of_filter ? MD_DEV_CUDA_CONV_OF_FILTER : MD_DEV_CUDA_CONV_FORWARD;
    for (int32_t t = 0; t < MD_FA_CONV_TENSORS; t++) {
        out->alignment[t] = shape->aligned16 >> layout->tensor[t] & 1 ? MOST_ALIGNED : (int16_t)bytes;
        for (int32_t a = 0; a < layout->n_axes; a++) {
            const int32_t axis = layout->axis[t][a];
            out->size[t][a] = axis < 0 ? 1 : shape->size[layout->dim[t][a]];
            out->stride[t][a] = axis < 0 ? 1 : shape->stride[layout->tensor[t]][axis];
            if (out->size[t][a] < 1 || out->stride[t][a] < 0)
                return false;
        }
    }
    for (int32_t i = 0; i < layout->n_axes - 2; i++) {
        out->step[i] = (int32_t)layout->step[i];
        out->apart[i] = (int32_t)layout->apart[i];
        out->border[i] = (int32_t)layout->before[i];
    }
    return true;
}

/* Planes are copied: there is room for all three tensors once more. */
static int64_t workspace_of(const md_dev_cuda_conv *conv)
{
    int64_t bytes = LIBRARY_BYTES;
    for (int32_t t = 0; t < MD_FA_CONV_TENSORS && conv->stride[0][1] != 1; t++) {
        int64_t n = (int64_t)md_dtype_size((md_dtype)conv->dtype);
        for (int32_t a = 0; a < conv->n_axes; a++)
            n *= conv->size[t][a];
        bytes += (n + ROUNDED - 1) / ROUNDED * ROUNDED;
    }
    return bytes;
}

static int32_t library_calls(md_fa_library_call out[MD_FA_MAX_LIBRARY_CALLS], const md_fa_target *target,
                             const md_fa_config *config, const md_kn_shape *shape)
{
    known room;
    const md_fa_conv_layout *layout = layout_of(&room, target->program, target->stage);
    md_dev_cuda_conv conv;
    if (!layout || !describe(&conv, layout, target->program, shape, config->value[RANK]))
        return 0;
    memcpy(&out[0], &conv, sizeof conv);
    return 1;
}

static md_status load_library_call(md_dev *dev, const md_fa_library_call *call, bool may_load)
{
    md_dev_cuda_conv conv;
    memcpy(&conv, call, sizeof conv);
    return md_dev_cuda_conv_load(dev, &conv, workspace_of(&conv), may_load);
}

static md_status run(const md_kn_call *call, int32_t rank)
{
    const md_st_program *program = call->program;
    const md_st_stage *stage = call->stage;
    known room;
    const md_fa_conv_layout *layout = layout_of(&room, program, (int32_t)(stage - program->stage));
    md_dev_cuda_conv conv;
    void *data[MD_FA_CONV_TENSORS];
    if (!layout)
        return md_fail(MD_INTERNAL, "family conv_lib does not take this stage");
    if (!describe(&conv, layout, program, call->shape, rank))
        return md_fail(MD_UNSUPPORTED, "cuDNN has no convolution of such strides");
    for (int32_t t = 0; t < MD_FA_CONV_TENSORS; t++)
        data[t] = call->data[layout->tensor[t]];
    return md_dev_cuda_conv_run(call->device, call->stream, &conv, data, call->workspace, workspace_of(&conv));
}

/* A launch function has no argument for the rank, so there is one function for each. */
#define MD_RUN(n)                                                                                                      \
    static md_status run##n(const md_kn_call *call)                                                                    \
    {                                                                                                                  \
        return run(call, n);                                                                                           \
    }
MD_RUN(0)
MD_RUN(1)
MD_RUN(2)
MD_RUN(3)
#undef MD_RUN
static const md_kn_host_function runs[MD_DEV_CUDA_CONV_RANKS] = {run0, run1, run2, run3};

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    out->n_launches = 1;
    out->launch[0].code = MD_KN_FUNCTION;
    out->launch[0].function = runs[config->value[RANK]];
    return MD_OK;
}

/* ---- Geometry and cost */

static bool work_of(md_fa_product *out, const md_fa_target *target, const int64_t *size)
{
    md_cg_product p;
    if (!md_cg_product_of(&p, target->program, target->stage, MD_CG_COLUMNS_STORED))
        return false;
    md_fa_product_measure(out, target, &p, size);
    return out->batch > 0 && out->rows > 0 && out->columns > 0;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    known room;
    const md_fa_conv_layout *layout = layout_of(&room, target->program, target->stage);
    md_dev_cuda_conv conv;
    md_fa_product sized;
    *out = (md_kn_geometries){0};
    out->launch[0].grain = out->launch[1].grain = 1;
    if (!layout || !work_of(&sized, target, shape->size))
        return;
    out->launch[0].blocks = 1;
    out->workspace_bytes = LIBRARY_BYTES;
    if (describe(&conv, layout, target->program, shape, config->value[RANK]))
        out->workspace_bytes = workspace_of(&conv);
}

/* The time of the library's own copies. */
static double planes_us(const md_fa_target *target, const md_fa_conv_layout *layout, const int64_t *size)
{
    double bytes[MD_FA_CONV_TENSORS];
    for (int32_t t = 0; t < MD_FA_CONV_TENSORS; t++) {
        bytes[t] = (double)md_dtype_size(dtype_of(layout, target->program));
        for (int32_t a = 0; a < layout->n_axes; a++)
            bytes[t] *= layout->dim[t][a] >= 0 ? (double)size[layout->dim[t][a]] : 1;
    }
    return PLANES + (PLANES_OF_IMAGES * (bytes[0] + bytes[2]) + PLANES_OF_FILTER * bytes[1]) /
                        md_fa_cuda_bytes_per_us(target->facts);
}

/* Fewer tiles than the device makes at once are cut smaller. */
static double tiles_us(const md_fa_target *target, const md_fa_product *sized)
{
    const double waves =
        ceil((double)sized->rows / TILE) * ceil((double)sized->columns / TILE) / MD_MAX(target->facts->threads, 1);
    return fmax(STEP_ALONE, STEP * (waves > 1 ? ceil(waves) : waves)) * (double)sized->depth / 64;
}

/* The same of planes, whose tiles are cut to suit, until a step of K alone counts. */
static double planes_tiles_us(const md_fa_product *sized, double flops)
{
    const double narrow = MD_MIN(sized->rows, sized->columns) < TILE ? NARROW : 1;
    return fmax(flops / RATE * narrow, PLANES_STEP_ALONE * (double)sized->depth / 64);
}

/* The time of the operations: of f32, of gradients of filters, which also divide K among tiles, and of the others. */
static double operations_us(const md_fa_target *target, const md_fa_conv_layout *layout, const md_fa_product *sized,
                            const int64_t *size)
{
    const double flops = 2.0 * (double)sized->rows * (double)sized->columns * (double)sized->depth;
    if (dtype_of(layout, target->program) == MD_F32)
        return fmax(flops / F32_RATE, F32_STEP_ALONE * (double)sized->depth / 64) *
               (layout->has_planes ? 1 : F32_PIXELS);
    const int64_t filters = size[layout->dim[1][0]], channels = size[layout->dim[1][1]];
    const double aligned = filters % 8 || channels % 8 || channels < FEW ? UNALIGNED : 1;
    return aligned * (layout->is_of_filter ? flops / FILTER_RATE
                      : layout->has_planes ? planes_tiles_us(sized, flops)
                                           : tiles_us(target, sized));
}

/* The time of 1 x 1 filters by planes: these are matrices, which the library moves where they are unaligned. */
static double points_us(const md_fa_product *sized, const md_fa_conv_layout *layout, const int64_t *size, double memory)
{
    const double flops =
                     2.0 * (double)sized->batch * (double)sized->rows * (double)sized->columns * (double)sized->depth,
                 images = (double)size[layout->dim[0][0]];
    int64_t places = 1;
    for (int32_t a = 2; a < layout->n_axes; a++)
        places *= size[layout->dim[2][a]];
    if (places % 8 == 0)
        return POINTS + fmax(flops / POINTS_RATE, memory);
    return fmin(POINTS_MOVED + flops / POINTS_MOVED_RATE, POINTS_ALONE + POINTS_EACH * images);
}

/* Gradients of filters are summed in slices of K, which are added up. */
static double whole_us(double operations, double memory, const md_fa_conv_layout *layout)
{
    return layout->is_of_filter ? operations + memory : fmax(operations, memory);
}

static bool is_of_points(const md_fa_conv_layout *layout)
{
    return layout->has_planes && layout->dim[1][2] < 0 && layout->step[0] == 1 && layout->step[1] == 1;
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_product sized;
    known room;
    const md_fa_conv_layout *layout = layout_of(&room, target->program, target->stage);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!layout || !work_of(&sized, target, size))
        return;
    const double memory = sized.bytes / md_fa_cuda_bytes_per_us(target->facts);
    const bool has_copies = layout->has_planes && dtype_of(layout, target->program) != MD_F32;
    const double us = is_of_points(layout) && has_copies
                          ? points_us(&sized, layout, size, memory)
                          : START + whole_us(operations_us(target, layout, &sized, size), memory, layout) +
                                (has_copies ? planes_us(target, layout, size) : 0);
    md_fa_cuda_product_time_features(out, us, 1);
    out->serial_us += 0.02 * config->value[RANK];
}

const md_fa_family md_fa_cuda_conv_lib = {
    .name = "conv_lib",
    .device = MD_DEV_CUDA,
    .is_library = true,
    .n_fields = 1,
    .field = {{"rank", 0, 4, {0, 1, 2, 3}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .library_calls = library_calls,
    .load_library_call = load_library_call,
};
