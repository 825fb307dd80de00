/* The parts of a row program's functions that host and GPU texts share: names that a function knows, derived values,
 * the bodies of reductions, stores. */
#include "codegen/row/print.h"

#include "base/dtype.h"
#include "codegen/expression/printer.h"

#include <inttypes.h>
#include <stdio.h>

const char *md_cg_rp_function(const md_cg_row_printer *rp, bool takes_n)
{
    return rp->is_gpu && (takes_n || rp->o->is_column) ? "MD_N_DECL " : "";
}

/* The load that a sum down columns adds up, if it is one of vectors of integers below 32 bits; else NULL. */
static const md_fx_node *near_load(const md_cg_row_printer *rp, const md_st_reduction *r)
{
    const md_fx_node *n = r->body;
    if (n->kind == MD_FX_CAST && n->to == MD_I64)
        n = n->arg[0];
    if (rp->is_gpu || !rp->o->is_column || rp->o->access != MD_CG_UNIT || r->op != MD_FX_R_SUM || r->type != MD_I64 ||
        n->kind != MD_FX_LOAD || n->n_args == 0 || !md_fx_is_index(n->arg[n->n_args - 1], md_cg_row_lane(rp->o)))
        return NULL;
    for (int32_t i = 0; i < n->n_args - 1; i++)
        if (n->arg[i]->kind != MD_FX_INDEX || n->arg[i]->id == md_cg_row_lane(rp->o))
            return NULL;
    const md_dtype dtype = rp->program->formula->tensor[n->id].dtype;
    return !md_dtype_is_real(dtype) && md_dtype_bits(dtype) <= 16 ? n : NULL;
}

md_cg_reduction md_cg_rp_reduction(const md_cg_row_printer *rp, int32_t id)
{
    return (md_cg_reduction){.r = &rp->stage->row.reduction[id],
                             .id = id,
                             .is_column = rp->o->is_column,
                             .is_gpu = rp->is_gpu,
                             .is_bytes = rp->o->bytes != MD_CG_NO_BYTES,
                             .is_near = near_load(rp, &rp->stage->row.reduction[id]) != NULL,
                             .has_shift = rp->has_shift[id]};
}

/* ---- Names that a function body starts with */

static const md_fx_node count_node = {.kind = MD_FX_COUNT, .type = MD_I64};

bool md_cg_rp_has_n(const md_cg_row_printer *rp)
{
    return rp->is_gpu && !rp->o->is_column &&
           rp->program->formula->dim[rp->program->index[rp->stage->axis].dim].size < 0;
}

void md_cg_rp_bind_results(md_cg_row_printer *rp, md_cg_scope_kind s)
{
    char name[24];
    for (int32_t i = 0; s != MD_CG_SCOPE_START && i < rp->stage->row.n_reductions; i++) {
        bool is_shift = s == MD_CG_SCOPE_BODY && rp->has_shift[i];
        snprintf(name, sizeof name, "row->%c%" PRId32, is_shift ? 'e' : 'r', i);
        md_cg_bind_ref(rp->cg, i, rp->stage->row.reduction[i].type, name, !rp->o->is_column);
    }
    bool is_chunk = rp->o->is_online && s == MD_CG_SCOPE_BODY, has_own = md_cg_rp_has_n(rp);
    md_cg_bind(rp->cg, &count_node,
               has_own && !is_chunk ? "row->n"
               : rp->is_gpu         ? "(int64_t)row->count"
                                    : "row->count",
               true);
    if (has_own)
        md_cg_bind(rp->cg, &rp->size, "row->n", true);
}

void md_cg_rp_begin(md_cg_row_printer *rp, md_strbuf *body, md_cg_scope_kind s)
{
    md_cg_begin(rp->cg, body);
    md_cg_rp_bind_results(rp, s);
    for (int32_t i = 0; i < rp->on_chip.n_derived; i++)
        if (rp->is_known[i])
            md_cg_bind(rp->cg, rp->on_chip.derived[i].node, rp->field[i], rp->is_field_uniform[i]);
}

/* ---- Derived values */

