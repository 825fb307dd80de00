/* Results of chunks made relative to results that all chunks share, so that what is left to do is to combine parts:
 * on a GPU threads exchange a level at a time, each step as cheap as the reduction itself, instead of merging whole
 * states pair by pair with an exponential or a division in each. */
#include "codegen/row/print.h"

#include <inttypes.h>

/* Prints md_weight without a branch, so that several of them overlap. */
static void print_weight(md_strbuf *out, md_dtype type, int32_t shift)
{
    md_strbuf_printf(out,
                     "md_exp_%s(own->r%" PRId32 " == common->r%" PRId32 " || own->r%" PRId32
                     " == -%s ? 0 : own->r%" PRId32 " - common->r%" PRId32 ");\n",
                     md_cg_suffix(type, true), shift, shift, shift, type == MD_F64 ? "MD_INF_D" : "MD_INF_F", shift,
                     shift);
}

static void print_rebased(md_strbuf *out, const md_cg_reduction *reduction)
{
    const md_st_reduction *r = reduction->r;
    const char *real = md_cg_scalar_type(r->type), *type = reduction->is_column ? md_cg_lane_type(r->type) : real;
    int32_t id = reduction->id, shift = r->shift;
    if (md_cg_is_arg(r->op)) {
        md_strbuf_printf(out, "part->v%" PRId32 " = own->v%" PRId32 ";\npart->i%" PRId32 " = %s(own->r%" PRId32 ");\n",
                         id, id, id, reduction->is_column ? "md_narrow_index" : "(int32_t)", id);
    } else if (r->merge == MD_ST_MERGE_RESCALED && !reduction->is_column) {
        md_strbuf_printf(out, "part->r%" PRId32 " = own->r%" PRId32 " * ", id, id);
        print_weight(out, r->type, shift);
    } else if (r->merge == MD_ST_MERGE_RESCALED) {
        md_strbuf_printf(
            out, "part->r%" PRId32 " = own->r%" PRId32 " * md_weight_%s(own->r%" PRId32 ", common->r%" PRId32 ");\n",
            id, id, md_cg_suffix(r->type, !reduction->is_column), shift, shift);
    } else if (r->merge == MD_ST_MERGE_CHAN && reduction->is_column) {
        md_strbuf_printf(out,
                         "const %s delta%" PRId32 " = own->r%" PRId32 " / (%s)own->count - common->r%" PRId32
                         " / (%s)common->count;\n",
                         type, id, shift, real, shift, real);
        md_strbuf_printf(
            out, "part->r%" PRId32 " = own->r%" PRId32 " + delta%" PRId32 " * delta%" PRId32 " * (%s)own->count;\n", id,
            id, id, id, real);
    } else if (r->merge == MD_ST_MERGE_CHAN) {
        const char *mean = r->type == MD_F64 ? "" : "__fdividef"; /* An error of 2 ulp in this mean does not matter. */
        const char *by = r->type == MD_F64 ? " / " : ", ";
        md_strbuf_printf(out,
                         "const %s delta%" PRId32 " = %s(own->r%" PRId32 "%s(%s)own->count) - %s(common->r%" PRId32
                         "%s(%s)common->count);\n",
                         type, id, mean, shift, by, real, mean, shift, by, real);
        md_strbuf_printf(out,
                         "part->r%" PRId32 " = own->r%" PRId32 " + (own->count > 0 ? delta%" PRId32 " * delta%" PRId32
                         " * (%s)own->count : (%s)0);\n",
                         id, id, id, id, real, real);
    } else {
        md_strbuf_printf(out, "part->r%" PRId32 " = own->r%" PRId32 ";\n", id, id);
    }
}

/* The instruction that reduces over a warp; NULL where there is none. */
static const char *redux_of(const md_cg_reduction *reduction)
{
    static const struct {
        md_fx_op op;
        const char *name;
    } row[] = {{MD_FX_R_MAX, "max"}, {MD_FX_R_MIN, "min"}, {MD_FX_R_ARGMAX, "max"}, {MD_FX_R_ARGMIN, "min"}};
    for (int32_t i = 0; i < MD_COUNT(row); i++)
        if (row[i].op == reduction->r->op && md_cg_acc_type(reduction->r) == MD_F32)
            return row[i].name;
    return NULL;
}

