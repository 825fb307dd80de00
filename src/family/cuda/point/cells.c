/* Family cells: stages whose reads are not vectors, such as windows, borders and resizing, and reductions over small
 * windows. A thread has neighbouring elements of neighbouring planes; what depends on the place in a plane is computed
 * once for them. */
#include "family/cuda/cuda.h"
#include "family/cuda/point/cells_fit.h"
#include "family/cuda/point/point.h"
#include "family/emit.h"

#include "base/dtype.h"
#include "base/status.h"
#include "codegen/narrow.h"
#include "family/cost.h"
#include "family/numeric.h"

#include <inttypes.h>
#include <math.h>

enum { LANES, STEPS, PLANE, THREADS, STRIDED };
enum { MOST_CELLS = 16, MOST_BLOCKS = 65535, WAVES_THREADS = 8192 /* of all blocks, for each SM */ };

/* The indices, slowest first, as the kernel has them: those of blocks, that of the planes, those of a plane. */
typedef struct form {
    int32_t n, all[MD_MAX_RANK * 2 + 1];
    int32_t n_outer, step, n_inner; /* step: -1 where there is none */
} form;

static form form_of(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_stage *st = md_fa_stage(target);
    form f = {.step = -1};
    for (int32_t i = 0; i < st->n_outer; i++)
        f.all[f.n++] = st->outer[i];
    if (st->axis >= 0)
        f.all[f.n++] = st->axis;
    f.n_inner = MD_MIN(config->value[PLANE], f.n);
    f.n_outer = MD_MAX(f.n - f.n_inner - 1, 0);
    if (f.n > f.n_inner)
        f.step = f.all[f.n_outer];
    return f;
}

static const int32_t *inner_of(const form *f)
{
    return f->all + f->n - f->n_inner;
}

/* ---- Which stages */

static bool is_in_order(const md_fa_target *target, const md_st_store *store, const form *f)
{
    const md_fx_tensor *tensor = &target->program->formula->tensor[store->tensor];
    if (store->assign != MD_FX_SET || store->n_subscripts != f->n || md_dtype_is_packed(tensor->dtype))
        return false;
    for (int32_t i = 0; i < f->n; i++)
        if (!md_fx_is_index(store->subscript[i], f->all[i]) || tensor->at_least[i])
            return false;
    return true;
}

static bool applies(const md_fa_target *target)
{
    static const md_fa_config any = {.value = {1, 1, 1, 128}};
    const md_st_stage *st = md_fa_stage(target);
    if ((st->kind != MD_ST_POINTWISE && st->kind != MD_ST_NEST) || st->has_scatter || st->has_duplicates ||
        st->axis < 0 || md_fa_has_packed(target))
        return false;
    const form f = form_of(target, &any);
    for (int32_t i = 0; i < st->n_stores; i++)
        if (!is_in_order(target, &st->store[i], &f) || md_fx_has_kind(st->store[i].value, MD_FX_SCAN))
            return false;
    return st->kind == MD_ST_NEST || md_fa_cuda_moved_reads(target) > 0;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const int32_t *v = config->value;
    const form f = form_of(target, config);
    (void)size;
    return v[LANES] * v[STEPS] <= MOST_CELLS && f.n_inner == v[PLANE] && (f.step >= 0 || v[STEPS] == 1);
}

/* The tensors that are read. */
static uint32_t loaded(const md_st_stage *st)
{
    uint32_t tensors = 0;
    for (int32_t i = 0; i < st->n_tensors; i++)
        tensors |= st->is_stored[i] ? 0 : UINT32_C(1) << st->tensor[i];
    return tensors;
}

/* ---- Integers of 32 bits */

/* A search for integers that 32 bits do not hold, where sizes are at most this. */
typedef struct narrow {
    const md_st_program *program;
    int64_t most;
    int32_t n_nodes;
} narrow;

/* The range of an integer; false where it or what it is made of does not fit. */
static bool fits(narrow *s, const md_fx_node *n, md_range_interval *out)
{
    md_range_interval arg[3] = {{0, 1}, {0, 1}, {0, 1}};
    *out = (md_range_interval){0, 1};
    if (++s->n_nodes > MD_CG_NARROW_NODES)
        return false;
    for (int32_t i = 0; i < n->n_args; i++)
        if (!fits(s, n->arg[i], &arg[MD_MIN(i, 2)]))
            return false;
    if (n->type != MD_I64)
        return true;
    if (n->kind == MD_FX_CONST)
        *out = (md_range_interval){n->integer, n->integer};
    else if (n->kind == MD_FX_INDEX || n->kind == MD_FX_SIZE)
        *out = (md_range_interval){0, s->most};
    else if (n->kind == MD_FX_CHECK)
        *out = arg[0];
    else if (n->kind != MD_FX_OP || n->n_args > 3 || !md_cg_range_of_op(out, n, arg))
        return false;
    return out->lo > INT32_MIN / 2 && out->hi < INT32_MAX / 2;
}

