/* Constants as C text, and names converted to another type or spread over lanes. */
#include "codegen/expression/printer.h"

#include <inttypes.h>
#include <math.h>

const char *md_cg_splat(md_cg *cg, const char *name, md_dtype type)
{
    return name ? md_cg_format(cg, "md_splat_%s(%s)", md_cg_suffix_in(cg, type, false), name) : NULL;
}

static const char *real_text(md_cg *cg, double value, md_dtype type)
{
    const char *f = type == MD_F32 ? "f" : "";
    if (isnan(value))
        return md_cg_format(cg, "__builtin_nan%s(\"\")", f);
    if (isinf(value))
        return md_cg_format(cg, "(%s__builtin_inf%s())", value < 0 ? "-" : "", f);
    if (type == MD_F32 && fabs(value) > 0x1.fffffep127)
        return md_cg_format(cg, "((float)%.17g)", value);
    /* In decimal where that is short and exact, which reads better; else in hexadecimal, so that no bit is lost. */
    const char *text = md_cg_format(cg, value == rint(value) && fabs(value) < 1e6 ? "%.1f%s" : "%a%s",
                                    type == MD_F32 ? (double)(float)value : value, f);
    return signbit(value) && text ? md_cg_format(cg, "(%s)", text) : text;
}

const char *md_cg_integer(md_cg *cg, int64_t value)
{
    if (value == INT64_MIN)
        return "(-INT64_C(9223372036854775807) - 1)";
    return md_cg_format(cg, value < 0 ? "(-INT64_C(%" PRId64 "))" : "INT64_C(%" PRId64 ")", value < 0 ? -value : value);
}

/* A constant as an operand of another type: converted here, not in the text. */
const char *md_cg_constant(md_cg *cg, const md_fx_node *n, md_dtype type)
{
    bool is_real = md_dtype_is_real(n->type);
    double real = is_real ? n->num : (double)n->integer;
    if (n->type == MD_F32)
        real = (double)(float)real;
    if (md_dtype_is_real(type))
        return real_text(cg, real, type);
    if (type == MD_BOOL)
        return (is_real ? real != 0 : n->integer != 0) ? "1" : "0";
    if (!is_real)
        return md_cg_integer(cg, n->integer);
    int64_t integer = 0;
    md_dtype_store(MD_I64, &integer, 0, real);
    return md_cg_integer(cg, integer);
}

const char *md_cg_convert(md_cg *cg, const char *name, md_dtype from, md_dtype to, bool is_uniform)
{
    if (from == to || !name)
        return name;
    return md_cg_format(cg, "md_cast_%s_%s(%s)", md_cg_suffix_in(cg, from, is_uniform),
                        md_cg_suffix_in(cg, to, is_uniform), name);
}
