/* The text of cells: md_expr.h of kernels/cuda/cells.cu. */
#include "family/cuda/point/cells.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/emit.h"

#include <inttypes.h>

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
    md_fa_cells_form form;
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
    const md_fa_cells_form *f = &w->form;
    const int32_t *inner = md_fa_cells_inner(f), last = inner[f->n_inner - 1];
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

/* Of rows: how many there are in a plane, and the next of the points around it. */
static void print_rows(writer *w)
{
    const md_fa_cells_form *f = &w->form;
    char size[32];
    print_number(w, "md_rows", f->n_inner - 1, md_fa_cells_inner(f));
    md_strbuf_add(&w->text, "MD_INLINE void md_next_outer(const md_sizes *p, md_at &at)\n{\n");
    for (int32_t i = f->n_outer - 1; i > 0; i--)
        md_strbuf_printf(&w->text, "if (++at.x%" PRId32 " != %s)\nreturn;\nat.x%" PRId32 " = 0;\n", f->all[i],
                         md_cg_size(size, w->program, f->all[i]), f->all[i]);
    if (f->n_outer > 0)
        md_strbuf_printf(&w->text, "at.x%" PRId32 "++;\n", f->all[0]);
    md_strbuf_add(&w->text, "}\nMD_INLINE uint32_t md_even(const md_sizes *p)\n{\nreturn 0");
    for (int32_t i = 0; i < w->stage->n_stores; i++) {
        const int32_t t = w->stage->store[i].tensor;
        md_strbuf_printf(&w->text,
                         " | (uint32_t)(uintptr_t)p->t%" PRId32 " | md_last(p) * (uint32_t)sizeof(md_t_%s::E)", t,
                         md_dtype_name(w->program->formula->tensor[t].dtype));
    }
    md_strbuf_add(&w->text, ";\n}\n");
}

static bool has_rows(const writer *w)
{
    return w->config->value[MD_FA_CELLS_ROWS];
}

static int32_t last_of(const md_fa_cells_form *f)
{
    return f->all[f->n - 1];
}

/* What a cell's indices are. */
static void print_cell(writer *w)
{
    const md_fa_cells_form *f = &w->form;
    md_strbuf_printf(&w->text, "#define MD_PLACE(g) %s\n#define MD_CELL(g)", has_rows(w) ? "0" : "(g) % MD_ACROSS");
    for (int32_t i = 0; i < f->n; i++)
        if (f->all[i] != f->step)
            md_strbuf_printf(&w->text, " const int64_t x%" PRId32 " = at[MD_PLACE(g)].x%" PRId32 "%s;", f->all[i],
                             f->all[i], has_rows(w) && i == f->n - 1 ? " + (g) % MD_ACROSS" : "");
    if (has_rows(w))
        md_strbuf_printf(&w->text, " const int64_t beside = (g) %% MD_ACROSS, first%" PRId32 " = at[0].x%" PRId32 ";",
                         last_of(f), last_of(f));
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
    static const char *const head[] = {
        "MD_INLINE void md_put(const md_sizes *p, md_count element, uint32_t n, bool whole, int first, "
        "const md_cells &r)\n{\n",
        "template <int PIECE> MD_INLINE void md_put(const md_sizes *p, md_count element, uint32_t skip, int first, "
        "const md_cells &r)\n{\n"};
    static const char *const put[] = {"md_put_cells(p->t%" PRId32 ", element, r.y%" PRId32 " + first, n, whole);\n",
                                      "md_put_pieces<PIECE>(p->t%" PRId32 ", element, r.y%" PRId32
                                      " + first, skip);\n"};
    md_strbuf_add(&w->text, head[has_rows(w)]);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        md_strbuf_printf(&w->text, put[has_rows(w)], w->stage->store[i].tensor, i);
    md_strbuf_add(&w->text, "}\n");
}

/* True if the value is a bf16 before it is rounded: what is read, or chosen from that. */
static bool is_exact(const writer *w, const md_fx_node *n)
{
    static const md_fx_op choosing[] = {MD_FX_WHERE, MD_FX_MIN, MD_FX_MAX, MD_FX_RELU, MD_FX_NEG, MD_FX_ABS};
    uint64_t stored = 0;
    bool is = (n->kind == MD_FX_CAST && (n->to == MD_F32 || n->to == MD_BF16)) ||
              (n->kind == MD_FX_REDUCE && (n->op == MD_FX_R_MAX || n->op == MD_FX_R_MIN));
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
    const md_fa_define define[] = {{"ACROSS", v[MD_FA_CELLS_LANES]},    {"STEPS", v[MD_FA_CELLS_STEPS]},
                                   {"THREADS", v[MD_FA_CELLS_THREADS]}, {"ROWS", has_rows(w)},
                                   {"WHOLE", v[MD_FA_CELLS_WHOLE]},     {"COUNTS_SHORT", w->most > 0}};
    md_strbuf defines = {0};
    md_cg_print_params(&w->text, launch->param, launch->n_params);
    if (w->most > 0)
        md_cg_print_short_params(&w->text, launch->param, launch->n_params);
    md_strbuf_add(&w->text, w->most > 0 ? SHORT : LONG);
    print_places(w);
    if (has_rows(w))
        print_rows(w);
    print_cell(w);
    print_compute(w);
    if (w->most > 0)
        md_strbuf_add(&w->text, "#undef int64_t\n#undef uint64_t\n");
    print_put(w);
    md_fa_print_defines(&defines, define, MD_COUNT(define));
    md_cg_print_uses(w->cg, &defines);
    return md_fa_end_launch(md_cg_status(w->cg), launch, MD_DEV_CUDA, "cuda/cells.cu", &defines, &w->text);
}

md_status md_fa_cells_emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    writer w = {.target = target,
                .program = target->program,
                .stage = md_fa_stage(target),
                .config = config,
                .form = md_fa_cells_form_of(target, config)};
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
                                   .beside = has_rows(&w) ? last_of(&w.form) : -1,
                                   .unit = config->value[MD_FA_CELLS_STRIDED] ? 0 : md_fa_cells_loaded(w.stage)};
    w.most = md_fa_cells_narrow_size(target);
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