/* The largest of some sizes up to which all integers of the stage have 32 bits; 0: none. */
static int64_t narrow_size(const md_fa_target *target)
{
    static const int64_t sizes[] = {1 << 24, 1 << 14};
    const md_st_stage *st = md_fa_stage(target);
    md_range_interval range;
    for (int32_t i = 0; i < MD_COUNT(sizes); i++) {
        narrow s = {.program = target->program, .most = sizes[i]};
        bool all = true;
        for (int32_t k = 0; all && k < st->n_stores; k++)
            all = fits(&s, st->store[k].value, &range);
        if (all)
            return sizes[i];
    }
    return 0;
}

/* Offsets have 32 bits, too. */
static const char *span_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    for (int32_t t = 0; t < MD_KN_MAX_TENSORS; t++) {
        double span = 0;
        for (int32_t a = 0; envelope->rule_value[0] >> t & 1 && a < MD_MAX_RANK; a++)
            span += fabs((double)shape->stride[t][a]) * (double)MD_MAX(shape->extent[t][a] - 1, 0);
        if (span >= INT32_MAX / 2)
            return "larger than 32 bits count";
    }
    return NULL;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const form f = form_of(target, config);
    const md_st_stage *st = md_fa_stage(target);
    *out = (md_kn_envelope){.row_points_max = INT32_MAX / 2, .n_row_dims = f.n_inner};
    for (int32_t i = 0; i < st->n_stores; i++)
        out->contiguous |= UINT32_C(1) << st->store[i].tensor;
    const int64_t most = narrow_size(target);
    if (most > 0) {
        for (int32_t i = 0; i < target->program->formula->n_dims; i++)
            out->hi[i] = most;
        out->rule_miss = span_miss;
        for (int32_t i = 0; i < st->n_tensors; i++)
            out->rule_value[0] |= (int32_t)(UINT32_C(1) << st->tensor[i]);
    }
    for (int32_t i = 0; i < f.n_inner; i++)
        out->row_dim[i] = target->program->index[inner_of(&f)[i]].dim;
    out->unit = config->value[STRIDED] ? 0 : loaded(st);
}

/* ---- Geometry and cost */

/* Blocks along a plane, along the planes side by side, and around them. */
static void grid_of(int64_t grid[3], const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const form f = form_of(target, config);
    const int32_t *v = config->value;
    const int64_t inner = md_st_points(target->program, f.n_inner, inner_of(&f), size),
                  outer = md_st_points(target->program, f.n_outer, f.all, size),
                  steps = f.step < 0 ? 1 : md_st_size(target->program, f.step, size);
    const int64_t vectors = (inner + v[LANES] - 1) / v[LANES], chunks = (vectors + v[THREADS] - 1) / v[THREADS];
    grid[0] = chunks;
    grid[1] = MD_MIN((steps + v[STEPS] - 1) / v[STEPS], MOST_BLOCKS);
    /* a thread that has several outer points looks for its place in the plane once */
    const int64_t enough = WAVES_THREADS / v[THREADS] * MD_MAX(target->facts->threads, 1), across = grid[0] * grid[1];
    grid[2] = MD_MIN(outer, MD_MIN(MD_MAX((enough + across - 1) / MD_MAX(across, 1), 1), MOST_BLOCKS));
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    int64_t grid[3];
    grid_of(grid, target, config, shape->size);
    *out = (md_kn_geometries){0};
    out->launch[0] = md_fa_cuda_launch(grid[0], config->value[THREADS]);
    out->launch[0].grid[1] = (int32_t)MD_MAX(grid[1], 1);
    out->launch[0].grid[2] = (int32_t)MD_MAX(grid[2], 1);
    out->launch[0].blocks = grid[0] * grid[1] * grid[2];
}

/* Turns of an element's loops. */
static double turns_of(const md_fa_target *target, double points, const int64_t *size)
{
    double flops = 0, bytes = 0;
    md_fa_work(&flops, &bytes, target, size);
    return md_fa_stage(target)->kind == MD_ST_NEST && points > 0 ? fmax(flops / points, 1) : 1;
}

