/* Prints the text of elementwise stages on a GPU: md_expr.h of kernels/cuda/pointwise.cu. Also their geometry and
 * envelope. */
#include "family/emit.h"
#include "family/cuda/point/point.h"

#include "base/status.h"
#include "family/cost.h"
#include "family/cuda/cuda.h"

#include <inttypes.h>

/* ---- Shape */

static int32_t merged(const md_fa_target *target, bool is_flat, int32_t flat[MD_MAX_RANK * 2], uint32_t *tensors)
{
    *tensors = 0;
    return is_flat ? md_cg_flat(flat, tensors, target->program, target->stage) : 1;
}

bool md_fa_cuda_point_can_flatten(const md_fa_target *target)
{
    int32_t flat[MD_MAX_RANK * 2];
    uint32_t tensors = 0;
    return merged(target, true, flat, &tensors) > 1;
}

/* The number of rows of the outer loop, and of vectors of each. */
static void count(int64_t *rows, int64_t *per_row, const md_fa_target *target, const md_fa_cuda_point *point,
                  const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int32_t flat[MD_MAX_RANK * 2];
    uint32_t tensors = 0;
    int32_t n = merged(target, point->is_flat, flat, &tensors) - 1,
            width = md_fa_cuda_width(target->program, target->stage);
    int64_t lanes = st->axis >= 0 ? md_st_size(target->program, st->axis, size) : 1;
    lanes *= md_st_points(target->program, n, st->outer + st->n_outer - n, size);
    *per_row = (lanes + width - 1) / width;
    *rows = md_st_points(target->program, st->n_outer - n, st->outer, size);
}

/* Functions of 16-bit elements take as much issue time as memory accesses. */
bool md_fa_cuda_point_is_busy(const md_fa_target *target)
{
    md_fa_host_work work;
    if (md_fa_cuda_width(target->program, target->stage) <= 4)
        return false;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    return work.transcendental > 0;
}

/* Blocks are placed in rows if they fill them: then no thread has to divide. Busy blocks take two rows, so that indices
 * are computed half as often (bias and gelu of bf16: 2.5%; four rows gain nothing more). */
void md_fa_cuda_point_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_cuda_point *point,
                               const int64_t *size)
{
    const int64_t block = (int64_t)point->threads * point->unroll, most_rows = 65535;
    int64_t rows = 0, per_row = 0;
    *out = (md_kn_geometries){0};
    count(&rows, &per_row, target, point, size);
    md_kn_geometry *launch = &out->launch[0];
    int64_t chunks = (per_row + block - 1) / block;
    bool in_rows = rows > 1 && chunks * block <= per_row + per_row / 10;
    launch->grain = 1;
    int64_t across = in_rows ? chunks : (rows * per_row + block - 1) / block;
    launch->grid[0] = md_fa_cuda_grid(across);
    if (in_rows && chunks * rows >= 32 * (int64_t)target->facts->threads && md_fa_cuda_point_is_busy(target))
        rows = (rows + 1) / 2;
    launch->grid[1] = (int32_t)(in_rows ? MD_MIN(rows, most_rows) : 1);
    launch->blocks = across * launch->grid[1];
    launch->grid[2] = launch->block[1] = launch->block[2] = 1;
    launch->block[0] = point->threads;
}

void md_fa_cuda_point_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_cuda_point *point)
{
    int32_t flat[MD_MAX_RANK * 2];
    *out = (md_kn_envelope){0};
    merged(target, point->is_flat, flat, &out->contiguous);
    if (!point->is_strided)
        out->unit = md_cg_unit_tensors(target->program, target->stage, md_fa_stage(target)->axis) & ~out->contiguous;
}

/* ---- Reads at computed places */

/* A subscript that is computed, but not from memory. */
static bool is_moved(const md_fx_node *subscript)
{
    const md_fx_node *n = subscript->kind == MD_FX_CHECK ? subscript->arg[0] : subscript;
    return n->kind == MD_FX_OP && !md_fx_has_kind(n, MD_FX_LOAD);
}

/* What is known of moved reads: the longest step along the last axis; how many there are, and how many are the same for
 * neighbours. */
typedef struct moved {
    int32_t most, n, n_halved;
} moved;

typedef struct steps {
    const md_fx_formula *formula;
    int32_t lane;
    moved moved;
} steps;

