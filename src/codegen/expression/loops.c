/* Reductions and scans inside an expression, as loops: slow but always right. Sums of f32 scalars are kept in f64.
 * Other long sums and products go in runs of some RUN elements, so that an element goes through few additions; on a
 * host lanes of f32 are added up in f64. */
#include "codegen/expression/printer.h"

#include "base/dtype.h"

#include <inttypes.h>

/* An accumulator in the text: a<number>, of this type. */
typedef struct accumulator {
    md_cg *cg;
    md_strbuf *sink;
    const md_fx_node *node;
    md_dtype type;
    bool is_uniform;
    int32_t number;
    const char *suffix;
    int32_t cut; /* the bound index whose loop is cut into runs; -1: none is */
    int64_t points; /* of the loops inside it */
    md_dtype total_type;
    bool is_grouped; /* one for each result of a group (group.c) */
    const char *acc, *total; /* the accumulator, what runs are added to */
} accumulator;

enum { RUN = 128 };

static bool is_arg(md_fx_op op)
{
    return op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN;
}

static bool is_sum(md_fx_op op)
{
    return op == MD_FX_R_SUM || op == MD_FX_S_SUM;
}

static bool is_recurrence(md_fx_op op)
{
    return md_fx_is_recurrence(op);
}

static bool is_product(md_fx_op op)
{
    return op == MD_FX_R_PROD || op == MD_FX_S_PROD;
}

static bool is_max(md_fx_op op)
{
    return op == MD_FX_R_MAX || op == MD_FX_S_MAX || op == MD_FX_R_ARGMAX || op == MD_FX_S_MAX_PLUS;
}

static bool is_extreme(md_fx_op op)
{
    return is_max(op) || op == MD_FX_R_MIN || op == MD_FX_S_MIN || op == MD_FX_R_ARGMIN || op == MD_FX_S_MIN_PLUS;
}

static md_dtype accumulator_type(const md_fx_node *n, bool is_uniform)
{
    if (is_arg(n->op))
        return n->arg[0]->type;
    return (is_sum(n->op) || is_product(n->op) || is_recurrence(n->op)) && n->type == MD_F32 && is_uniform ? MD_F64
                                                                                                           : n->type;
}

const char *md_cg_start_text(md_fx_op op, md_dtype type)
{
    if (is_product(op) || op == MD_FX_R_ALL)
        return "1";
    if (!is_extreme(op))
        return "0";
    if (type == MD_BOOL)
        return is_max(op) ? "0" : "1";
    if (type == MD_I64)
        return is_max(op) ? "INT64_MIN" : "INT64_MAX";
    return is_max(op) ? "-__builtin_inf()" : "__builtin_inf()";
}

/* A variable, or as many as a group has results, with the value that a sum or an extreme begins with. */
static void print_variable(accumulator *a, const char *name, md_dtype type)
{
    const char *c_type = a->is_uniform ? md_cg_scalar_type(type) : md_cg_lane_type(type);
    const char *value = md_cg_start_text(a->node->op, type);
    if (!a->is_uniform)
        value = md_cg_splat(a->cg, value, type);
    if (a->is_grouped)
        md_strbuf_printf(a->sink, "%s %s%" PRId32 "[MD_GROUP];\nMD_FOR (g, MD_GROUP)\n%s%" PRId32 "[g] = %s;\n", c_type,
                         name, a->number, name, a->number, value ? value : "");
    else
        md_strbuf_printf(a->sink, "%s %s%" PRId32 " = %s;\n", c_type, name, a->number, value ? value : "");
}

static void print_start(accumulator *a)
{
    print_variable(a, "a", a->type);
    if (is_arg(a->node->op))
        md_strbuf_printf(a->sink, "int64_t q%" PRId32 " = 0;\n%s i%" PRId32 " = %s;\n", a->number,
                         a->is_uniform ? "int64_t" : "md_i", a->number, a->is_uniform ? "0" : "md_splat_i(0)");
}

/* The first element; then what beats the best so far: a NaN if that is none, or a better value. Ties stay with the
 * first. */
static void print_arg_step(accumulator *a, const char *value)
{
    const char *beyond = is_max(a->node->op) ? "max" : "min", *s = a->suffix;
    int32_t n = a->number;
    if (a->is_uniform)
        md_strbuf_printf(a->sink,
                         "if (q%" PRId32 " == 0 || md_beyond_%s_%s(%s, a%" PRId32 ")) { a%" PRId32 " = %s; i%" PRId32
                         " = q%" PRId32 "; }\n",
                         n, beyond, s, value, n, n, value, n, n);
    else
        md_strbuf_printf(a->sink,
                         "{ const md_b take = q%" PRId32 " == 0 ? %s : md_beyond_%s_%s(%s, a%" PRId32 "); a%" PRId32
                         " = md_where_%s(take, %s, a%" PRId32 "); i%" PRId32 " = md_where_i(take, md_splat_i(q%" PRId32
                         "), i%" PRId32 "); }\n",
                         n, md_cg_is_cuda(a->cg) ? "md_splat_b(1)" : "~(md_b){0}", beyond, s, value, n, n, s, value, n,
                         n, n, n);
    md_strbuf_printf(a->sink, "q%" PRId32 "++;\n", n);
}

