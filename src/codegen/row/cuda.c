/* The functions of a row program that differ on a GPU: loads are separate from adding, and threads exchange partial
 * results. */
#include "codegen/expression/printer.h"
#include "codegen/row/print.h"

#include <inttypes.h>

/* The position, and in rows the number of elements: the end of a parameter list. */
static void print_position(md_cg_row_printer *rp, md_strbuf *out)
{
    if (rp->o->is_column)
        md_strbuf_printf(out, "int64_t x%" PRId32 ")\n{\n", rp->stage->axis);
    else
        md_strbuf_printf(out, "int64_t x%" PRId32 ", md_n_t md_n)\n{\n", rp->stage->axis);
}

/* ---- Elements */

static uint32_t all_levels(const md_cg_row_printer *rp)
{
    return (UINT32_C(1) << rp->stage->row.n_levels) - 1;
}

static bool is_epilogue(const md_cg_row_printer *rp, const md_cg_row_load *load)
{
    return load->is_shared && !(load->passes & all_levels(rp));
}

static bool is_scatter(const md_st_store *store)
{
    for (int32_t i = 0; i < store->n_subscripts; i++)
        if (md_fx_has_kind(store->subscript[i], MD_FX_LOAD))
            return true;
    return false;
}

/* The access whose vectors lie on boundaries: the narrowest load or store that each row has for itself; loads first.
 * A load's number, or that of a store after all loads; -1 where there is none. */
static int32_t find_lead(md_cg_row_printer *rp, md_cg_place *best)
{
    size_t least = SIZE_MAX;
    int32_t found = -1;
    for (int32_t i = 0; i < rp->on_chip.n_loads + rp->stage->n_stores && md_cg_status(rp->cg) == MD_OK; i++) {
        bool is_load = i < rp->on_chip.n_loads;
        const md_st_store *store = is_load ? NULL : &rp->stage->store[i - rp->on_chip.n_loads];
        const md_fx_node *load = is_load ? rp->on_chip.load[i].node : NULL;
        if (is_load ? rp->on_chip.load[i].is_shared : store->per_row || is_scatter(store))
            continue;
        int32_t tensor = is_load ? load->id : store->tensor;
        size_t size = md_dtype_size(rp->program->formula->tensor[tensor].dtype);
        md_cg_place at;
        if (size >= least)
            continue;
        md_cg_locate(&at, rp->cg, tensor, is_load ? load->n_args : store->n_subscripts,
                     is_load ? load->arg : store->subscript);
        if (at.motion != MD_CG_CONSECUTIVE)
            continue;
        least = size;
        found = i;
        *best = at;
    }
    return found;
}

/* True if vectors of a row lie where the envelope promises: not shifted along the row. */
static bool is_shifted(const md_fx_node *load)
{
    return load->arg[load->n_args - 1]->kind != MD_FX_INDEX;
}

static void print_one_fetch(md_cg_row_printer *rp, md_strbuf *out, int32_t i, bool is_on_boundary)
{
    const md_fx_node *load = rp->on_chip.load[i].node;
    const char *dtype = md_dtype_name(rp->program->formula->tensor[load->id].dtype);
    md_cg_place at;
    md_cg_locate(&at, rp->cg, load->id, load->n_args, load->arg);
    if (md_cg_status(rp->cg) != MD_OK)
        return;
    if (at.motion == MD_CG_CONSECUTIVE && is_on_boundary)
        md_strbuf_printf(out, "elem->l%" PRId32 " = md_fetch_lead<md_t_%s>(%s, %s, md_n);\n", i, dtype, at.pointer,
                         at.offset);
    else if (at.motion == MD_CG_CONSECUTIVE && rp->on_chip.load[i].is_shared && !rp->o->is_column && !is_shifted(load))
        md_strbuf_printf(out,
                         "#undef MD_SHIFTS\n#define MD_SHIFTS (!MD_ALIGNED)\nelem->l%" PRId32
                         " = md_fetch_shifted<md_t_%s>(%s, %s, md_n);\n",
                         i, dtype, at.pointer, at.offset);
    else if (at.motion == MD_CG_CONSECUTIVE)
        md_strbuf_printf(out, "elem->l%" PRId32 " = md_fetch_%s_unit%s(%s, %s, md_n);\n", i, dtype,
                         is_shifted(load) ? "_any" : "", at.pointer, at.offset);
    else
        md_strbuf_printf(out, "elem->l%" PRId32 " = md_fetch_%s_strided(%s, %s, %s, md_n);\n", i, dtype, at.pointer,
                         at.offset, at.stride);
}