/* Made of the lanes' index only where it is divided. */
static bool divides_lane(const md_fx_node *n, int32_t lane)
{
    if (n->kind == MD_FX_OP && n->op == MD_FX_FLOORDIV && n->arg[1]->kind == MD_FX_CONST && n->arg[1]->integer > 1)
        return true;
    if (md_fx_is_index(n, lane) || n->kind == MD_FX_LOAD)
        return false;
    for (int32_t i = 0; i < n->n_args; i++)
        if (!divides_lane(n->arg[i], lane))
            return false;
    return true;
}

/* The lanes' index moves the last subscript alone, and not with each lane. */
static bool is_halved(const md_fx_node *load, int32_t lane)
{
    const int32_t last = load->n_args - 1;
    for (int32_t i = 0; i < last; i++)
        if (md_fx_uses_index(load->arg[i], lane))
            return false;
    return last >= 0 && md_fx_uses_index(load->arg[last], lane) && divides_lane(load->arg[last], lane);
}

static bool note_read(void *user, const md_fx_node *n)
{
    steps *s = user;
    s->moved.n += n->kind == MD_FX_LOAD;
    s->moved.n_halved += n->kind == MD_FX_LOAD && is_halved(n, s->lane);
    for (int32_t i = 0; n->kind == MD_FX_LOAD && i < n->n_args; i++) {
        md_fx_affine a;
        if (!is_moved(n->arg[i]))
            continue;
        s->moved.most = MD_MAX(s->moved.most, 1);
        if (i < n->n_args - 1 || !md_fx_affine_of(&a, s->formula, n->arg[i]))
            continue;
        for (int32_t k = 0; k < a.n; k++)
            if (a.index[k] == s->lane && a.coef[k] > s->moved.most)
                s->moved.most = (int32_t)MD_MIN(a.coef[k], 64);
    }
    return true;
}

static void make_moved(void *result, const md_st_program *program, int32_t stage, const void *user)
{
    (void)user;
    const md_st_stage *st = &program->stage[stage];
    steps s = {.formula = program->formula, .lane = st->axis};
    md_cg_visit(st, note_read, &s);
    *(moved *)result = s.moved;
}

static moved moved_of(const md_fa_target *target)
{
    moved m = {0};
    md_st_know(&m, target->program, target->stage,
               &(md_st_fact){.which = MD_ST_KNOWN_MOVED, .n_bytes = sizeof m, .make = make_moved});
    return m;
}

int32_t md_fa_cuda_moved_reads(const md_fa_target *target)
{
    return moved_of(target).most;
}

bool md_fa_cuda_halved_reads(const md_fa_target *target)
{
    const moved m = moved_of(target);
    return m.n > 0 && m.n == m.n_halved;
}

/* ---- Parts of texts */

void md_fa_cuda_print_count(md_strbuf *out, const char *name, const md_st_program *program, int32_t n,
                            const int32_t *index)
{
    md_strbuf_printf(out, "MD_INLINE int64_t %s(const md_params *p)\n{\nreturn ", name);
    md_cg_print_points(out, program, n, index);
    md_strbuf_add(out, ";\n}\n");
}

void md_fa_cuda_print_decode(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *index,
                             const char *point)
{
    char size[32];
    for (int32_t i = n - 1; i > 0; i--) {
        md_cg_size(size, program, index[i]);
        md_strbuf_printf(out,
                         "const int64_t q%" PRId32 " = (int64_t)((uint64_t)%s / (uint64_t)%s), x%" PRId32
                         " = %s - q%" PRId32 " * %s;\n",
                         index[i], point, size, index[i], point, index[i], size);
        md_strbuf_printf(out, "%s = q%" PRId32 ";\n", point, index[i]);
    }
    if (n > 0)
        md_strbuf_printf(out, "const int64_t x%" PRId32 " = %s;\n", index[0], point);
}

void md_fa_cuda_print_aligned(md_strbuf *out, const md_st_program *program, uint32_t tensors, int32_t n_flat)
{
    md_strbuf_add(out, "MD_INLINE bool md_has_vectors(const md_params *p)\n{\nuint64_t any = 0;\n");
    for (int32_t t = 0; t < program->formula->n_tensors; t++) {
        const md_fx_tensor *tensor = &program->formula->tensor[t];
        if (!(tensors >> t & 1))
            continue;
        md_strbuf_printf(out, "any |= (uint64_t)p->t%" PRId32, t);
        for (int32_t a = 0; a < tensor->rank - n_flat; a++)
            md_strbuf_printf(out, " | (uint64_t)p->s%" PRId32 "_%" PRId32 " * %zu", t, a, md_dtype_size(tensor->dtype));
        md_strbuf_add(out, ";\n");
    }
    md_strbuf_add(out, "return any % 16 == 0;\n}\n");
}

/* ---- Text */

