/* The text of a row program: all its functions on the host, and those that a GPU has in the same form. */
#include "codegen/row/row.h"

#include "base/dtype.h"
#include "base/status.h"
#include "codegen/row/print.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- Levels */

/* Position of a kept value in scratch, in bytes. */
static int64_t keep_offset(const md_cg_row_printer *rp, int32_t i)
{
    md_cg_on_chip before = rp->on_chip;
    before.n_kept = i;
    return md_cg_row_keep_bytes(&before, rp->o->keep_points);
}

static void read_kept(md_cg_row_printer *rp, md_strbuf *out, int32_t pass)
{
    char name[24];
    for (int32_t i = 0; i < rp->on_chip.n_kept; i++) {
        const md_cg_on_chip_value *value = &rp->on_chip.kept[i];
        if (value->first >= pass || value->last < pass)
            continue;
        snprintf(name, sizeof name, "kept%" PRId32, i);
        md_strbuf_printf(out, "const %s %s = md_recall_%s(keep + %" PRId64 ", x%" PRId32 ");\n",
                         md_cg_lane_type(value->node->type), name, md_cg_suffix(value->node->type, false),
                         keep_offset(rp, i), rp->stage->axis);
        md_cg_bind(rp->cg, value->node, name, false);
    }
}

static void write_kept(md_cg_row_printer *rp, md_strbuf *out, int32_t pass)
{
    for (int32_t i = 0; i < rp->on_chip.n_kept; i++) {
        const md_cg_on_chip_value *v = &rp->on_chip.kept[i];
        const char *value = v->first == pass ? md_cg_lanes(rp->cg, v->node) : NULL;
        if (value)
            md_strbuf_printf(out, "md_keep_%s(keep + %" PRId64 ", x%" PRId32 ", %s);\n",
                             md_cg_suffix(v->node->type, false), keep_offset(rp, i), rp->stage->axis, value);
    }
}

static void print_add(md_cg_row_printer *rp, int32_t level)
{
    md_strbuf *out = &rp->text;
    md_strbuf_printf(out,
                     "MD_INLINE void md_add%" PRId32 "(MD_X_DECL const md_params *p, const md_row *row, md_acc%" PRId32
                     " *acc, char *keep, int64_t x%" PRId32 "%s)\n{\n",
                     level, level, rp->stage->axis, rp->o->is_column ? "" : ", int md_n");
    md_cg_rp_begin(rp, out, MD_CG_SCOPE_BODY);
    read_kept(rp, out, level);
    md_cg_rp_bodies(rp, out, level);
    write_kept(rp, out, level);
    md_strbuf_add(out, "}\n");
}

static void print_level(md_cg_row_printer *rp, int32_t level)
{
    md_strbuf *out = &rp->text;
    md_strbuf_add(out, "typedef struct {\n");
    md_cg_rp_each(rp, out, level, md_cg_red_acc_fields);
    md_strbuf_printf(
        out, "} md_acc%" PRId32 ";\nMD_INLINE void md_clear%" PRId32 "(md_acc%" PRId32 " *acc, int64_t first)\n{\n",
        level, level, level);
    md_cg_rp_each(rp, out, level, md_cg_red_clear);
    md_strbuf_add(out, "}\n");
    print_add(rp, level);
    md_strbuf_printf(out,
                     "MD_INLINE void md_join%" PRId32 "(md_acc%" PRId32 " *acc, const md_acc%" PRId32 " *from)\n{\n",
                     level, level, level);
    md_cg_rp_each(rp, out, level, md_cg_red_join);
    md_strbuf_printf(out,
                     "}\nMD_INLINE void md_finish%" PRId32
                     "(MD_X_DECL const md_params *p, md_row *row, const md_acc%" PRId32 " *acc)\n{\n",
                     level, level);
    md_cg_rp_each(rp, out, level, md_cg_red_finish);
    md_strbuf_add(out, "if (row->count == 0)\nreturn;\n");
    md_cg_rp_begin(rp, out, MD_CG_SCOPE_BODY);
    md_cg_rp_derived(rp, out, level);
    md_strbuf_add(out, "}\n");
}