/* us in which all instructions are issued: of a thread, of each of its planes' points, of each element. */
static double issue_us(const md_fa_target *target, const md_fa_config *config, const md_fa_host_work *work,
                       const int64_t grid[3], const int64_t *size)
{
    const int32_t *v = config->value;
    const form f = form_of(target, config);
    const double points = (double)md_st_points(target->program, f.n, f.all, size);
    const double outer = (double)md_st_points(target->program, f.n_outer, f.all, size);
    const double each = CELL + turns_of(target, points, size) * (READ * work->loads + OPERATION * work->operations);
    const double rounds = ceil(outer / fmax((double)grid[2], 1)), cells = (double)v[LANES] * v[STEPS];
    const double threads = (double)grid[0] * (double)grid[1] * (double)grid[2] * v[THREADS];
    return threads * (PLACE + rounds * (POINT + cells * each)) / md_fa_cuda_fma_per_us(target->facts);
}

/* us in which the L1 serves a warp's reads, a line each, and stores that are no vectors. */
static double lines_us(const md_fa_target *target, const md_fa_config *config, const md_fa_host_work *work,
                       const int64_t *size)
{
    const form f = form_of(target, config);
    const int32_t lanes = config->value[LANES], item = 16 / md_fa_cuda_width(target->program, target->stage);
    const double points = (double)md_st_points(target->program, f.n, f.all, size);
    const int64_t inner = md_st_points(target->program, f.n_inner, inner_of(&f), size);
    const double step = md_fa_cuda_moved_reads(target) > 1 ? 2 : 1;
    double lines = turns_of(target, points, size) * work->loads * fmax(1, lanes * step * item / 4.0);
    if (inner % lanes != 0)
        lines += SINGLE_LINES * work->stores * lanes * item / 4.0;
    return points * lines * 4 / md_fa_cuda_fma_per_us(target->facts);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    double flops = 0, bytes = 0;
    int64_t grid[3];
    md_fa_host_work work;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    md_fa_work(&flops, &bytes, target, size);
    grid_of(grid, target, config, size);
    const double blocks = (double)grid[0] * (double)grid[1] * (double)grid[2], sms = MD_MAX(target->facts->threads, 1);
    const double rate = md_fa_cuda_bytes_per_us(target->facts), issue = issue_us(target, config, &work, grid, size);
    const double us = hypot(bytes / (rate * MEMORY), hypot(issue, LINES * lines_us(target, config, &work, size)));
    *out = (md_fa_features){.memory_bytes = bytes, .ops_rate = 1, .launches = 1, .serial_us = START};
    out->memory_rate = fmin(bytes / fmax(us * rate, 1e-3), 1);
    out->parallel = MD_MIN(MD_MAX(blocks, 1), sms);
    const form f = form_of(target, config);
    out->transcendental = (double)md_st_points(target->program, f.n, f.all, size) * work.transcendental;
}

/* ---- Text */

/* Sizes and strides as the kernel counts, and the type that it counts in. */
#define LONG                                                                                                           \
    "typedef md_params md_sizes;\ntypedef int64_t md_count;\n"                                                         \
    "MD_INLINE md_sizes md_sizes_of(const md_params *p)\n{\nreturn *p;\n}\n"
#define SHORT                                                                                                          \
    "typedef md_short_params md_sizes;\ntypedef int32_t md_count;\n"                                                   \
    "MD_INLINE md_sizes md_sizes_of(const md_params *p)\n{\nreturn md_shorten(p);\n}\n"                                \
    "#define int64_t int32_t\n#define uint64_t uint32_t\n#undef INT64_C\n#define INT64_C(x) x\n"

typedef struct writer {
    const md_fa_target *target;
    const md_st_program *program;
    const md_st_stage *stage;
    const md_fa_config *config;
    form form;
    int64_t most; /* integers have 32 bits, as sizes are at most this; 0: 64 */
    md_cg *cg;
    md_strbuf text;
} writer;

/* Indices from the 32-bit number `rest`, in `at`. */
static void print_split(writer *w, int32_t n, const int32_t *index)
{
    char size[32];
    for (int32_t i = n - 1; i > 0; i--)
        md_strbuf_printf(&w->text,
                         "{\nconst uint32_t size = (uint32_t)%s, q = rest / size;\nat.x%" PRId32
                         " = rest - q * size;\nrest = q;\n}\n",
                         md_cg_size(size, w->program, index[i]), index[i]);
    if (n > 0)
        md_strbuf_printf(&w->text, "at.x%" PRId32 " = rest;\n", index[0]);
}

