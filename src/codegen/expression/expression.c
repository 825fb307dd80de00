/* Values as text: one declaration each, operands first. */
#include "codegen/expression/printer.h"

#include <inttypes.h>
#include <math.h>

const char *md_cg_operand(md_cg *cg, const md_fx_node *node, md_dtype type, bool lanes)
{
    bool is_uniform = true;
    const char *text = NULL;
    if (node->kind == MD_FX_CONST) {
        text = md_cg_constant(cg, node, type);
    } else {
        md_cg_name name = md_cg_eval(cg, node);
        is_uniform = name.is_uniform;
        text = md_cg_convert(cg, name.text, node->type, type, is_uniform);
    }
    return lanes && is_uniform ? md_cg_splat(cg, text, type) : text;
}

/* ---- Operations */

/* The type that operands are converted to. */
static md_dtype operand_type(const md_fx_node *n)
{
    if (md_fx_op_is_logic(n->op))
        return MD_BOOL;
    if (!md_fx_op_is_test(n->op))
        return n->type;
    md_dtype type = n->arg[0]->type;
    for (int32_t i = 1; i < n->n_args; i++)
        type = md_fx_common_type(type, n->arg[i]->type);
    return type;
}

/* Operations that are the identity, or constant, on integers. NULL where it is none of them. */
static const char *trivial(const md_fx_node *n, md_dtype type, const char *a)
{
    if (md_dtype_is_real(type) || n->n_args != 1)
        return NULL;
    if (md_fx_op_is_test(n->op))
        return "0";
    return md_fx_op_info(n->op)->is_whole ? a : NULL;
}

/* A C operator between values, or in front of one. */
static const char *apply_sign(md_cg *cg, const char *sign, int32_t n, bool wraps, const char *const a[3])
{
    const char *u = wraps ? "(uint64_t)" : "", *open = wraps ? "(int64_t)(" : "", *close = wraps ? ")" : "";
    if (n == 1)
        return md_cg_format(cg, "%s%s%s%s%s", open, sign, u, a[0], close);
    return md_cg_format(cg, "%s%s%s %s %s%s%s", open, u, a[0], sign, u, a[1], close);
}

/* An integer // or % by a power of two: a shift and a mask also round toward minus infinity. NULL for others. */
static const char *by_power_of_two(md_cg *cg, const md_fx_node *n, md_dtype type, bool is_uniform, const char *a)
{
    const bool is_mod = n->op == MD_FX_MOD;
    if ((!is_mod && n->op != MD_FX_FLOORDIV) || type != MD_I64 || n->arg[1]->kind != MD_FX_CONST)
        return NULL;
    const int64_t by = n->arg[1]->integer;
    if (by <= 0 || (by & (by - 1)) != 0)
        return NULL;
    const char *number = md_cg_format(cg, "%lldLL", is_mod ? (long long)by - 1 : __builtin_ctzll((uint64_t)by) + 0LL);
    if (!is_uniform)
        number = md_cg_splat(cg, number, MD_I64);
    if (is_mod)
        return md_cg_format(cg, "%s & %s", a, number);
    return md_cg_format(cg, "md_shr_%s(%s, %s)", md_cg_suffix_in(cg, type, is_uniform), a, number);
}

static const char *apply(md_cg *cg, const md_fx_node *n, md_dtype type, bool is_uniform, const char *const a[3])
{
    const md_fx_op_row *op = md_fx_op_info(n->op);
    const char *same = trivial(n, type, a[0]), *cheap = by_power_of_two(cg, n, type, is_uniform, a[0]);
    if (cheap)
        return cheap;
    if (same)
        return is_uniform || same == a[0] ? same : md_cg_splat(cg, same, MD_BOOL);
    /* signed integers of C++ on a GPU do not wrap, so they have functions */
    if (op->sign && (is_uniform || md_cg_has_byte_operators(cg->o.bytes)))
        return apply_sign(cg, op->sign, n->n_args, is_uniform && type == MD_I64 && md_cg_is_cuda(cg), a);
    if (op->is_math && (md_dtype_is_real(type) || md_fx_op_is_bitwise(n->op)))
        cg->used[n->op] = true;
    const char *name = op->name, *suffix = md_cg_suffix_in(cg, type, is_uniform);
    if (n->n_args == 1)
        return md_cg_format(cg, "md_%s_%s(%s)", name, suffix, a[0]);
    if (n->n_args == 2)
        return md_cg_format(cg, "md_%s_%s(%s, %s)", name, suffix, a[0], a[1]);
    return md_cg_format(cg, "md_%s_%s(%s, %s, %s)", name, suffix, a[0], a[1], a[2]);
}