/* The sum of nothing is 0, whatever its shift would be. */
static void print_settle(md_cg_row_printer *rp, const char *type)
{
    md_strbuf *out = &rp->text;
    bool is_rescaled = false;
    for (int32_t i = 0; i < rp->stage->row.n_reductions; i++)
        is_rescaled |= rp->stage->row.reduction[i].merge == MD_ST_MERGE_RESCALED;
    md_strbuf_printf(out, "}\nMD_INLINE void md_settle(%s *row)\n{\n%s", type,
                     is_rescaled ? "if (row->count == 0)\nreturn;\n" : "");
    for (int32_t l = 0; l < rp->stage->row.n_levels; l++)
        md_cg_rp_each(rp, out, l, md_cg_red_settle);
    md_strbuf_add(out, "}\n");
}

static void print_merge(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    if (!rp->o->is_online)
        return;
    const char *type = rp->is_gpu ? "md_state" : "md_row";
    md_strbuf_printf(out,
                     "MD_INLINE void md_merge(%s *into, const %s *from)\n{\nif (from->count == 0)\nreturn;\n"
                     "if (into->count == 0) {\n*into = *from;\nreturn;\n}\n"
                     "const %s old = *into;\ninto->count = old.count + from->count;\n",
                     type, type, type);
    for (int32_t l = 0; l < rp->stage->row.n_levels; l++)
        md_cg_rp_each(rp, out, l, md_cg_red_merge);
    print_settle(rp, type);
}

/* ---- Ranges */

/* Reductions of the host run over the range alone. */
static void narrow(md_cg_row_printer *rp)
{
    if (rp->is_gpu)
        return;
    md_cg_range_of(&rp->range, rp->program, rp->o->stage, rp->o->is_column);
    if (rp->range.n == 0)
        return;
    rp->narrowed = *rp->stage;
    for (int32_t i = 0; i < rp->narrowed.row.n_reductions; i++)
        rp->narrowed.row.reduction[i].body = md_cg_range_body(&rp->range, &rp->stage->row.reduction[i]);
    rp->stage = &rp->narrowed;
}

static void print_bound(md_cg_row_printer *rp, const md_cg_bound *b)
{
    const char *limit = md_cg_value(rp->cg, b->limit, NULL);
    const char *shift = b->shift ? md_cg_value(rp->cg, b->shift, NULL) : NULL;
    if (!limit || (b->shift && !shift))
        return;
    md_strbuf_printf(&rp->text, "md_narrow_%s(from, to, ", md_fx_op_info(b->op)->name);
    if (shift)
        md_strbuf_printf(&rp->text, "md_%s(%s, %s)", b->is_minus ? "beyond" : "before", limit, shift);
    else
        md_strbuf_add(&rp->text, limit);
    md_strbuf_add(&rp->text, ");\n");
}

/* md_range: the elements that count, as far as bounds say. The row is not empty. */
static void print_range(md_cg_row_printer *rp)
{
    if (rp->range.n == 0)
        return;
    md_strbuf_add(
        &rp->text,
        "MD_INLINE void md_range(MD_X_DECL const md_params *p, const md_row *row, int64_t *from, int64_t *to)\n{\n");
    md_cg_rp_begin(rp, &rp->text, MD_CG_SCOPE_START);
    for (int32_t i = 0; i < rp->range.n; i++)
        print_bound(rp, &rp->range.bound[i]);
    md_strbuf_add(&rp->text, "}\n");
}

/* ---- Stores */

static void print_lead(md_cg_row_printer *rp)
{
    md_strbuf body = {0}, lead = {0};
    int32_t i = 0;
    while (i < rp->stage->n_stores && rp->stage->store[i].per_row)
        i++;
    md_cg_rp_begin(rp, &body, MD_CG_SCOPE_STORE);
    if (i < rp->stage->n_stores && !rp->o->is_column)
        md_cg_print_lead(rp->cg, &rp->stage->store[i], &lead);
    else
        md_strbuf_add(&lead, "0");
    md_strbuf_printf(&rp->text,
                     "MD_INLINE int64_t md_lead(MD_X_DECL const md_params *p, int64_t x%" PRId32
                     ")\n{\n%sreturn %s;\n}\n",
                     rp->stage->axis, md_strbuf_text(&body), md_strbuf_text(&lead));
    rp->text.failed |= body.failed || lead.failed;
    md_strbuf_finish(&body);
    md_strbuf_finish(&lead);
}