static void print_across(md_strbuf *out, const md_cg_reduction *reduction)
{
    if (md_cg_is_arg(reduction->r->op))
        md_strbuf_printf(out, " md_redux_arg%s(p.v%" PRId32 ", p.i%" PRId32 ");", redux_of(reduction), reduction->id,
                         reduction->id);
    else
        md_strbuf_printf(out, " md_redux_%s(p.r%" PRId32 ");", redux_of(reduction), reduction->id);
}

static void print_told(md_strbuf *out, const md_cg_reduction *reduction)
{
    int32_t id = reduction->id;
    if (md_cg_is_arg(reduction->r->op))
        md_strbuf_printf(out,
                         "part->v%" PRId32 " = own->v%" PRId32 ";\npart->i%" PRId32 " = (int32_t)own->r%" PRId32 ";\n",
                         id, id, id, id);
    else
        md_strbuf_printf(out, "part->r%" PRId32 " = own->r%" PRId32 ";\n", id, id);
}

static bool has_redux(const md_cg_row_printer *rp, int32_t l)
{
    for (int32_t i = 0; i < rp->stage->row.n_reductions; i++) {
        const md_cg_reduction reduction = {.r = &rp->stage->row.reduction[i], .id = i};
        if (reduction.r->level == l && !redux_of(&reduction))
            return false;
    }
    return true;
}

/* Columns merge chunks that may be empty; rows begin with states that change nothing when combined. */
void md_cg_rp_rebase(md_cg_row_printer *rp, int32_t l)
{
    md_strbuf *out = &rp->text;
    md_strbuf_printf(out,
                     "MD_INLINE void md_rebase%" PRId32 "(md_part%" PRId32
                     " *part, const md_state *own, const md_state *common)\n{\n(void)common;\n",
                     l, l);
    if (rp->o->is_column)
        md_strbuf_printf(out, "if (own->count == 0) {\nmd_clear_part%" PRId32 "(part);\nreturn;\n}\n", l);
    md_cg_rp_each(rp, out, l, print_rebased);
    md_strbuf_printf(out, "}\nMD_INLINE void md_accept%" PRId32 "(md_state *row, const md_part%" PRId32 " *part)\n{\n",
                     l, l);
    md_cg_rp_each(rp, out, l, md_cg_red_accept);
    md_strbuf_add(out, "}\n");
    if (rp->o->is_column)
        return;
    md_strbuf_printf(out, "MD_INLINE void md_tell%" PRId32 "(md_part%" PRId32 " *part, const md_state *own)\n{\n", l,
                     l);
    md_cg_rp_each(rp, out, l, print_told);
    md_strbuf_printf(out, "}\n#define MD_ACROSS%" PRId32 "(p, width)", l);
    if (has_redux(rp, l))
        md_cg_rp_each(rp, out, l, print_across);
    else
        md_strbuf_printf(out, " p = md_mix_warp<md_part%" PRId32 ">(p, width);", l);
    md_strbuf_add(out, "\n");
}

/* Values kept of a chunk are relative to its shift: they are scaled to the row's shift when they are stored. */
void md_cg_rp_rescale(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    md_strbuf_add(out, "MD_INLINE void md_rescale(md_row *row, const md_state *own)\n{\nconst md_state *common = "
                       "row;\n(void)common;\n(void)own;\n");
    for (int32_t i = 0; i < rp->on_chip.n_kept; i++) {
        const md_cg_on_chip_value *value = &rp->on_chip.kept[i];
        if (value->shift < 0)
            continue;
        md_strbuf_printf(&rp->fields, "%s w%" PRId32 ";\n",
                         rp->o->is_column ? md_cg_lane_type(value->node->type) : md_cg_scalar_type(value->node->type),
                         i);
        md_strbuf_printf(out, "row->w%" PRId32 " = ", i);
        if (rp->o->is_column)
            md_strbuf_printf(out, "md_weight_%s(own->r%" PRId32 ", common->r%" PRId32 ");\n",
                             md_cg_suffix(value->node->type, false), value->shift, value->shift);
        else
            print_weight(out, value->node->type, value->shift);
    }
    md_strbuf_add(out, "}\n");
}