typedef enum fetch_kind { FETCH_EARLY, FETCH_EPILOGUE, FETCH_PASSES } fetch_kind;

static void print_fetch(md_cg_row_printer *rp, const char *name, fetch_kind kind, uint32_t passes)
{
    md_strbuf *out = &rp->text;
    md_strbuf_printf(out, "MD_N_DECL MD_INLINE void %s(MD_X_DECL const md_params *p, md_elem *elem, ", name);
    print_position(rp, out);
    md_cg_place at;
    md_strbuf nowhere = {0};
    md_cg_begin(rp->cg, &nowhere);
    int32_t lead = rp->o->is_column ? -1 : find_lead(rp, &at);
    md_strbuf_finish(&nowhere);
    md_cg_begin(rp->cg, out);
    for (int32_t i = 0; i < rp->on_chip.n_loads; i++) {
        const md_cg_row_load *load = &rp->on_chip.load[i];
        if (kind == FETCH_PASSES ? (load->passes & passes) != 0 : is_epilogue(rp, load) == (kind == FETCH_EPILOGUE))
            print_one_fetch(rp, out, i, i == lead);
    }
    md_strbuf_add(out, "}\n");
}

void md_cg_rp_cuda_elements(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    char name[24];
    int32_t n_levels = rp->stage->row.n_levels;
    md_strbuf_add(out, "struct md_elem {\n");
    for (int32_t i = 0; i < rp->on_chip.n_loads; i++)
        md_strbuf_printf(out, "md_raw_%s l%" PRId32 ";\n",
                         md_dtype_name(rp->program->formula->tensor[rp->on_chip.load[i].node->id].dtype), i);
    for (int32_t i = 0; i < rp->on_chip.n_kept; i++)
        md_strbuf_printf(out, "%s k%" PRId32 ";\n", md_cg_lane_type(rp->on_chip.kept[i].node->type), i);
    md_strbuf_add(out, "};\n");
    md_strbuf_add(out, "MD_INLINE void md_forget(md_elem *elem)\n{\n");
    for (int32_t i = 0; i < rp->on_chip.n_loads; i++)
        if (!is_epilogue(rp, &rp->on_chip.load[i]))
            md_strbuf_printf(out, "md_hide(elem->l%" PRId32 ");\n", i);
    md_strbuf_add(out, "}\n");
    print_fetch(rp, "md_fetch", FETCH_EARLY, 0);
    print_fetch(rp, "md_fetch_epilogue", FETCH_EPILOGUE, 0);
    print_fetch(rp, "md_fetch_body", FETCH_PASSES, all_levels(rp));
    print_fetch(rp, "md_fetch_out", FETCH_PASSES, UINT32_C(1) << n_levels);
    for (int32_t l = 0; l < n_levels; l++) {
        snprintf(name, sizeof name, "md_fetch%" PRId32, l);
        print_fetch(rp, name, FETCH_PASSES, UINT32_C(1) << l);
    }
}