static void print_prefetch(md_cg_row_printer *rp)
{
    const md_fx_node *body[MD_ST_MAX_REDUCTIONS];
    for (int32_t i = 0; i < rp->stage->row.n_reductions; i++)
        body[i] = rp->stage->row.reduction[i].body;
    md_cg_print_prefetch(&rp->text, rp->cg, rp->stage->row.n_reductions, body,
                         rp->o->is_column ? "md_ask" : "__builtin_prefetch");
}

static void print_out(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    print_lead(rp);
    print_prefetch(rp);
    md_strbuf_printf(
        out,
        "MD_INLINE void md_out(MD_X_DECL const md_params *p, const md_row *row, char *keep, int64_t x%" PRId32
        "%s)\n{\n",
        rp->stage->axis, rp->o->is_column ? "" : ", int md_n");
    md_cg_rp_begin(rp, out, MD_CG_SCOPE_STORE);
    read_kept(rp, out, rp->stage->row.n_levels);
    md_cg_rp_stores(rp, false);
    md_strbuf_add(out, "}\n");
}

static void print_row_store(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    md_strbuf_printf(out, "%sMD_INLINE void md_row_store(MD_X_DECL const md_params *p, const md_row *row)\n{\n",
                     md_cg_rp_function(rp, false));
    md_cg_begin(rp->cg, out); /* derived values are not there where the axis is empty */
    md_cg_rp_bind_results(rp, MD_CG_SCOPE_STORE);
    md_cg_rp_stores(rp, true);
    md_strbuf_add(out, "}\n");
}

/* ---- All together */

static void print_row_struct(md_cg_row_printer *rp, md_strbuf *out)
{
    md_strbuf_add(out, rp->is_gpu ? "struct md_state {\nmd_pos count;\n" : "typedef struct {\nint64_t count;\n");
    for (int32_t i = 0; i < rp->stage->row.n_reductions; i++) {
        md_cg_reduction reduction = md_cg_rp_reduction(rp, i);
        md_cg_red_row_fields(out, &reduction);
    }
    if (rp->is_gpu)
        md_strbuf_printf(out, "};\nstruct md_row : md_state {\n%s", md_cg_rp_has_n(rp) ? "int64_t n;\n" : "");
    md_strbuf_add(out, md_strbuf_text(&rp->fields));
    md_strbuf_add(out, rp->is_gpu ? "};\n" : "} md_row;\n");
}

static void print_functions(md_cg_row_printer *rp)
{
    if (rp->is_gpu)
        md_cg_rp_cuda_elements(rp);
    md_cg_rp_start(rp);
    print_range(rp);
    for (int32_t l = 0; l < rp->stage->row.n_levels; l++)
        (rp->is_gpu ? md_cg_rp_cuda_level : print_level)(rp, l);
    print_merge(rp);
    for (int32_t l = 0; rp->is_gpu && (rp->o->is_online || rp->stage->row.n_levels == 1) && l < rp->stage->row.n_levels;
         l++)
        md_cg_rp_rebase(rp, l);
    if (rp->is_gpu && rp->o->is_online)
        md_cg_rp_rescale(rp);
    md_cg_rp_derive(rp);
    (rp->is_gpu ? md_cg_rp_cuda_out : print_out)(rp);
    print_row_store(rp);
}

/* True if reals are added or multiplied: each such operation rounds, so long chains of them are cut. */
static bool rounds(const md_st_row *row)
{
    for (int32_t i = 0; i < row->n_reductions; i++) {
        const md_st_reduction *r = &row->reduction[i];
        if (md_dtype_is_real(r->type) && (r->op == MD_FX_R_SUM || r->op == MD_FX_R_PROD))
            return true;
    }
    return false;
}

static bool has_near(const md_cg_row_printer *rp)
{
    bool is_near = false;
    for (int32_t i = 0; i < rp->stage->row.n_reductions; i++)
        is_near |= md_cg_rp_reduction(rp, i).is_near;
    return is_near;
}

/* What a column's body loads, if it is a load and no more than a conversion: bits of an element. */
static int32_t bits_of_column(const md_cg_row_printer *rp)
{
    enum { ALONE = 512 }; /* as many as a cache line has */
    const md_fx_node *n = rp->stage->row.reduction[0].body;
    while (n->kind == MD_FX_CAST)
        n = n->arg[0];
    const bool is_short = rp->stage->row.n_reductions == 1 && n->kind == MD_FX_LOAD;
    return is_short ? md_dtype_bits(rp->program->formula->tensor[n->id].dtype) : ALONE;
}

