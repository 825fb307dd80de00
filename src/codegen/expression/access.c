/* Loads and stores: the text that makes them. */
#include "codegen/expression/printer.h"

#include <inttypes.h>

/* ---- Loads */

/* What consecutive elements are called: those of bytes have functions of their own. */
static const char *unit_word(const md_cg *cg)
{
    return cg->o.bytes ? "bytes" : "unit";
}

/* n, or 0 where a uniform subscript is outside. */
static const char *count_text(md_cg *cg, const md_cg_place *at)
{
    if (at->condition && md_cg_is_cuda(cg))
        return md_cg_format(cg, "md_when(%s, md_n)", at->condition);
    return at->condition ? md_cg_format(cg, "(%s) ? md_n : 0", at->condition) : "md_n";
}

static const char *lane_load_text(md_cg *cg, const md_cg_place *at, const char *dtype)
{
    const char *n = count_text(cg, at), *m = at->mask ? "_m" : "", *comma = at->mask ? ", " : "",
               *mask = at->mask ? at->mask : "";
    switch (at->motion) {
    case MD_CG_FIXED:
        break;
    case MD_CG_CONSECUTIVE:
        return md_cg_format(cg, "md_load_%s_%s%s(%s, %s, %s%s%s)", dtype, unit_word(cg),
                            *m ? m : md_cg_unit_suffix(cg, at), at->pointer, at->offset, n, comma, mask);
    case MD_CG_STEPS:
        if (at->is_line || cg->o.is_binned)
            return md_cg_format(cg, "md_load_%s_line_m(%s, %s, %s, %s, %s)", dtype, at->pointer, at->offset, at->stride,
                                n, at->mask ? at->mask : "~(md_b){0}");
        if (at->is_twos && !at->mask && !md_cg_is_cuda(cg))
            return md_cg_format(cg, "md_load_%s_twos(%s, %s, %s, %s)", dtype, at->pointer, at->offset, at->stride, n);
        return md_cg_format(cg, "md_load_%s_strided%s(%s, %s, %s, %s%s%s)", dtype, m, at->pointer, at->offset,
                            at->stride, n, comma, mask);
    case MD_CG_SCATTERED:
        return md_cg_format(cg, "md_load_%s_gather%s(%s, %s, %s%s%s)", dtype, m, at->pointer, at->offset, n, comma,
                            mask);
    }
    return NULL;
}

static const char *scalar_load_text(md_cg *cg, const md_cg_place *at, const char *dtype)
{
    const char *text = md_cg_format(cg, "md_load_%s_s(%s, %s)", dtype, at->pointer, at->offset),
               *condition = at->condition;
    if (at->mask) {
        const char *any = cg->o.is_cells ? at->mask : md_cg_format(cg, "md_any_b(md_head_b(md_n) & %s)", at->mask);
        condition = condition ? md_cg_format(cg, "%s && %s", condition, any) : any;
    }
    return condition ? md_cg_format(cg, "(%s) ? %s : 0", condition, text) : text;
}

/* A merged axis of which the tensor has only the last index. */
static bool is_cyclic_access(const md_cg *cg, int32_t rank, const md_fx_node *const *subscript)
{
    return cg->o.is_cyclic && rank > 0 && md_fx_is_index(subscript[rank - 1], cg->o.lane) &&
           (rank == 1 || !md_fx_is_index(subscript[rank - 2], cg->o.flat[cg->o.n_flat - 2]));
}

/* Loads the period into an array in front of the lanes, and so much of it again that a vector may begin anywhere in it.
 */
static md_cg_name load_cycle(md_cg *cg, md_cg_value_number *v)
{
    const md_fx_node *n = v->node;
    const md_dtype dtype = cg->formula->tensor[n->id].dtype;
    const int32_t last = n->n_args - 1, id = cg->n_names++;
    char size[32];
    const char *first = md_cg_uniform_place(cg, n->id, last, n->arg);
    if (cg->status != MD_OK)
        return (md_cg_name){NULL, true};
    md_cg_size(size, cg->program, cg->o.lane);
    md_strbuf_printf(cg->prologue,
                     "%s cycle%" PRId32 "[MD_CYCLE + MD_VL];\n"
                     "for (int64_t i = 0, k = 0; i < %s + MD_VL - 1; i++, k = k + 1 < %s ? k + 1 : 0)\n"
                     "cycle%" PRId32 "[i] = ((const %s *)p->t%" PRId32 ")[%s + k * p->s%" PRId32 "_%" PRId32 "];\n",
                     md_dtype_c_type(dtype), id, size, size, id, md_dtype_c_type(dtype), n->id, first, n->id, last);
    const md_cg_name name =
        md_cg_declare(cg, md_cg_lane_type(n->type), false, false,
                      md_cg_format(cg, "md_load_%s_unit(cycle%" PRId32 ", phase, md_n)", md_dtype_name(dtype), id));
    md_cg_know(cg, v, name, false);
    return name;
}