/* Binds the loads and kept values that a pass finds in elem. */
static void bind_elements(md_cg_row_printer *rp, md_strbuf *out, int32_t pass)
{
    char name[24];
    for (int32_t i = 0; i < rp->on_chip.n_loads; i++) {
        const md_fx_node *node = rp->on_chip.load[i].node;
        if (!(rp->on_chip.load[i].passes >> pass & 1))
            continue;
        snprintf(name, sizeof name, "w%" PRId32, i);
        md_strbuf_printf(out, "const %s %s = md_unpack_%s(elem->l%" PRId32 ");\n", md_cg_lane_type(node->type), name,
                         md_dtype_name(rp->program->formula->tensor[node->id].dtype), i);
        md_cg_bind(rp->cg, node, name, false);
    }
    for (int32_t i = 0; i < rp->on_chip.n_kept; i++) {
        const md_cg_on_chip_value *value = &rp->on_chip.kept[i];
        if (value->first >= pass || value->last < pass)
            continue;
        snprintf(name, sizeof name, "elem->k%" PRId32, i);
        if (value->shift >= 0 && pass == rp->stage->row.n_levels) {
            md_strbuf_printf(out, "const %s kept%" PRId32 " = elem->k%" PRId32 " * ",
                             md_cg_lane_type(value->node->type), i, i);
            md_strbuf_printf(out, rp->o->is_column ? "row->w%" PRId32 ";\n" : "md_splat(row->w%" PRId32 ");\n", i);
            snprintf(name, sizeof name, "kept%" PRId32, i);
        }
        md_cg_bind(rp->cg, value->node, name, false);
    }
}

static void keep_elements(md_cg_row_printer *rp, md_strbuf *out, int32_t pass)
{
    for (int32_t i = 0; i < rp->on_chip.n_kept; i++) {
        const md_cg_on_chip_value *v = &rp->on_chip.kept[i];
        const char *value = v->first == pass ? md_cg_lanes(rp->cg, v->node) : NULL;
        if (value)
            md_strbuf_printf(out, "elem->k%" PRId32 " = %s;\n", i, value);
    }
}

/* ---- Levels */

static void print_add(md_cg_row_printer *rp, int32_t l)
{
    md_strbuf *out = &rp->text;
    md_strbuf_printf(out,
                     "MD_N_DECL MD_INLINE void md_add%" PRId32
                     "(MD_X_DECL const md_params *p, const md_row *row, md_acc%" PRId32 " *acc, md_elem *elem, ",
                     l, l);
    print_position(rp, out);
    md_cg_rp_begin(rp, out, MD_CG_SCOPE_BODY);
    bind_elements(rp, out, l);
    md_cg_rp_bodies(rp, out, l);
    keep_elements(rp, out, l);
    md_strbuf_add(out, "}\n");
}

/* The parts of `width` lanes of a warp combined. */
static void print_tree(md_cg_row_printer *rp, int32_t l)
{
    md_strbuf *out = &rp->text;
    const md_st_row *row = &rp->stage->row;
    int32_t n = 0, id = -1;
    for (int32_t i = 0; i < row->n_reductions; i++)
        if (row->reduction[i].level == l)
            n++, id = i;
    bool is_first = n == 1 && md_cg_is_arg(row->reduction[id].op) && md_cg_acc_type(&row->reduction[id]) == MD_F32;
    md_strbuf_printf(out, "MD_INLINE void md_tree%" PRId32 "(md_part%" PRId32 " *part, int width)\n{\n", l, l);
    if (is_first)
        md_strbuf_printf(out, "md_tree_first<%d>(&part->v%" PRId32 ", &part->i%" PRId32 ", width);\n",
                         row->reduction[id].op == MD_FX_R_ARGMAX, id, id);
    else
        md_strbuf_printf(out,
                         "MD_UNROLL for (int o = 16; o > 0; o /= 2)\nif (o < width) {\nconst md_part%" PRId32
                         " from = md_shfl_xor(*part, o);\n"
                         "md_combine%" PRId32 "(part, &from);\n}\n",
                         l, l);
    md_strbuf_printf(out, "}\n#define MD_TREE_IS_SHORT%" PRId32 " %d\n", l, is_first);
}