static void print_derived(md_cg_row_printer *rp, md_strbuf *body, int32_t i)
{
    const md_cg_derived *d = &rp->on_chip.derived[i];
    bool is_uniform = true;
    const char *value = md_cg_value(rp->cg, d->node, &is_uniform);
    if (!value)
        return;
    if (!rp->field[i]) {
        snprintf(rp->field_text[i], sizeof rp->field_text[i], "row->d%" PRId32, i);
        rp->field[i] = rp->field_text[i];
        rp->is_field_uniform[i] = is_uniform;
        md_strbuf_printf(&rp->fields, "%s d%" PRId32 ";\n",
                         is_uniform ? md_cg_scalar_type(d->node->type) : md_cg_lane_type(d->node->type), i);
    }
    md_strbuf_printf(body, "row->d%" PRId32 " = %s;\n", i, value);
}

typedef bool (*derived_fn)(const md_cg_row_printer *rp, const md_cg_derived *d, int32_t level);

static bool needs_nothing(const md_cg_row_printer *rp, const md_cg_derived *d, int32_t level)
{
    (void)rp, (void)level;
    return d->level < 0 && !d->is_early;
}

static bool is_early(const md_cg_row_printer *rp, const md_cg_derived *d, int32_t level)
{
    (void)rp, (void)level;
    return d->is_early;
}

static bool is_body_of_level(const md_cg_row_printer *rp, const md_cg_derived *d, int32_t level)
{
    (void)rp;
    return d->for_body && d->level == level;
}

/* In a chunk, values for bodies are those of the chunk: stores need their own. */
static bool is_for_stores(const md_cg_row_printer *rp, const md_cg_derived *d, int32_t level)
{
    (void)level;
    return d->for_store && d->level >= 0 && (rp->o->is_online || !d->for_body);
}

static void print_all_derived(md_cg_row_printer *rp, md_strbuf *body, derived_fn wanted, int32_t level)
{
    for (int32_t i = 0; i < rp->on_chip.n_derived; i++)
        if (wanted(rp, &rp->on_chip.derived[i], level))
            print_derived(rp, body, i);
    for (int32_t i = 0; i < rp->on_chip.n_derived; i++)
        rp->is_known[i] |= wanted(rp, &rp->on_chip.derived[i], level) && rp->field[i];
}

/* Where the axis is empty there is nothing to load. Without loads the compiler is spared a branch, across which it
 * would not see equal values. */
static void unless_empty(const md_cg_row_printer *rp, md_strbuf *out, derived_fn wanted, int32_t level)
{
    bool has_loads = false;
    for (int32_t i = 0; i < rp->on_chip.n_derived; i++)
        has_loads |=
            wanted(rp, &rp->on_chip.derived[i], level) && md_fx_has_kind(rp->on_chip.derived[i].node, MD_FX_LOAD);
    if (!rp->is_gpu || rp->o->is_column || has_loads)
        md_strbuf_add(out, "if (row->count == 0)\nreturn;\n");
}

void md_cg_rp_derived(md_cg_row_printer *rp, md_strbuf *out, int32_t level)
{
    if (rp->is_gpu)
        unless_empty(rp, out, is_body_of_level, level);
    print_all_derived(rp, out, is_body_of_level, level);
}

void md_cg_rp_start(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    md_strbuf_printf(out, "%sMD_INLINE void md_start(MD_X_DECL const md_params *p, md_row *row)\n{\n",
                     md_cg_rp_function(rp, false));
    md_strbuf_add(out, "row->count = MD_COUNT(p);\n");
    if (md_cg_rp_has_n(rp))
        md_strbuf_add(out, "row->n = MD_COUNT(p);\n");
    unless_empty(rp, out, needs_nothing, -1);
    md_cg_rp_begin(rp, out, MD_CG_SCOPE_START);
    print_all_derived(rp, out, needs_nothing, -1);
    md_strbuf_add(out, "}\n");
}

/* md_derive_early, and true, if there are such values. A template that does not call it (MD_HAS_EARLY) leaves that to
 * md_derive. */
static bool print_early(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    int32_t n = 0;
    for (int32_t i = 0; i < rp->on_chip.n_derived; i++)
        n += rp->on_chip.derived[i].is_early;
    if (n == 0)
        return false;
    md_strbuf_add(out, "#define MD_HAS_EARLY 1\nMD_INLINE void md_derive_early(MD_X_DECL const md_params *p, md_row "
                       "*row)\n{\n");
    md_cg_rp_begin(rp, out, MD_CG_SCOPE_START);
    print_all_derived(rp, out, is_early, -1);
    for (int32_t i = 0; i < rp->on_chip.n_derived; i++)
        if (rp->on_chip.derived[i].is_early && rp->field[i])
            md_strbuf_printf(out, "asm volatile(\"\" : \"+f\"(%s));\n", rp->field[i]);
    md_strbuf_add(out, "}\n");
    return true;
}

