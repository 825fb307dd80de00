/* Subscripts that read memory, and CHECKs, are checked in the kernel: reported, clamped, or made to read nothing.
 * Lengths are reported. */
#include "codegen/expression/printer.h"

#include <inttypes.h>

/* The length of an axis. A plain axis has its dim's size; one that is only reached by other subscripts is as long as
 * the tensor says. */
const char *md_cg_extent(md_cg *cg, int32_t tensor, int32_t axis)
{
    const md_fx_tensor *t = &cg->formula->tensor[tensor];
    int64_t size = cg->formula->dim[t->dim[axis]].size;
    if (t->at_least[axis])
        return md_cg_format(cg, "p->e%" PRId32 "_%" PRId32, tensor, axis);
    return size >= 0 ? md_cg_format(cg, "INT64_C(%" PRId64 ")", size) : md_cg_format(cg, "p->n%" PRId32, t->dim[axis]);
}

static bool is_foreign(void *user, const md_fx_node *n)
{
    const md_fx_formula *formula = user;
    bool unknown = n->kind == MD_FX_SIZE || n->kind == MD_FX_REF || n->kind == MD_FX_COUNT;
    return !(unknown || (n->kind == MD_FX_INDEX && n->id >= formula->n_indices));
}

/* True if the subscript's values lie inside whatever the sizes are. */
static bool is_inside(const md_cg *cg, int32_t tensor, int32_t axis, const md_fx_node *subscript)
{
    const md_fx_formula *f = cg->formula;
    int64_t extent = f->dim[f->tensor[tensor].dim[axis]].size, size[MD_FX_MAX_DIMS], lo = 0, hi = 0;
    if (extent < 0 || f->tensor[tensor].at_least[axis] || !md_fx_visit(subscript, is_foreign, (void *)(uintptr_t)f))
        return false;
    for (int32_t i = 0; i < f->n_dims; i++)
        size[i] = f->dim[i].size >= 0 ? f->dim[i].size : INT64_C(1) << 40;
    return md_fx_range(&lo, &hi, f, size, &(md_fx_reach){.subscript = subscript}) &&
           (lo > hi || (lo >= 0 && hi < extent));
}

static void also(const char **all, md_cg *cg, const char *one)
{
    *all = *all ? md_cg_format(cg, "%s & %s", *all, one) : one;
}

/* Prints a report of a value that `is_bad`: a condition of C. */
static void report_uniform(md_cg *cg, bool hoisted, const char *is_bad, const int32_t at[2], const char *value)
{
    const char *wanted = cg->mask ? md_cg_format(cg, " && md_any_b(md_head_b(md_n) & %s)", cg->mask) : "";
    if (wanted)
        md_strbuf_printf(md_cg_sink(cg, hoisted), "if (%s%s) md_report(p->report, %" PRId32 ", %" PRId32 ", %s);\n",
                         is_bad, wanted, at[0], at[1], value);
}

static void report_lanes(md_cg *cg, const char *are_good, const int32_t at[2], const char *values)
{
    const char *bad =
        md_cg_format(cg, "md_head_b(md_n)%s%s & ~%s", cg->mask ? " & " : "", cg->mask ? cg->mask : "", are_good);
    if (bad)
        md_strbuf_printf(md_cg_sink(cg, false),
                         "if (md_any_b(%s)) md_report_lanes(p->report, %" PRId32 ", %" PRId32 ", %s, %s);\n", bad,
                         at[0], at[1], values, bad);
}

/* A subscript that lanes share. */
static md_cg_name check_uniform(md_cg_place *out, md_cg *cg, const int32_t at[2], const char *extent, md_cg_name index)
{
    bool hoisted = md_cg_can_hoist(cg, true, true), clamps = cg->formula->bounds == MD_BOUNDS_CLAMP;
    const char *test =
        clamps ? md_cg_format(cg, "%s > 0", extent) : md_cg_format(cg, "md_inside_si(%s, %s)", index.text, extent);
    const char *inside = md_cg_share(cg, "int", test, hoisted);
    if (!inside)
        return index;
    also(&out->condition, cg, inside);
    if (clamps) {
        const char *clamped = md_cg_format(cg, "md_clamp_si(%s, 0, %s - 1)", index.text, extent);
        index.text = md_cg_share(cg, "int64_t", clamped, hoisted);
    } else if (cg->formula->bounds == MD_BOUNDS_REPORT) {
        report_uniform(cg, hoisted, md_cg_format(cg, "!%s", inside), at, index.text);
    }
    return index;
}