/* Declares the variable of a value and remembers it. */
static md_cg_name declare_value(md_cg *cg, md_cg_value_number *v, bool is_uniform, const char *text)
{
    md_dtype type = v->node->type;
    bool at_root = md_cg_can_hoist(cg, is_uniform, md_cg_is_guarded(cg, v));
    const char *c_type = md_cg_type_in(cg, type, is_uniform);
    md_cg_name name = md_cg_declare(cg, c_type, is_uniform, at_root, text);
    md_cg_know(cg, v, name, at_root);
    return name;
}

void md_cg_invert_sums(md_cg *cg)
{
    cg->inverts_sums = true;
}

/* Lanes over a value that they share, or scalars over a sum that many share: on a GPU one reciprocal serves all. */
static bool divides_by_one_value(md_cg *cg, const md_fx_node *n, md_dtype type, bool is_uniform)
{
    if (!md_cg_is_cuda(cg) || n->op != MD_FX_DIV || type != MD_F32)
        return false;
    if (is_uniform)
        return cg->inverts_sums && md_fx_has_kind(n->arg[1], MD_FX_REF);
    md_cg_value_number *divisor = md_cg_number(cg, n->arg[1]);
    return divisor && !md_cg_varies(cg, divisor);
}

static md_cg_name print_op(md_cg *cg, md_cg_value_number *v)
{
    const md_fx_node *n = v->node;
    bool is_uniform = !md_cg_varies(cg, v);
    md_dtype type = operand_type(n);
    const char *run = is_uniform ? NULL : md_cg_compare_run(cg, n);
    if (run)
        return declare_value(cg, v, false, run);
    const char *a[3] = {NULL, NULL, NULL};
    for (int32_t i = 0; i < n->n_args && i < 3; i++) {
        a[i] = md_cg_operand(cg, n->arg[i], type, !is_uniform);
        if (!a[i])
            return (md_cg_name){NULL, true};
    }
    if (divides_by_one_value(cg, n, type, is_uniform))
        return declare_value(cg, v, is_uniform,
                             md_cg_format(cg, "md_%s_%s(%s, %s)", md_fx_has_kind(n->arg[1], MD_FX_REF) ? "by" : "over",
                                          is_uniform ? "sf" : "f", a[0], md_cg_operand(cg, n->arg[1], type, false)));
    return declare_value(cg, v, is_uniform, apply(cg, n, type, is_uniform, a));
}

/* Both arms are computed, and one is taken. */
static md_cg_name print_select(md_cg *cg, md_cg_value_number *v, bool is_uniform)
{
    const md_fx_node *n = v->node;
    const char *c = md_cg_operand(cg, n->arg[0], MD_BOOL, !is_uniform);
    const char *a = md_cg_operand(cg, n->arg[1], n->type, !is_uniform);
    const char *b = md_cg_operand(cg, n->arg[2], n->type, !is_uniform);
    if (!c || !a || !b)
        return (md_cg_name){NULL, true};
    return declare_value(
        cg, v, is_uniform,
        md_cg_format(cg, "md_where_%s(%s, %s, %s)", md_cg_suffix_in(cg, n->type, is_uniform), c, a, b));
}

/* A condition that lanes share: only the arm taken is run. */
static md_cg_name print_branch(md_cg *cg, md_cg_value_number *v, const char *condition, bool is_uniform)
{
    const md_fx_node *n = v->node;
    bool at_root = md_cg_can_hoist(cg, is_uniform, true);
    md_strbuf *sink = md_cg_sink(cg, at_root);
    md_cg_name name = {md_cg_format(cg, "%c%" PRId32, is_uniform ? 'u' : 'v', cg->n_names++), is_uniform};
    if (!name.text)
        return name;
    md_strbuf_printf(sink, "%s %s;\nif (%s) {\n", md_cg_type_in(cg, n->type, is_uniform), name.text, condition);
    for (int32_t i = 1; i < 3; i++) {
        md_cg_open(cg, sink, -1);
        const char *arm = md_cg_operand(cg, n->arg[i], n->type, !is_uniform);
        if (cg->status == MD_OK)
            md_strbuf_printf(sink, "%s = %s;\n%s", name.text, arm, i == 1 ? "} else {\n" : "}\n");
        md_cg_close(cg);
    }
    md_cg_know(cg, v, name, at_root);
    return name;
}

static bool is_zero(const md_fx_node *n)
{
    return n->kind == MD_FX_CONST && (md_dtype_is_real(n->type) ? n->num == 0 && !signbit(n->num) : n->integer == 0);
}