typedef struct writer {
    const md_fa_target *target;
    const md_fa_cuda_point *point;
    const md_st_stage *stage;
    const md_st_program *program;
    int32_t n_flat, n_outer; /* indices merged into the lane axis, itself included; the others */
    uint32_t vectors; /* tensors that are read or written in vectors */
    md_strbuf expr;
    md_cg *cg;
    int32_t n_loads;
    const md_fx_node *load[MD_CG_MAX_FETCHED];
    bool is_uniform[MD_CG_MAX_FETCHED];
} writer;

/* Prints struct md_at, the indices of a vector, and md_find. */
static void print_indices(writer *w)
{
    md_strbuf *out = &w->expr;
    md_strbuf_add(out, "struct md_at {\nint64_t lane;\n");
    for (int32_t i = 0; i < w->n_outer; i++)
        md_strbuf_printf(out, "int64_t x%" PRId32 ";\n", w->stage->outer[i]);
    md_strbuf_add(out, "};\nMD_INLINE md_at md_find(const md_params *p, int64_t point, int64_t lane)\n{\nmd_at "
                       "at;\nat.lane = lane;\n");
    md_fa_cuda_print_decode(out, w->program, w->n_outer, w->stage->outer, "point");
    for (int32_t i = 0; i < w->n_outer; i++)
        md_strbuf_printf(out, "at.x%" PRId32 " = x%" PRId32 ";\n", w->stage->outer[i], w->stage->outer[i]);
    md_strbuf_add(out, "return at;\n}\n");
}

static void print_names(writer *w)
{
    for (int32_t i = 0; i < w->n_outer; i++)
        md_strbuf_printf(&w->expr, "const int64_t x%" PRId32 " = at.x%" PRId32 ";\n", w->stage->outer[i],
                         w->stage->outer[i]);
    if (w->stage->axis >= 0)
        md_strbuf_printf(&w->expr, "const int64_t x%" PRId32 " = at.lane;\n", w->stage->axis);
}

static void print_fetch(writer *w)
{
    md_strbuf fields = {0}, body = {0};
    md_cg_begin(w->cg, &body);
    for (int32_t i = 0; i < w->n_loads; i++) {
        const char *type = NULL, *text = md_cg_fetch(w->cg, w->load[i], &type, &w->is_uniform[i]);
        if (!text)
            break;
        md_strbuf_printf(&fields, "%s l%" PRId32 ";\n", type, i);
        md_strbuf_printf(&body, "elem->l%" PRId32 " = %s;\n", i, text);
    }
    md_strbuf_printf(&w->expr, "struct md_elem {\n%s};\n", md_strbuf_text(&fields));
    md_strbuf_add(
        &w->expr,
        "MD_N_DECL MD_INLINE void md_fetch(const md_params *p, const md_at &at, md_elem *elem, md_n_t md_n)\n{\n");
    print_names(w);
    md_strbuf_printf(&w->expr, "%s}\n", md_strbuf_text(&body));
    w->expr.failed |= fields.failed || body.failed;
    md_strbuf_finish(&fields);
    md_strbuf_finish(&body);
}

static void bind_loads(writer *w)
{
    char name[16];
    for (int32_t i = 0; i < w->n_loads; i++) {
        const md_fx_node *load = w->load[i];
        snprintf(name, sizeof name, "w%" PRId32, i);
        if (w->is_uniform[i])
            md_strbuf_printf(&w->expr, "const %s %s = elem->l%" PRId32 ";\n", md_cg_scalar_type(load->type), name, i);
        else
            md_strbuf_printf(&w->expr, "const %s %s = md_unpack_%s(elem->l%" PRId32 ");\n", md_cg_lane_type(load->type),
                             name, md_dtype_name(w->program->formula->tensor[load->id].dtype), i);
        md_cg_bind(w->cg, load, name, w->is_uniform[i]);
    }
}

static void print_out(writer *w)
{
    const char *value[MD_ST_MAX_STORES] = {NULL};
    bool is_uniform[MD_ST_MAX_STORES] = {false};
    md_strbuf_add(
        &w->expr,
        "MD_N_DECL MD_INLINE void md_out(const md_params *p, const md_at &at, const md_elem *elem, md_n_t md_n)\n{\n");
    print_names(w);
    md_cg_begin(w->cg, &w->expr);
    bind_loads(w);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        value[i] = md_cg_value(w->cg, w->stage->store[i].value, &is_uniform[i]);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        md_cg_store(w->cg, &w->stage->store[i], value[i], is_uniform[i]);
    md_strbuf_add(&w->expr, "}\n");
}