static void print_parts(md_cg_row_printer *rp, int32_t l)
{
    md_strbuf *out = &rp->text;
    md_strbuf_add(out, "struct md_part");
    md_strbuf_printf(out, "%" PRId32 " {\n", l);
    md_cg_rp_each(rp, out, l, md_cg_red_part_fields);
    md_strbuf_printf(
        out, "};\nMD_INLINE void md_fold%" PRId32 "(md_part%" PRId32 " *part, const md_acc%" PRId32 " *acc)\n{\n", l, l,
        l);
    md_cg_rp_each(rp, out, l, md_cg_red_fold);
    md_strbuf_printf(out, "}\nMD_INLINE void md_clear_part%" PRId32 "(md_part%" PRId32 " *part)\n{\n", l, l);
    md_cg_rp_each(rp, out, l, md_cg_red_clear_part);
    md_strbuf_printf(
        out, "}\nMD_INLINE void md_combine%" PRId32 "(md_part%" PRId32 " *part, const md_part%" PRId32 " *from)\n{\n",
        l, l, l);
    md_cg_rp_each(rp, out, l, md_cg_red_combine);
    md_strbuf_add(out, "}\n");
    if (!rp->o->is_column)
        print_tree(rp, l);
}

void md_cg_rp_cuda_level(md_cg_row_printer *rp, int32_t l)
{
    md_strbuf *out = &rp->text;
    md_strbuf_printf(out, "struct md_acc%" PRId32 " {\n", l);
    md_cg_rp_each(rp, out, l, md_cg_red_acc_fields);
    md_strbuf_printf(
        out, "};\nMD_INLINE void md_clear%" PRId32 "(md_acc%" PRId32 " *acc, int64_t first)\n{\n(void)first;\n", l, l);
    md_cg_rp_each(rp, out, l, md_cg_red_clear);
    md_strbuf_add(out, "}\n");
    print_add(rp, l);
    print_parts(rp, l);
    md_strbuf_printf(out,
                     "%sMD_INLINE void md_finish%" PRId32
                     "(MD_X_DECL const md_params *p, md_row *row, const md_part%" PRId32 " *part)\n{\n",
                     md_cg_rp_function(rp, false), l, l);
    md_cg_rp_each(rp, out, l, md_cg_red_accept);
    md_cg_rp_begin(rp, out, MD_CG_SCOPE_BODY);
    md_cg_rp_derived(rp, out, l);
    md_strbuf_add(out, "}\n");
}

/* ---- Stores */

static void print_lead(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    md_cg_place at;
    md_strbuf_printf(out, "MD_INLINE int64_t md_lead(MD_X_DECL const md_params *p, md_pos x%" PRId32 ")\n{\n",
                     rp->stage->axis);
    md_cg_begin(rp->cg, out);
    int32_t lead = find_lead(rp, &at);
    if (lead >= 0) {
        int32_t n = rp->on_chip.n_loads,
                tensor = lead < n ? rp->on_chip.load[lead].node->id : rp->stage->store[lead - n].tensor;
        md_strbuf_printf(out, "return md_lead_%s(%s, %s);\n}\n",
                         md_dtype_name(rp->program->formula->tensor[tensor].dtype), at.pointer, at.offset);
    } else {
        md_strbuf_add(out, "return 0;\n}\n");
    }
}

void md_cg_rp_cuda_out(md_cg_row_printer *rp)
{
    md_strbuf *out = &rp->text;
    if (!rp->o->is_column)
        print_lead(rp);
    md_strbuf_add(
        out, "MD_N_DECL MD_INLINE void md_out(MD_X_DECL const md_params *p, const md_row *row, const md_elem *elem, ");
    print_position(rp, out);
    md_cg_rp_begin(rp, out, MD_CG_SCOPE_STORE);
    bind_elements(rp, out, rp->stage->row.n_levels);
    md_cg_rp_stores(rp, false);
    md_strbuf_add(out, "}\n");
}