static void print_find(writer *w, const char *head, int32_t n, const int32_t *index)
{
    md_strbuf_printf(&w->text, "MD_INLINE void %s, md_at &at)\n{\n", head);
    print_split(w, n, index);
    md_strbuf_add(&w->text, "}\n");
}

static void print_number(writer *w, const char *name, int32_t n, const int32_t *index)
{
    md_strbuf_printf(&w->text, "MD_INLINE uint32_t %s(const md_sizes *p)\n{\nreturn (uint32_t)", name);
    md_cg_print_points(&w->text, w->program, n, index);
    md_strbuf_add(&w->text, ";\n}\n");
}

static void print_places(writer *w)
{
    const form *f = &w->form;
    const int32_t *inner = inner_of(f), last = inner[f->n_inner - 1];
    char size[32];
    md_strbuf_add(&w->text, "struct md_at {\n");
    for (int32_t i = 0; i < f->n; i++)
        if (f->all[i] != f->step)
            md_strbuf_printf(&w->text, "int64_t x%" PRId32 ";\n", f->all[i]);
    md_strbuf_add(&w->text, "};\n");
    print_number(w, "md_inner", f->n_inner, inner);
    print_number(w, "md_last", 1, &last);
    print_number(w, "md_steps", f->step >= 0, &f->step);
    print_number(w, "md_outers", f->n_outer, f->all);
    print_find(w, "md_find_outer(const md_sizes *p, uint32_t rest", f->n_outer, f->all);
    print_find(w, "md_find_place(const md_sizes *p, uint32_t rest", f->n_inner, inner);
    md_strbuf_add(&w->text,
                  "MD_INLINE void md_find_row(const md_sizes *p, uint32_t rest, uint32_t last, md_at &at)\n{\n");
    print_split(w, f->n_inner - 1, inner);
    md_strbuf_printf(&w->text,
                     "at.x%" PRId32 " = last;\n}\nMD_INLINE void md_beside(md_at &at)\n{\nat.x%" PRId32
                     "++;\n}\nMD_INLINE void md_next(const md_sizes *p, md_at &at)\n{\n",
                     last, last);
    for (int32_t i = f->n_inner - 1; i > 0; i--)
        md_strbuf_printf(&w->text, "if (++at.x%" PRId32 " != %s)\nreturn;\nat.x%" PRId32 " = 0;\n", inner[i],
                         md_cg_size(size, w->program, inner[i]), inner[i]);
    md_strbuf_printf(&w->text, "at.x%" PRId32 "++;\n}\n", inner[0]);
}

/* What a cell's indices are. */
static void print_cell(writer *w)
{
    const form *f = &w->form;
    md_strbuf_add(&w->text, "#define MD_CELL(g)");
    for (int32_t i = 0; i < f->n; i++)
        if (f->all[i] != f->step)
            md_strbuf_printf(&w->text, " const int64_t x%" PRId32 " = at[(g) %% MD_ACROSS].x%" PRId32 ";", f->all[i],
                             f->all[i]);
    if (f->step >= 0)
        md_strbuf_printf(&w->text, " const int64_t x%" PRId32 " = (uint32_t)min(step + (g) / MD_ACROSS, most);",
                         f->step);
    md_strbuf_add(&w->text, "\n#define MD_GROUP (MD_STEPS * MD_ACROSS)\nstruct md_cells {\n");
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        md_strbuf_printf(&w->text, "md_t_%s::E y%" PRId32 "[MD_GROUP];\n",
                         md_dtype_name(w->program->formula->tensor[w->stage->store[i].tensor].dtype), i);
    md_strbuf_add(&w->text, "};\n");
}

static void print_compute(writer *w)
{
    const char *value[MD_ST_MAX_STORES] = {NULL};
    md_strbuf_add(&w->text, "MD_INLINE void md_compute(const md_sizes *p, const md_at *at, uint32_t step, uint32_t "
                            "most, md_cells &r)\n{\n");
    md_cg_begin(w->cg, &w->text);
    md_cg_begin_group(w->cg, w->stage->store[0].value);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        value[i] = md_cg_value(w->cg, w->stage->store[i].value, NULL);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        md_cg_store(w->cg, &w->stage->store[i], value[i], true);
    md_cg_end_group(w->cg);
    md_strbuf_add(&w->text, "}\n");
}