static void print_step(accumulator *a, const char *value)
{
    md_fx_op op = a->node->op;
    if (is_arg(op))
        print_arg_step(a, value);
    else if (is_sum(op))
        md_strbuf_printf(a->sink, "%s += %s;\n", a->acc, value);
    else if (is_product(op))
        md_strbuf_printf(a->sink, "%s *= %s;\n", a->acc, value);
    else if (op == MD_FX_R_ANY || op == MD_FX_R_ALL)
        md_strbuf_printf(a->sink, "%s %s= %s;\n", a->acc, op == MD_FX_R_ANY ? "|" : "&", value);
    else
        md_strbuf_printf(a->sink, "%s = md_%s_%s(%s, %s);\n", a->acc, is_max(op) ? "max" : "min", a->suffix, a->acc,
                         value);
}

static accumulator make(md_cg *cg, md_cg_value_number *v, bool at_root)
{
    accumulator a = {.cg = cg, .sink = md_cg_sink(cg, at_root), .node = v->node, .is_uniform = !md_cg_varies(cg, v)};
    a.type = accumulator_type(v->node, a.is_uniform && !cg->o.is_cells);
    a.number = cg->n_names++;
    a.suffix = md_cg_suffix(a.type, a.is_uniform);
    a.total_type = a.type;
    a.cut = -1;
    a.is_grouped = cg->group.is_open && (cg->o.is_cells || !a.is_uniform) && !is_arg(v->node->op);
    a.acc = md_cg_format(cg, a.is_grouped ? "a%" PRId32 "[g]" : "a%" PRId32, a.number);
    a.total = md_cg_format(cg, a.is_grouped ? "total%" PRId32 "[g]" : "total%" PRId32, a.number);
    return a;
}

/* The sign that adds to the total, or multiplies it. */
static char sign_of(const accumulator *a)
{
    return is_product(a->node->op) ? '*' : '+';
}

static const char *name_of(accumulator *a)
{
    return md_cg_convert(a->cg, a->acc, a->type, a->total_type, a->is_uniform);
}

/* The value that the loop left, in a constant. */
static md_cg_name finish(accumulator *a, md_cg_value_number *v, bool at_root)
{
    const char *name = is_arg(v->node->op) ? md_cg_format(a->cg, "i%" PRId32, a->number) : a->acc;
    if (a->cut >= 0)
        name = md_cg_format(a->cg, "%s %c %s", a->total, sign_of(a), name_of(a));
    if (!is_arg(v->node->op))
        name = md_cg_convert(a->cg, name, a->total_type, v->node->type, a->is_uniform);
    if (a->is_grouped)
        return md_cg_group_result(
            a->cg, v,
            a->cut < 0 ? name
                       : md_cg_format(a->cg, "runs%" PRId32 " ? %s : %s", a->number, name,
                                      md_cg_convert(a->cg, a->acc, a->type, v->node->type, a->is_uniform)));
    const char *c_type = a->is_uniform ? md_cg_scalar_type(v->node->type) : md_cg_lane_type(v->node->type);
    md_cg_name result = md_cg_declare(a->cg, c_type, a->is_uniform, at_root, name);
    md_cg_know(a->cg, v, result, at_root);
    return result;
}

/* max(a + acc, b) or min; nothing, an infinity, stays nothing. */
static const char *extreme_text(accumulator *a, const char *summand, const char *term)
{
    const bool is_max = a->node->op == MD_FX_S_MAX_PLUS;
    const char *none = is_max ? "-__builtin_inf()" : "__builtin_inf()", *s = a->suffix;
    none = a->is_uniform ? none : md_cg_splat(a->cg, none, a->type);
    const char *sum = a->is_uniform
                          ? md_cg_format(a->cg, "(%s == %s || a%" PRId32 " == %s ? %s : %s + a%" PRId32 ")", summand,
                                         none, a->number, none, none, summand, a->number)
                          : md_cg_format(a->cg,
                                         "md_where_%s(md_eq_%s(%s, %s), %s, md_where_%s(md_eq_%s(a%" PRId32
                                         ", %s), %s, %s + a%" PRId32 "))",
                                         s, s, summand, none, none, s, s, a->number, none, none, summand, a->number);
    return md_cg_format(a->cg, "md_%s_%s(%s, %s)", is_max ? "max" : "min", s, sum, term);
}