/* where(c, X[...], 0): lanes or cells that a masked load leaves out are zero already. */
static bool is_load_or_zero(md_cg *cg, const md_cg_value_number *v)
{
    const md_fx_node *const *arg = v->node->arg;
    const bool is_masked = cg->o.is_cells || (!md_cg_is_cuda(cg) && md_cg_varies(cg, v->arg[1]));
    return is_masked && arg[1]->kind == MD_FX_LOAD && is_zero(arg[2]) && md_cg_is_guarded(cg, v->arg[1]) &&
           !md_cg_find(cg, v->arg[1]);
}

/* A condition that differs from lane to lane: guarded reads of an arm keep to the lanes that take it. Offsets of cells
 * are computed whatever the condition, so that cells share them; their reads alone are under it. */
static md_cg_name print_masked(md_cg *cg, md_cg_value_number *v, const char *condition, bool is_cell)
{
    const md_fx_node *n = v->node;
    const char *outer = cg->mask, *arm[3] = {condition, NULL, NULL}, *both = is_cell ? "&&" : "&";
    const bool is_one = is_load_or_zero(cg, v);
    for (int32_t i = 1; i < 3; i++) {
        const char *taken = i == 1 ? condition : md_cg_format(cg, "%s%s", is_cell ? "!" : "~", condition);
        cg->mask = outer;
        if (md_cg_is_guarded(cg, v->arg[i]))
            cg->mask = md_cg_declare(cg, is_cell ? "int" : "md_b", is_cell, false,
                                     outer ? md_cg_format(cg, "%s %s %s", outer, both, taken) : taken)
                           .text;
        arm[i] = cg->status == MD_OK ? md_cg_operand(cg, n->arg[i], n->type, !is_cell) : NULL;
        cg->mask = outer;
        if (!arm[i])
            return (md_cg_name){NULL, true};
        if (is_one)
            return (md_cg_name){arm[1], is_cell};
    }
    return declare_value(
        cg, v, is_cell,
        md_cg_format(cg, "md_where_%s(%s, %s, %s)", md_cg_suffix_in(cg, n->type, is_cell), arm[0], arm[1], arm[2]));
}

/* Nothing but reads keeps to a condition: no check, no loop. */
static bool reads_only(const md_fx_node *n)
{
    return !md_fx_has_kind(n, MD_FX_CHECK) && !md_fx_has_kind(n, MD_FX_LENGTH) && !md_fx_has_kind(n, MD_FX_REDUCE) &&
           !md_fx_has_kind(n, MD_FX_SCAN);
}

/* Parts of a condition, which hold together: those that lanes share as a scalar, the others as a mask. */
typedef struct parts {
    const char *shared, *mask;
} parts;

static void split_condition(parts *out, md_cg *cg, const md_fx_node *n)
{
    md_cg_value_number *v = md_cg_number(cg, n);
    if (!v)
        return;
    if (n->kind == MD_FX_OP && n->op == MD_FX_AND) {
        split_condition(out, cg, n->arg[0]);
        split_condition(out, cg, n->arg[1]);
        return;
    }
    const char *text = md_cg_operand(cg, n, MD_BOOL, false);
    const char **part = md_cg_varies(cg, v) ? &out->mask : &out->shared;
    if (text)
        *part = *part ? md_cg_format(cg, "%s & %s", *part, text) : text;
}

/* The part of the condition that lanes share is a branch, the other one a mask in it. */
static md_cg_name print_masked_branch(md_cg *cg, md_cg_value_number *v, const parts *condition)
{
    const md_fx_node *n = v->node;
    md_strbuf *sink = md_cg_sink(cg, false);
    const md_cg_name name = {md_cg_format(cg, "v%" PRId32, cg->n_names++), false};
    if (!name.text)
        return name;
    md_strbuf_printf(sink, "%s %s;\nif (%s) {\n", md_cg_type_in(cg, n->type, false), name.text, condition->shared);
    md_cg_open(cg, sink, -1);
    const md_cg_name taken = print_masked(cg, v, condition->mask, false);
    if (taken.text)
        md_strbuf_printf(sink, "%s = %s;\n} else {\n", name.text, taken.text);
    md_cg_close(cg);
    md_cg_open(cg, sink, -1);
    const char *other = cg->status == MD_OK ? md_cg_operand(cg, n->arg[2], n->type, true) : NULL;
    if (other)
        md_strbuf_printf(sink, "%s = %s;\n}\n", name.text, other);
    md_cg_close(cg);
    md_cg_know(cg, v, name, false);
    return name;
}