/* ---- Memory that the next group reads */

/* True for an index of a loop of the expression. */
static bool is_of_loop(const md_cg *cg, int32_t index)
{
    bool is = index != cg->stage->axis;
    for (int32_t i = 0; i < cg->stage->n_outer; i++)
        is = is && index != cg->stage->outer[i];
    return is;
}

/* How far a load moves from one result of a group to the next; NULL where the points of a loop read each other's rows,
 * which are near already, or where that is not known. */
static const char *group_step(md_cg *cg, const md_fx_node *load)
{
    bool is_apart = false;
    const char *step = NULL;
    for (int32_t a = 0; a < load->n_args; a++) {
        md_fx_affine f;
        bool is_looped = false, is_staged = false;
        if (!md_fx_affine_of(&f, cg->formula, load->arg[a]))
            return NULL;
        for (int32_t i = 0; i < f.n; i++) {
            is_looped |= is_of_loop(cg, f.index[i]);
            is_staged |= !is_of_loop(cg, f.index[i]);
            if (f.index[i] == cg->o.grouped)
                step = md_cg_format(cg, "%" PRId64 " * p->s%" PRId32 "_%" PRId32, f.coef[i], load->id, a);
        }
        is_apart |= is_looped && !is_staged;
    }
    return is_apart ? step : NULL;
}

/* Rows of a sum over tensors, such as fold's, are many streams of short rows, which the processor does not foresee. */
static void ask_ahead(md_cg *cg, const md_fx_node *load, const md_cg_place *at)
{
    if (md_cg_is_cuda(cg) || cg->o.n_grouped == 0 || at->motion != MD_CG_CONSECUTIVE || cg->o.bytes)
        return;
    const char *step = group_step(cg, load), *type = md_dtype_c_type(cg->formula->tensor[load->id].dtype);
    if (step)
        md_strbuf_printf(md_cg_sink(cg, false), "md_ask((const %s *)%s + %s + MD_GROUP * %s);\n", type, at->pointer,
                         at->offset, step);
}

md_cg_name md_cg_load(md_cg *cg, md_cg_value_number *v)
{
    const md_fx_node *n = v->node;
    const char *dtype = md_dtype_name(cg->formula->tensor[n->id].dtype);
    if (is_cyclic_access(cg, n->n_args, n->arg))
        return load_cycle(cg, v);
    bool is_guarded = md_cg_is_guarded(cg, v);
    md_cg_place at;
    md_cg_locate(&at, cg, n->id, n->n_args, n->arg);
    if (cg->status != MD_OK)
        return (md_cg_name){NULL, true};
    if (cg->mask && is_guarded)
        at.mask = at.mask ? md_cg_format(cg, "%s & %s", at.mask, cg->mask) : cg->mask;
    bool is_uniform = at.motion == MD_CG_FIXED, at_root = md_cg_can_hoist(cg, is_uniform, is_guarded);
    const char *text = is_uniform ? scalar_load_text(cg, &at, dtype) : lane_load_text(cg, &at, dtype);
    const char *c_type = md_cg_type_in(cg, n->type, is_uniform);
    ask_ahead(cg, n, &at);
    md_cg_name name = md_cg_declare(cg, c_type, is_uniform, at_root, text);
    md_cg_know(cg, v, name, at_root);
    return name;
}

const char *md_cg_offset(md_cg *cg, const md_fx_node *load, const char **condition)
{
    md_cg_place at;
    md_cg_locate(&at, cg, load->id, load->n_args, load->arg);
    *condition = at.condition;
    return cg->status == MD_OK && at.motion == MD_CG_FIXED ? at.offset : NULL;
}

/* ---- Stores */

/* The value as the store wants it: of the dtype's compute type, with a single rounding ahead. */
static const char *stored_text(md_cg *cg, md_dtype to, md_dtype from, const char *value, bool is_uniform)
{
    const char *s = md_cg_suffix_in(cg, from, is_uniform);
    bool is_real = md_dtype_is_real(to), is_narrow = md_dtype_is_narrow(to) || to == MD_U64;
    if (is_narrow && is_real && (from == MD_F64 || from == MD_I64))
        return md_cg_format(cg, "md_odd_%s_%s(%s)", s, md_cg_suffix(MD_F32, is_uniform), value);
    if (is_narrow && !is_real && md_dtype_is_real(from))
        return md_cg_format(cg, "md_round_%s_%s(%s)", md_dtype_name(to), s, value);
    return md_cg_convert(cg, value, from, md_dtype_compute(to), is_uniform);
}