/* acc = a * acc + b; b alone where the recurrence starts anew. */
static void print_recurrence(accumulator *a)
{
    const md_fx_node *step = a->node->arg[0];
    const int32_t n = a->number;
    const char *factor = md_cg_operand(a->cg, step->arg[0], a->type, !a->is_uniform);
    const char *term = md_cg_operand(a->cg, step->arg[1], a->type, !a->is_uniform);
    const char *is_new = step->n_args > 2 ? md_cg_operand(a->cg, step->arg[2], MD_BOOL, !a->is_uniform) : NULL;
    if (a->cg->status != MD_OK)
        return;
    const char *next = a->node->op != MD_FX_S_LINEAR
                           ? extreme_text(a, factor, term)
                           : md_cg_format(a->cg, "md_fma_%s(%s, a%" PRId32 ", %s)", a->suffix, factor, n, term);
    if (is_new && a->is_uniform)
        next = md_cg_format(a->cg, "%s ? %s : %s", is_new, term, next);
    else if (is_new)
        next = md_cg_format(a->cg, "md_where_%s(%s, %s, %s)", a->suffix, is_new, term, next);
    md_strbuf_printf(a->sink, "a%" PRId32 " = %s;\n", n, next ? next : "");
}

/* acc = a * b + acc, rounded once. */
static bool print_fused_step(accumulator *a)
{
    const md_fx_node *times = a->node->arg[0];
    if (!a->cg->o.fuses || a->is_uniform || !is_sum(a->node->op) || a->type != MD_F32 || times->kind != MD_FX_OP ||
        times->op != MD_FX_MUL || times->type != MD_F32)
        return false;
    const char *x = md_cg_operand(a->cg, times->arg[0], a->type, true),
               *y = md_cg_operand(a->cg, times->arg[1], a->type, true);
    if (a->cg->status == MD_OK)
        md_strbuf_printf(a->sink, "%s = md_m_fma(%s, %s, %s);\n", a->acc, x, y, a->acc);
    return true;
}

static void print_body(accumulator *a)
{
    if (is_recurrence(a->node->op)) {
        print_recurrence(a);
        return;
    }
    if (print_fused_step(a))
        return;
    const char *value = md_cg_operand(a->cg, a->node->arg[0], a->type, !a->is_uniform);
    if (a->cg->status == MD_OK)
        print_step(a, value);
}

/* Chooses the loop to cut: the innermost whose points, with those of the loops inside, may be more than a run. */
static void choose_cut(accumulator *a)
{
    const md_fx_node *n = a->node;
    const bool is_f64 = a->type == MD_F64 && n->type == MD_F32;
    a->points = 1;
    if ((!is_sum(n->op) && !is_product(n->op)) || !md_dtype_is_real(a->type) || is_f64)
        return;
    if (a->type == MD_F32 && !md_cg_is_cuda(a->cg))
        a->total_type = MD_F64;
    for (int32_t i = n->n_bound - 1; i >= 0 && a->cut < 0; i--) {
        const int64_t size = a->cg->formula->dim[a->cg->program->index[n->bound[i]].dim].size;
        if (size < 0 || size > RUN / a->points)
            a->cut = i;
        else
            a->points *= size > 0 ? size : 1;
    }
    if (a->cut < 0)
        a->total_type = a->type;
}

static void print_total(accumulator *a)
{
    if (a->cut < 0)
        return;
    if (a->is_grouped)
        md_strbuf_printf(a->sink, "%s total%" PRId32 "[MD_GROUP];\nint runs%" PRId32 " = 0;\n",
                         md_cg_type_in(a->cg, a->total_type, a->is_uniform), a->number, a->number);
    else
        print_variable(a, "total", a->total_type);
    md_strbuf_printf(a->sink, "int64_t q%" PRId32 " = 0;\n", a->number);
}

/* The loop over a bound index; one that is cut is two. */
static void print_loop(accumulator *a, int32_t i)
{
    const int32_t x = a->node->bound[i];
    const int64_t step = RUN / a->points;
    char size[32];
    md_cg_size(size, a->cg->program, x);
    if (i == a->cut)
        md_strbuf_printf(a->sink,
                         "for (int64_t b%" PRId32 " = 0; b%" PRId32 " < %s; b%" PRId32 " += %" PRId64
                         ") {\nconst int64_t e%" PRId32 " = %s - b%" PRId32 " < %" PRId64 " ? %s : b%" PRId32
                         " + %" PRId64 ";\nfor (int64_t x%" PRId32 " = b%" PRId32 "; x%" PRId32 " < e%" PRId32
                         "; x%" PRId32 "++) {\n",
                         x, x, size, x, step, x, size, x, step, size, x, step, x, x, x, x, x);
    else
        md_strbuf_printf(a->sink, "for (int64_t x%" PRId32 " = 0; x%" PRId32 " < %s; x%" PRId32 "++) {\n", x, x, size,
                         x);
}