static void print_lead(writer *w)
{
    md_strbuf body = {0}, value = {0};
    md_cg_begin(w->cg, &body);
    md_cg_print_lead(w->cg, &w->stage->store[0], &value);
    md_strbuf_add(&w->expr, "MD_INLINE int64_t md_lead(const md_params *p, md_at at)\n{\nat.lane = 0;\n");
    print_names(w);
    md_strbuf_printf(&w->expr, "%sreturn %s;\n}\n", md_strbuf_text(&body), md_strbuf_text(&value));
    w->expr.failed |= body.failed || value.failed;
    md_strbuf_finish(&body);
    md_strbuf_finish(&value);
}

static void print_all(writer *w)
{
    int32_t lanes[MD_MAX_RANK * 2 + 1], n = 0;
    for (int32_t i = w->n_outer; i < w->stage->n_outer; i++)
        lanes[n++] = w->stage->outer[i];
    if (w->stage->axis >= 0)
        lanes[n++] = w->stage->axis;
    md_fa_cuda_print_count(&w->expr, "md_points", w->program, w->n_outer, w->stage->outer);
    md_fa_cuda_print_count(&w->expr, "md_lanes", w->program, n, lanes);
    md_fa_cuda_print_aligned(&w->expr, w->program, w->vectors, w->n_flat);
    print_indices(w);
    print_lead(w);
    print_fetch(w);
    print_out(w);
}

/* True if the compiler must be told that one block on an SM is enough. Otherwise ptxas limits registers so that many
 * threads can run (39 for a bias and gelu with two vectors a thread, where it takes 78 if allowed), and spills. */
static bool is_heavy(const writer *w)
{
    return w->n_loads * w->point->unroll > 4 || w->n_loads > 3 || md_fa_cuda_width(w->program, w->target->stage) <= 2;
}

static void print_defines(md_strbuf *out, const writer *w)
{
    const md_fa_cuda_point *o = w->point;
    md_strbuf_printf(out,
                     "#define MD_VL %" PRId32 "\n#define MD_THREADS %" PRId32 "\n#define MD_UNROLL_BY %" PRId32
                     "\n#define MD_ONE_ROW %d\n",
                     md_fa_cuda_width(w->program, w->target->stage), o->threads, o->unroll, w->n_outer == 0);
    md_strbuf_add(out, is_heavy(w) ? "#define MD_BOUNDS MD_THREADS, 1\n" : "#define MD_BOUNDS MD_THREADS\n");
    if (o->is_strided && o->unroll == 1)
        /* for the kernel that takes any strides: one must always build */
        md_strbuf_add(out, "#define MD_ALLOW_STACK 1\n");
    if (!w->stage->has_duplicates)
        md_strbuf_add(out, "#define MD_UPDATE_PLAIN 1\n");
    md_cg_print_uses(w->cg, out);
}

static md_status assemble(md_kn_launch_source *launch, writer *w)
{
    md_strbuf defines = {0};
    md_cg_print_params(&w->expr, launch->param, launch->n_params);
    print_all(w);
    print_defines(&defines, w); /* after printing, when the functions in use are known */
    return md_fa_end_launch(md_cg_status(w->cg), launch, MD_DEV_CUDA, w->point->source, &defines, &w->expr);
}

md_status md_fa_cuda_point_emit(md_kn_source *out, const md_fa_target *target, const md_fa_cuda_point *point)
{
    writer w = {.target = target, .point = point, .stage = md_fa_stage(target), .program = target->program};
    md_cg_options options = {.program = target->program,
                             .stage = target->stage,
                             .dialect = MD_DEV_CUDA,
                             .lane = w.stage->axis,
                             .access = point->is_strided ? MD_CG_STRIDED : MD_CG_UNIT};
    w.n_flat = merged(target, point->is_flat, options.flat, &w.vectors);
    options.n_flat = w.n_flat;
    w.n_outer = w.stage->n_outer - (w.n_flat - 1);
    if (!point->is_strided)
        w.vectors |= md_cg_unit_tensors(target->program, target->stage, w.stage->axis);
    w.n_loads = md_cg_fetchable(w.load, target->program, target->stage);
    w.cg = md_cg_create(&options);
    if (!w.cg)
        return md_fail_memory();
    *out = (md_kn_source){.n_launches = 1};
    md_kn_launch_source *launch = &out->launch[0];
    md_status status = md_fa_begin_launch(launch, target);
    if (status == MD_OK)
        status = assemble(launch, &w);
    md_cg_destroy(&w.cg);
    md_strbuf_finish(&w.expr);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}
