/* One row per operation; the enumerators come from the same lists, so rows cannot go astray. */
#include "expr/ops.h"
#include "expr/front/words.h"

#include <md/md.h>
#include <string.h>

typedef struct op_row {
    const char *text;
    int arity;
} op_row;

#define OP_ROW(name, text, arity) [MD_FX_##name] = {text, arity},
#define BINDER_ROW(name, text) [MD_FX_##name] = {text, 1},
static const op_row rows[MD_FX_N_OPS] = {[MD_FX_NO_OP] = {"?", 0},
                                         MD_FX_OPS(OP_ROW) MD_FX_REDUCTIONS(BINDER_ROW) MD_FX_SCANS(BINDER_ROW)};
#undef OP_ROW
#undef BINDER_ROW

static const char *const keywords[] = {"let", "scalar", "size", "and",  "or",   "not",
                                       "inf", "nan",    "pi",   "true", "false"};

static bool is_in_range(md_fx_op op)
{
    return op > MD_FX_NO_OP && op < MD_FX_N_OPS;
}

const char *md_fx_op_text(md_fx_op op)
{
    return is_in_range(op) ? rows[op].text : "?";
}

int md_fx_op_arity(md_fx_op op)
{
    return is_in_range(op) ? rows[op].arity : 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static md_fx_op find_op(const char *name, int from, int to)
{
    for (int op = from; op < to; ++op)
        if (is_letter(rows[op].text[0]) && strcmp(rows[op].text, name) == 0)
            return (md_fx_op)op;
    return MD_FX_NO_OP;
}

md_fx_op md_fx_function_named(const char *name)
{
    return find_op(name, MD_FX_WHERE, MD_FX_R_SUM); /* before WHERE stand the operators, spelled by sign or keyword */
}

md_fx_op md_fx_binder_named(const char *name)
{
    return find_op(name, MD_FX_R_SUM, MD_FX_N_OPS);
}

bool md_fx_op_is_scan(md_fx_op op)
{
    return op >= MD_FX_S_SUM && op < MD_FX_N_OPS;
}

bool md_fx_is_word(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; ++i)
        if (strcmp(keywords[i], name) == 0)
            return true;
    return md_fx_function_named(name) || md_fx_binder_named(name) || md_dtype_parse(name) != MD_DTYPE_DEFAULT;
}