/* Ends the loop over a bound index; a run that is long enough is added to the total. */
static void print_loop_end(accumulator *a, int32_t i)
{
    const int32_t x = a->node->bound[i], n = a->number;
    md_strbuf_add(a->sink, "}\n");
    if (i != a->cut)
        return;
    const char *start = md_cg_start_text(a->node->op, a->type), *part = name_of(a);
    if (!a->is_uniform)
        start = md_cg_splat(a->cg, start, a->type);
    md_strbuf_printf(a->sink,
                     "q%" PRId32 " += (e%" PRId32 " - b%" PRId32 ") * %" PRId64 ";\nif (q%" PRId32 " >= %d) { ", n, x,
                     x, a->points, n, RUN);
    if (a->is_grouped)
        md_strbuf_printf(
            a->sink, "MD_FOR (g, MD_GROUP) { %s = runs%" PRId32 " ? %s %c %s : %s; %s = %s; } runs%" PRId32 " = 1; ",
            a->total, n, a->total, sign_of(a), part ? part : "", part ? part : "", a->acc, start ? start : "", n);
    else
        md_strbuf_printf(a->sink, "%s %c= %s; %s = %s; ", a->total, sign_of(a), part ? part : "", a->acc,
                         start ? start : "");
    md_strbuf_printf(a->sink, "q%" PRId32 " = 0; }\n}\n", n);
}

static bool is_supported(md_cg *cg, md_fx_op op)
{
    if (op != MD_FX_R_MEAN && op != MD_FX_R_VAR)
        return true;
    md_cg_error(cg, md_fail(MD_INTERNAL, "%s was not lowered to sums", md_fx_op_text(op)));
    return false;
}

md_cg_name md_cg_reduce(md_cg *cg, md_cg_value_number *v)
{
    const md_fx_node *n = v->node;
    if (!is_supported(cg, n->op))
        return (md_cg_name){NULL, true};
    bool at_root = md_cg_can_hoist(cg, !md_cg_varies(cg, v), true);
    accumulator a = make(cg, v, at_root);
    choose_cut(&a);
    print_start(&a);
    print_total(&a);
    for (int32_t i = 0; i < n->n_bound; i++) {
        print_loop(&a, i);
        md_cg_open(cg, a.sink, n->bound[i]);
    }
    if (a.is_grouped) {
        md_cg_group_share(cg, n->arg[0]);
        md_cg_group_open(cg, a.sink);
    }
    print_body(&a);
    if (a.is_grouped)
        md_cg_group_close(cg, a.sink);
    for (int32_t i = n->n_bound - 1; i >= 0; i--) {
        md_cg_close(cg);
        print_loop_end(&a, i);
    }
    return finish(&a, v, at_root);
}

/* The prefix (or suffix) of the current position, computed from its start each time. */
md_cg_name md_cg_scan(md_cg *cg, md_cg_value_number *v)
{
    const md_fx_node *n = v->node;
    int32_t x = n->bound[0];
    if (x == cg->o.lane) {
        md_cg_error(cg, md_fail(MD_INTERNAL, "a scan runs along the lanes"));
        return (md_cg_name){NULL, true};
    }
    char size[32];
    bool at_root = md_cg_can_hoist(cg, !md_cg_varies(cg, v), true);
    accumulator a = make(cg, v, at_root);
    print_start(&a);
    md_strbuf_printf(a.sink, "{\nconst int64_t from%" PRId32 " = ", a.number);
    if (n->reverse)
        md_strbuf_printf(a.sink, "x%" PRId32 "%s, to%" PRId32 " = %s;\n", x, n->exclusive ? " + 1" : "", a.number,
                         md_cg_size(size, cg->program, x));
    else
        md_strbuf_printf(a.sink, "0, to%" PRId32 " = x%" PRId32 "%s;\n", a.number, x, n->exclusive ? "" : " + 1");
    if (n->reverse && is_recurrence(n->op)) /* the order matters */
        md_strbuf_printf(a.sink,
                         "for (int64_t x%" PRId32 " = to%" PRId32 " - 1; x%" PRId32 " >= from%" PRId32 "; x%" PRId32
                         "--) {\n",
                         x, a.number, x, a.number, x);
    else
        md_strbuf_printf(
            a.sink, "for (int64_t x%" PRId32 " = from%" PRId32 "; x%" PRId32 " < to%" PRId32 "; x%" PRId32 "++) {\n", x,
            a.number, x, a.number, x);
    md_cg_open(cg, a.sink, x);
    print_body(&a);
    md_cg_close(cg);
    md_strbuf_add(a.sink, "}\n}\n");
    return finish(&a, v, at_root);
}