static void print_defines(const md_cg_row_printer *rp, md_strbuf *out)
{
    md_cg_print_uses(rp->cg, out);
    md_strbuf_printf(
        out,
        "#define MD_ONLINE %d\n#define MD_HAS_ELEMENTS %d\n#define MD_NONTEMPORAL %d\n#define MD_PAIRWISE %d\n"
        "#define MD_N_LEVELS %" PRId32 "\n",
        rp->o->is_online, rp->stage->row.has_elements, rp->o->streaming, rounds(&rp->stage->row),
        rp->stage->row.n_levels);
    if (rp->range.n > 0)
        md_strbuf_add(out, "#define MD_RANGED 1\n");
    if (!rp->is_gpu && rp->o->is_column)
        md_strbuf_printf(out, "#define MD_LOAD_BITS %" PRId32 "\n#define MD_HAS_NEAR %d\n", bits_of_column(rp),
                         has_near(rp));
}

static void find_shifts(md_cg_row_printer *rp)
{
    for (int32_t i = 0; rp->o->is_online && i < rp->stage->row.n_reductions; i++)
        if (rp->stage->row.reduction[i].merge == MD_ST_MERGE_RESCALED)
            rp->has_shift[rp->stage->row.reduction[i].shift] = true;
}

static md_status print_all(md_cg_row_printer *rp, md_strbuf *defines, md_strbuf *expr)
{
    md_kn_param params[MD_KN_MAX_PARAMS];
    int32_t n_params = md_cg_params(params, rp->program, rp->o->stage);
    if (n_params < 0)
        return md_fail(MD_UNSUPPORTED, "too many parameters for one kernel");
    for (int32_t i = 0; i < rp->o->n_extra; i++)
        params[n_params++] = rp->o->extra[i];
    md_cg_on_chip_make(&rp->on_chip, rp->o);
    narrow(rp);
    find_shifts(rp);
    print_functions(rp);
    MD_TRY(md_cg_status(rp->cg));
    print_defines(rp, defines);
    md_cg_print_params(expr, params, n_params);
    md_cg_print_row_indices(expr, rp->program, rp->o->stage, rp->o->is_column, rp->o->dialect);
    print_row_struct(rp, expr);
    md_strbuf_add(expr, md_strbuf_text(&rp->text));
    md_strbuf_add(expr, "#define MD_LEVELS(F)");
    for (int32_t l = 0; l < rp->stage->row.n_levels; l++)
        md_strbuf_printf(expr, " F(%" PRId32 ")", l);
    md_strbuf_add(expr, "\n");
    if (rp->is_gpu)
        md_cg_print_gpu_rows(expr, rp->program, rp->o->stage, rp->o->is_column);
    else
        md_cg_print_row_loop(expr, rp->program, rp->o->stage, rp->o->is_column);
    return rp->fields.failed || rp->text.failed || expr->failed || defines->failed ? md_fail_memory() : MD_OK;
}

md_status md_cg_row_print(md_strbuf *defines, md_strbuf *expr, const md_cg_row_options *options)
{
    md_cg_options o = {.program = options->program,
                       .stage = options->stage,
                       .dialect = options->dialect,
                       .lane = md_cg_row_lane(options),
                       .access = options->access,
                       .streaming = options->streaming,
                       .bytes = options->bytes};
    md_cg_row_printer *rp = calloc(1, sizeof *rp);
    if (!rp)
        return md_fail_memory();
    rp->o = options;
    rp->program = options->program;
    rp->stage = &options->program->stage[options->stage];
    rp->is_gpu = options->dialect == MD_DEV_CUDA;
    rp->size = (md_fx_node){.kind = MD_FX_SIZE, .id = rp->program->index[rp->stage->axis].dim, .type = MD_I64};
    rp->cg = md_cg_create(&o);
    md_status status = rp->cg ? print_all(rp, defines, expr) : MD_OUT_OF_MEMORY;
    md_cg_destroy(&rp->cg);
    md_strbuf_finish(&rp->fields);
    md_strbuf_finish(&rp->text);
    free(rp);
    return status;
}