static const char *verb(md_fx_assign assign)
{
    static const char *const table[] = {[MD_FX_SET] = "store",
                                        [MD_FX_ADD_TO] = "update_add",
                                        [MD_FX_MUL_TO] = "update_mul",
                                        [MD_FX_MAX_TO] = "update_max",
                                        [MD_FX_MIN_TO] = "update_min"};
    return table[assign];
}

static const char *unit_store_suffix(const md_cg *cg, const md_st_store *store, const md_cg_place *at)
{
    const char *shifted = md_cg_unit_suffix(cg, at);
    if (store->assign != MD_FX_SET)
        return "";
    return *shifted ? shifted : cg->o.streaming ? "_nt" : "";
}

static void print_store(md_cg *cg, const md_st_store *store, const md_cg_place *at, const char *value)
{
    const char *dtype = md_dtype_name(cg->formula->tensor[store->tensor].dtype), *v = verb(store->assign);
    md_strbuf *out = md_cg_sink(cg, false);
    if (at->condition)
        md_strbuf_printf(out, "if (%s) ", at->condition);
    const bool is_cut = cg->o.is_exact && cg->formula->tensor[store->tensor].dtype == MD_BF16;
    const char *name = cg->o.is_binned ? "bin" : md_cg_format(cg, "%s_%s", is_cut ? "cut" : v, dtype);
    switch (at->motion) {
    case MD_CG_FIXED:
        md_strbuf_printf(out, "md_%s_s(%s, %s, %s);\n", name, at->pointer, at->offset, value);
        break;
    case MD_CG_CONSECUTIVE:
        md_strbuf_printf(out, "md_%s_%s%s(%s, %s, %s, md_n);\n", name, unit_word(cg), unit_store_suffix(cg, store, at),
                         at->pointer, at->offset, value);
        break;
    case MD_CG_STEPS:
        md_strbuf_printf(out, "md_%s_strided(%s, %s, %s, %s, md_n);\n", name, at->pointer, at->offset, at->stride,
                         value);
        break;
    case MD_CG_SCATTERED:
        md_strbuf_printf(out, "md_%s_scatter(%s, %s, %s, md_n, %s);\n", name, at->pointer, at->offset, value,
                         at->mask            ? at->mask
                         : md_cg_is_cuda(cg) ? "md_splat_b(1)"
                                             : "~(md_b){0}");
        break;
    }
}

void md_cg_store(md_cg *cg, const md_st_store *store, const char *value, bool is_uniform)
{
    md_cg_place at;
    if (cg->status != MD_OK || !value)
        return;
    cg->wants_owner = cg->o.is_owned;
    cg->is_storing = true;
    if (cg->o.is_cells)
        at = (md_cg_place){.motion = MD_CG_FIXED,
                           .pointer = md_cg_format(cg, "r.y%d", (int)(store - cg->stage->store)),
                           .offset = "g"};
    else
        md_cg_locate(&at, cg, store->tensor, store->n_subscripts, store->subscript);
    cg->wants_owner = cg->is_storing = false;
    cg->store_condition = at.condition;
    if (cg->status != MD_OK)
        return;
    md_dtype from = store->value->type, to = cg->formula->tensor[store->tensor].dtype;
    const char *text = stored_text(cg, to, from, value, is_uniform);
    if (at.motion == MD_CG_FIXED && !is_uniform) {
        /* all lanes store to one element: one after the other */
        at.motion = MD_CG_SCATTERED;
        at.offset = md_cg_splat(cg, at.offset, MD_I64);
    } else if (at.motion != MD_CG_FIXED && is_uniform && text) {
        text = md_cg_splat(cg, text, md_dtype_compute(to));
    }
    if (cg->status == MD_OK && text)
        print_store(cg, store, &at, text);
}

void md_cg_print_lead(md_cg *cg, const md_st_store *store, md_strbuf *out)
{
    md_cg_place at;
    md_cg_locate(&at, cg, store->tensor, store->n_subscripts, store->subscript);
    if (cg->status == MD_OK && at.motion == MD_CG_CONSECUTIVE)
        md_strbuf_printf(out, "md_lead_%s%s(%s, %s)", md_dtype_name(cg->formula->tensor[store->tensor].dtype),
                         cg->o.bytes ? "_bytes" : "", at.pointer, at.offset);
    else
        md_strbuf_add(out, "INT64_C(0)");
}

const char *md_cg_store_condition(const md_cg *cg)
{
    return cg->store_condition;
}

const char *md_cg_own_extent(md_cg *cg, const md_st_store *store)
{
    for (int32_t i = 0; i < store->n_subscripts; i++)
        if (md_fx_has_kind(store->subscript[i], MD_FX_LOAD))
            return md_cg_extent(cg, store->tensor, i);
    return NULL;
}
