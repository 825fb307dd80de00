/* Attributes of operations, and the names that the language reserves. */
#include "expr/ops.h"

#include <math.h>
#include <md/md.h>
#include <string.h>

#define SLOTS(n) .slots = (n)
#define UNITS(n) .units = (n), .is_math = true
#define MATH .is_math = true
#define EXACT .rounding = MD_FX_EXACT
#define WHOLE .is_whole = true
#define ROUNDED .rounding = MD_FX_ROUNDED
#define ULPS(host, gpu) .host_ulps = (host), .gpu_ulps = (gpu)
#define FLUSHES .flushes = true
#define CANCELS .cancels = true
#define POLES .has_poles = true
#define SLOPE(s) .slope = (s)
#define DOMAIN(l, h) .lo = (double)(l), .hi = (double)(h)
#define OPERATOR(s) .text = (s), .sign = (s)
#define TEXT(s) .text = (s)
#define LEVEL(l) .level = MD_FX_LEVEL_##l
#define BINDS(how) .binder = (how)

#define MD_OP(id, lower, rule_name, operands, ...)                                                                     \
    [MD_FX_##id] = {.name = #lower, .uses = #id, .arity = (operands), .rule = MD_FX_RULE_##rule_name, __VA_ARGS__},
static const md_fx_op_row rows[MD_FX_N_OPS] = {
    [MD_FX_NO_OP] = {.name = "?"},
#include "expr/ops.def"
};

static const char *const keywords[] = {"let", "scalar", "size", "inf", "nan", "pi", "true", "false"};

const md_fx_op_row *md_fx_op_info(md_fx_op op)
{
    return &rows[op > MD_FX_NO_OP && op < MD_FX_N_OPS ? op : MD_FX_NO_OP];
}

const char *md_fx_op_text(md_fx_op op)
{
    const md_fx_op_row *row = md_fx_op_info(op);
    return row->text ? row->text : row->name;
}

bool md_fx_op_is_logic(md_fx_op op)
{
    return md_fx_op_info(op)->rule == MD_FX_RULE_LOGIC;
}

bool md_fx_op_is_test(md_fx_op op)
{
    return md_fx_op_info(op)->rule == MD_FX_RULE_TEST;
}

bool md_fx_op_is_bitwise(md_fx_op op)
{
    return md_fx_op_info(op)->rule == MD_FX_RULE_INTEGER;
}

bool md_fx_op_is_heavy(md_fx_op op)
{
    return md_fx_op_info(op)->units > 0;
}

bool md_fx_op_is_function(md_fx_op op)
{
    const md_fx_op_row *row = md_fx_op_info(op);
    return row->arity > 0 && !row->text && row->binder == MD_FX_BINDS_NOTHING && row->rule != MD_FX_RULE_LOGIC;
}

static md_fx_op find_op(const char *name, bool (*is_wanted)(md_fx_op op))
{
    for (int op = MD_FX_NO_OP + 1; op < MD_FX_N_OPS; op++)
        if (is_wanted((md_fx_op)op) && strcmp(rows[op].name, name) == 0)
            return (md_fx_op)op;
    return MD_FX_NO_OP;
}

md_fx_op md_fx_function_named(const char *name)
{
    return find_op(name, md_fx_op_is_function);
}

bool md_fx_op_is_binder(md_fx_op op)
{
    return md_fx_op_info(op)->binder != MD_FX_BINDS_NOTHING;
}

md_fx_op md_fx_binder_named(const char *name)
{
    return find_op(name, md_fx_op_is_binder);
}

bool md_fx_op_is_scan(md_fx_op op)
{
    return md_fx_op_info(op)->binder == MD_FX_SCANS;
}

bool md_fx_is_word(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (strcmp(keywords[i], name) == 0)
            return true;
    return find_op(name, md_fx_op_is_logic) || md_fx_function_named(name) || md_fx_binder_named(name) ||
           md_dtype_parse(name) != MD_DTYPE_DEFAULT;
}