/* Checks a subscript that differs from lane to lane. */
static md_cg_name check_lanes(md_cg_place *out, md_cg *cg, const int32_t at[2], const char *extent, md_cg_name index)
{
    bool clamps = cg->formula->bounds == MD_BOUNDS_CLAMP;
    if (clamps) {
        const char *clamped = md_cg_format(cg, "md_clamp_i(%s, md_splat_i(0), md_splat_i(%s - 1))", index.text, extent);
        const char *any = md_cg_share(cg, "int", md_cg_format(cg, "%s > 0", extent), md_cg_can_hoist(cg, true, false));
        also(&out->condition, cg, any);
        return md_cg_declare(cg, "md_i", false, false, clamped);
    }
    md_cg_name inside =
        md_cg_declare(cg, "md_b", false, false, md_cg_format(cg, "md_inside_i(%s, %s)", index.text, extent));
    also(&out->mask, cg, inside.text);
    if (cg->formula->bounds == MD_BOUNDS_REPORT && cg->status == MD_OK)
        report_lanes(cg, inside.text, at, index.text);
    return index;
}

/* Along an empty dim no element asks for the length, but a chain may. */
md_cg_name md_cg_length(md_cg *cg, md_cg_value_number *v)
{
    const md_fx_node *node = v->node;
    if (cg->o.ignores_lengths)
        return md_cg_eval(cg, node->arg[0]);
    const int64_t size = cg->formula->dim[node->id].size;
    const char *limit =
        size >= 0 ? md_cg_format(cg, "INT64_C(%" PRId64 ")", size) : md_cg_format(cg, "p->n%" PRId32, node->id);
    const int32_t at[2] = {node->arg[0]->id, md_fx_length_axis(node->id)};
    md_cg_name length = md_cg_eval(cg, node->arg[0]);
    if (!length.text || !limit)
        return (md_cg_name){NULL, true};
    const bool is_hoisted = md_cg_can_hoist(cg, length.is_uniform, true);
    if (length.is_uniform)
        report_uniform(cg, is_hoisted, md_cg_format(cg, "%s > %s && %s > 0", length.text, limit, limit), at,
                       length.text);
    else
        report_lanes(cg, md_cg_format(cg, "md_le_i(%s, md_splat_i(%s))", length.text, limit), at, length.text);
    md_cg_know(cg, v, length, is_hoisted); /* so it is reported once */
    return length;
}

/* Adds the condition that this block owns the place: all blocks compute the index, and one of them stores. */
static void check_owner(md_cg_place *out, md_cg *cg, md_cg_name index)
{
    if (!index.text)
        return;
    if (index.is_uniform)
        also(&out->condition, cg,
             md_cg_share(cg, "int", md_cg_format(cg, "md_inside_si(%s - own, n_own)", index.text),
                         md_cg_can_hoist(cg, true, true)));
    else
        also(&out->mask, cg,
             md_cg_declare(cg, "md_b", false, false,
                           md_cg_format(cg, "md_inside_i(%s - md_splat_i(own), n_own)", index.text))
                 .text);
}

static bool is_checked(md_cg *cg, int32_t tensor, int32_t axis, const md_fx_node *subscript)
{
    return md_fx_is_checked(subscript) && !is_inside(cg, tensor, axis, subscript);
}

md_cg_name md_cg_check(md_cg_place *out, md_cg *cg, int32_t tensor, int32_t axis, const md_fx_node *subscript)
{
    bool decides = cg->wants_owner && md_fx_has_kind(subscript, MD_FX_LOAD);
    if (decides)
        cg->wants_owner = false; /* loads inside of this subscript decide nothing about the owner */
    md_cg_name index = md_cg_eval(cg, subscript);
    if (index.text && is_checked(cg, tensor, axis, subscript)) {
        const char *extent = md_cg_extent(cg, tensor, axis);
        const int32_t at[2] = {tensor, axis};
        if (!extent)
            return (md_cg_name){NULL, true};
        index = index.is_uniform ? check_uniform(out, cg, at, extent, index) : check_lanes(out, cg, at, extent, index);
    }
    if (decides)
        check_owner(out, cg, index);
    return index;
}