void md_cg_rp_derive(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    const bool has_early = print_early(rp);
    for (int32_t i = 0; rp->o->is_online && i < rp->on_chip.n_derived; i++)
        rp->is_known[i] = rp->on_chip.derived[i].level < 0;
    md_strbuf_printf(out, "%sMD_INLINE void md_derive(MD_X_DECL const md_params *p, md_row *row)\n{\n",
                     md_cg_rp_function(rp, false));
    if (has_early)
        md_strbuf_add(out, "#ifndef MD_CALLS_EARLY\nmd_derive_early(MD_X p, row);\n#endif\n");
    unless_empty(rp, out, is_for_stores, 0);
    md_cg_rp_begin(rp, out, MD_CG_SCOPE_STORE);
    print_all_derived(rp, out, is_for_stores, 0);
    md_strbuf_add(out, "}\n");
}

/* ---- Levels */

void md_cg_rp_each(md_cg_row_printer *rp, md_strbuf *out, int32_t level,
                   void (*print)(md_strbuf *out, const md_cg_reduction *reduction))
{
    for (int32_t i = 0; i < rp->stage->row.n_reductions; i++) {
        md_cg_reduction reduction = md_cg_rp_reduction(rp, i);
        if (reduction.r->level == level)
            print(out, &reduction);
    }
}

/* A sum may be rounded in any way, so its products become fused multiply-adds where that saves an operation. */
static bool adds_product(md_cg_row_printer *rp, md_strbuf *out, const md_cg_reduction *reduction)
{
    const md_fx_node *body = reduction->r->body;
    bool is_product = body->kind == MD_FX_OP && body->op == MD_FX_MUL && body->type == reduction->r->type;
    if (!rp->is_gpu || reduction->r->op != MD_FX_R_SUM || !is_product || (body->type != MD_F32 && body->type != MD_F64))
        return false;
    for (int32_t i = 0; i < rp->on_chip.n_kept; i++)
        if (md_fx_equal(rp->program->formula, rp->on_chip.kept[i].node, body))
            return false; /* the product is computed anyway */
    const char *a = md_cg_lanes(rp->cg, body->arg[0]), *b = md_cg_lanes(rp->cg, body->arg[1]);
    if (a && b)
        md_cg_red_add_product(out, reduction, a, b);
    return true;
}

/* A vector of integers in lanes of 32 bits. */
static const char *near_lanes(md_cg *cg, const md_fx_node *load)
{
    md_cg_place at;
    md_cg_locate(&at, cg, load->id, load->n_args, load->arg);
    return md_cg_format(cg, "md_near_%s(%s, %s, md_n)", md_dtype_name(cg->formula->tensor[load->id].dtype), at.pointer,
                        at.offset);
}

/* What md_add adds, as lanes of the accumulator's type. */
static const char *body_lanes(md_cg_row_printer *rp, const md_cg_reduction *reduction)
{
    const md_st_reduction *r = reduction->r;
    return reduction->is_near
               ? near_lanes(rp->cg, near_load(rp, r))
               : md_cg_convert(rp->cg, md_cg_lanes(rp->cg, r->body), r->body->type, md_cg_acc_type(r), false);
}

void md_cg_rp_bodies(md_cg_row_printer *rp, md_strbuf *out, int32_t level)
{
    for (int32_t i = 0; i < rp->stage->row.n_reductions; i++) {
        md_cg_reduction reduction = md_cg_rp_reduction(rp, i);
        if (reduction.r->level != level || adds_product(rp, out, &reduction))
            continue;
        const char *value = body_lanes(rp, &reduction);
        if (value)
            md_cg_red_add(out, &reduction, value, rp->stage->axis);
    }
}

/* ---- Stores: all values first, then all stores */

void md_cg_rp_stores(md_cg_row_printer *rp, bool per_row)
{
    const char *value[MD_ST_MAX_STORES] = {NULL};
    bool is_uniform[MD_ST_MAX_STORES] = {false};
    for (int32_t i = 0; i < rp->stage->n_stores; i++)
        if (rp->stage->store[i].per_row == per_row)
            value[i] = md_cg_value(rp->cg, rp->stage->store[i].value, &is_uniform[i]);
    for (int32_t i = 0; i < rp->stage->n_stores; i++)
        if (value[i] && md_cg_status(rp->cg) == MD_OK)
            md_cg_store(rp->cg, &rp->stage->store[i], value[i], is_uniform[i]);
}