static md_cg_name print_where(md_cg *cg, md_cg_value_number *v)
{
    const md_fx_node *n = v->node;
    bool is_uniform = !md_cg_varies(cg, v);
    if (!md_cg_is_guarded(cg, v->arg[1]) && !md_cg_is_guarded(cg, v->arg[2]))
        return print_select(cg, v, is_uniform);
    md_cg_value_number *c = md_cg_number(cg, n->arg[0]);
    if (!c)
        return (md_cg_name){NULL, true};
    bool shared = !md_cg_varies(cg, c);
    if (!shared && cg->o.n_grouped > 0) {
        parts part = {NULL, NULL};
        split_condition(&part, cg, n->arg[0]);
        if (part.shared && part.mask)
            return print_masked_branch(cg, v, &part);
    }
    const char *condition = md_cg_operand(cg, n->arg[0], MD_BOOL, false);
    if (!condition)
        return (md_cg_name){NULL, true};
    if (shared && !(cg->o.is_cells && reads_only(n)))
        return print_branch(cg, v, condition, is_uniform);
    return print_masked(cg, v, condition, shared);
}

/* The value after a store to dtype `to` and a load. */
static md_cg_name print_cast(md_cg *cg, md_cg_value_number *v)
{
    const md_fx_node *n = v->node, *a = n->arg[0];
    bool is_uniform = !md_cg_varies(cg, v);
    bool rounds = md_dtype_is_narrow(n->to) || (n->to == MD_U64 && md_dtype_is_real(a->type));
    md_dtype from = a->type == MD_BOOL ? n->type : a->type;
    const char *text = md_cg_operand(cg, a, rounds ? from : n->type, false);
    if (text && rounds && a->type != MD_BOOL)
        text =
            md_cg_format(cg, "md_round_%s_%s(%s)", md_dtype_name(n->to), md_cg_suffix_in(cg, from, is_uniform), text);
    return declare_value(cg, v, is_uniform, text);
}

static md_cg_name print_size(md_cg *cg, const md_fx_node *n)
{
    int64_t size = cg->formula->dim[n->id].size;
    return (md_cg_name){size >= 0 ? md_cg_integer(cg, size) : md_cg_format(cg, "p->n%" PRId32, n->id), true};
}

static md_cg_name print_index(md_cg *cg, md_cg_value_number *v)
{
    int32_t id = v->node->id;
    if (id != cg->o.lane)
        return (md_cg_name){md_cg_format(cg, "x%" PRId32, id), true};
    return declare_value(cg, v, false, md_cg_format(cg, "md_iota_i(x%" PRId32 ")", id));
}

static md_cg_name print_unknown(md_cg *cg, const md_fx_node *n)
{
    md_cg_error(cg, md_fail(MD_INTERNAL, "the printer met node kind %d, number %" PRId32 ", that nobody bound",
                            (int)n->kind, n->id));
    return (md_cg_name){NULL, true};
}

md_cg_name md_cg_eval(md_cg *cg, const md_fx_node *node)
{
    md_cg_value_number *v = cg->status == MD_OK ? md_cg_number(cg, node) : NULL;
    if (!v)
        return (md_cg_name){NULL, true};
    const md_cg_name *known = md_cg_find(cg, v);
    if (known)
        return *known;
    switch (node->kind) {
    case MD_FX_CONST:
        return (md_cg_name){md_cg_constant(cg, node, node->type), true};
    case MD_FX_INDEX:
        return print_index(cg, v);
    case MD_FX_SIZE:
        return print_size(cg, node);
    case MD_FX_SCALAR:
        return declare_value(cg, v, true,
                             md_cg_format(cg, "(%s)p->c%" PRId32, md_cg_scalar_type(node->type), node->id));
    case MD_FX_LOAD:
        return md_cg_load(cg, v);
    case MD_FX_OP:
        return node->op == MD_FX_WHERE ? print_where(cg, v) : print_op(cg, v);
    case MD_FX_CAST:
        return print_cast(cg, v);
    case MD_FX_REDUCE:
        return md_cg_reduce(cg, v);
    case MD_FX_SCAN:
        return md_cg_scan(cg, v);
    case MD_FX_CHECK:
        return md_cg_eval(cg, node->arg[0]);
    case MD_FX_LENGTH:
        return md_cg_length(cg, v);
    case MD_FX_REF:
    case MD_FX_COUNT:
        break;
    }
    return print_unknown(cg, node);
}

/* ---- For families */

const char *md_cg_value(md_cg *cg, const md_fx_node *node, bool *is_uniform)
{
    md_cg_name name = md_cg_eval(cg, node);
    if (is_uniform)
        *is_uniform = name.is_uniform;
    return cg->status == MD_OK ? name.text : NULL;
}

const char *md_cg_lanes(md_cg *cg, const md_fx_node *node)
{
    md_cg_name name = md_cg_eval(cg, node);
    if (cg->status == MD_OK && name.is_uniform)
        name = md_cg_declare(cg, md_cg_type_in(cg, node->type, false), false, false,
                             md_cg_splat(cg, name.text, node->type));
    return cg->status == MD_OK ? name.text : NULL;
}