static void print_put(writer *w)
{
    md_strbuf_add(&w->text, "MD_INLINE void md_put(const md_sizes *p, md_count element, uint32_t n, bool whole, int "
                            "first, const md_cells &r)\n{\n");
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        md_strbuf_printf(&w->text, "md_put_cells(p->t%" PRId32 ", element, r.y%" PRId32 " + first, n, whole);\n",
                         w->stage->store[i].tensor, i);
    md_strbuf_add(&w->text, "}\n");
}

/* True if the value is a bf16 before it is rounded: what is read, or chosen from that. */
static bool is_exact(const writer *w, const md_fx_node *n)
{
    static const md_fx_op choosing[] = {MD_FX_WHERE, MD_FX_MIN, MD_FX_MAX, MD_FX_RELU, MD_FX_NEG, MD_FX_ABS};
    uint64_t stored = 0;
    bool is = (n->kind == MD_FX_CAST && (n->to == MD_F32 || n->to == MD_BF16)) || (n->kind == MD_FX_REDUCE && (n->op == MD_FX_R_MAX || n->op == MD_FX_R_MIN));
    if (n->kind == MD_FX_LOAD)
        return w->program->formula->tensor[n->id].dtype == MD_BF16;
    if (n->kind == MD_FX_CONST) {
        const double value = md_dtype_is_real(n->type) ? n->num : (double)n->integer;
        md_dtype_store(MD_BF16, &stored, 0, value);
        return md_dtype_load(MD_BF16, &stored, 0) == value;
    }
    for (int32_t i = 0; n->kind == MD_FX_OP && i < MD_COUNT(choosing); i++)
        is = is || n->op == choosing[i];
    for (int32_t i = n->kind == MD_FX_OP && n->op == MD_FX_WHERE; is && i < n->n_args; i++)
        is = is_exact(w, n->arg[i]);
    return is;
}

static bool are_exact(const writer *w)
{
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        if (!is_exact(w, w->stage->store[i].value))
            return false;
    return true;
}

static md_status assemble(md_kn_launch_source *launch, writer *w)
{
    const int32_t *v = w->config->value;
    const md_fa_define define[] = {{"ACROSS", v[LANES]}, {"STEPS", v[STEPS]}, {"THREADS", v[THREADS]}, {"COUNTS_SHORT", w->most > 0}};
    md_strbuf defines = {0};
    md_cg_print_params(&w->text, launch->param, launch->n_params);
    if (w->most > 0)
        md_cg_print_short_params(&w->text, launch->param, launch->n_params);
    md_strbuf_add(&w->text, w->most > 0 ? SHORT : LONG);
    print_places(w);
    print_cell(w);
    print_compute(w);
    if (w->most > 0)
        md_strbuf_add(&w->text, "#undef int64_t\n#undef uint64_t\n");
    print_put(w);
    md_fa_print_defines(&defines, define, MD_COUNT(define));
    md_cg_print_uses(w->cg, &defines);
    return md_fa_end_launch(md_cg_status(w->cg), launch, MD_DEV_CUDA, "cuda/cells.cu", &defines, &w->text);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    writer w = {.target = target,
                .program = target->program,
                .stage = md_fa_stage(target),
                .config = config,
                .form = form_of(target, config)};
    const md_cg_options options = {.program = target->program,
                                   .stage = target->stage,
                                   .dialect = MD_DEV_CUDA,
                                   .lane = -1,
                                   .access = MD_CG_STRIDED,
                                   .n_grouped = 1,
                                   .grouped = -1,
                                   .is_cells = true,
                                   .is_exact = are_exact(&w),
                                   .step = w.form.step,
                                   .unit = config->value[STRIDED] ? 0 : loaded(w.stage)};
    w.most = narrow_size(target);
    *out = (md_kn_source){.n_launches = 1};
    MD_TRY(md_fa_begin_launch(&out->launch[0], target));
    w.cg = md_cg_create(&options);
    md_status status = w.cg ? assemble(&out->launch[0], &w) : md_fail_memory();
    md_cg_destroy(&w.cg);
    md_strbuf_finish(&w.text);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    if (md_fa_stage(target)->kind == MD_ST_POINTWISE)
        return md_fa_class_sweep(target, config);
    return (md_fa_class){.group = "cells", .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_cuda_cells = {
    .name = "cells",
    .device = MD_DEV_CUDA,
    .n_fields = 5,
    .field = {{"lanes", 4, 4, {4, 2, 8, 1}},
              {"steps", 4, 5, {4, 2, 8, 1, 3}},
              {"plane", 2, 3, {2, 3, 1}},
              {"threads", 256, 2, {256, 128}},
              {"strided", 0, 2, {0, 1}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
