/* Prints the tables of the man pages that only the library knows: a row a line, "table cell cell ...", separated by
 * tabs. Everything else comes from `mdctl help --json`. */
#include "base/dtype.h"
#include "dispatch/policy.h"
#include "dispatch/space/space.h"
#include "expr/formula.h"
#include "expr/front/lex.h"
#include "expr/front/syntax.h"
#include "expr/ops.h"
#include "stage/stage.h"

#include <md/md.h>
#include <stdio.h>

/* The type of an operation's result and its reference for reals. Reductions, scans and keywords have none. */
static const struct reference {
    const char *type, *text;
} references[MD_FX_N_OPS] = {
#define NUMBER(id, name, operands, real, integer, ...) [MD_FX_##id] = {"number", #real},
#define SAME(id, name, operands, real, integer, ...) [MD_FX_##id] = {"same", #real},
#define REAL(id, name, operands, real, ...) [MD_FX_##id] = {"real", #real},
#define TEST(id, name, operands, real, integer, ...) [MD_FX_##id] = {"bool", #real},
#define SELECT(id, name, operands, ...) [MD_FX_##id] = {"that of b and c", "a ? b : c"},
#define INTEGER(id, name, operands, integer, ...) [MD_FX_##id] = {"i64", "of integers only"},
#define MD_OP(...)
#include "expr/ops.def"
};

static void print_operations(void)
{
    for (int i = MD_FX_NO_OP + 1; i < MD_FX_N_OPS; i++) {
        const md_fx_op op = (md_fx_op)i;
        if (op == MD_FX_STEP) /* no word of the language */
            continue;
        const char *table = md_fx_op_is_scan(op)       ? "scans"
                            : md_fx_op_is_binder(op)   ? "reductions"
                            : md_fx_op_is_function(op) ? "functions"
                                                       : "operators";
        printf("%s\t%s\t%d\t%s\t%s\n", table, md_fx_op_text(op), md_fx_op_info(op)->arity,
               references[i].type ? references[i].type : "", references[i].text ? references[i].text : "");
    }
}

static void print_dtypes(void)
{
    static const char *const computed_in[] = {[MD_F32] = "f32", [MD_F64] = "f64", [MD_I64] = "i64", [MD_BOOL] = "bool"};
    for (int32_t k = 0; md_dtype_nth(k) != MD_DTYPE_DEFAULT; k++) {
        const md_dtype dtype = md_dtype_nth(k);
        printf("dtypes\t%s\t%zu\t%s\n", md_dtype_name(dtype), md_dtype_size(dtype),
               computed_in[md_dtype_compute(dtype)]);
    }
}

typedef struct limit {
    const char *what;
    long long most;
} limit;

static void print_rows(const char *table, const limit *row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s\t%s\t%lld\n", table, row[i].what, row[i].most);
}

static void print_limits(void)
{
    static const limit formula[] = {
        {"bytes of text", MD_LEX_MAX_TEXT},
        {"characters of a name", MD_LEX_MAX_NAME},
        {"operations in a row, as the terms of a sum", MD_SYNTAX_MAX_CHAIN},
        {"statements, declarations included", MD_SYNTAX_MAX_STATEMENTS},
        {"assignments, updates of the same tensor included", MD_FX_MAX_STMTS},
        {"declarations in one scalar or size statement", MD_SYNTAX_MAX_DECLARATIONS},
        {"terms", MD_SYNTAX_MAX_NODES},
        {"expressions nested in each other", MD_SYNTAX_MAX_DEPTH},
        {"tensors, lets among them", MD_FX_MAX_TENSORS},
        {"axes of a tensor (its rank)", MD_MAX_RANK},
        {"scalars", MD_FX_MAX_SCALARS},
        {"arguments", MD_FX_MAX_ARGS},
        {"sizes", MD_FX_MAX_DIMS},
        {"indices of all statements", MD_FX_MAX_INDICES},
        {"indices on a left side", 2 * MD_MAX_RANK},
        {"indices that one reduction binds", MD_MAX_RANK},
        {"stages", MD_ST_MAX_STAGES},
    };
    static const limit choice[] = {
        {"dynamic sizes of an op", MD_DS_MAX_DYNAMIC},
        {"hints of an op", MD_DS_MAX_HINTS},
        {"values of one size in a list of hints", MD_DS_MAX_VALUES},
        {"value of a hint", MD_DS_MOST_HINT},
        {"variants in the pool of a stage", MD_DS_MAX_VARIANTS},
    };
    print_rows("limits", formula, sizeof formula / sizeof *formula);
    print_rows("limits_of_choice", choice, sizeof choice / sizeof *choice);
}

int main(void)
{
    print_operations();
    print_dtypes();
    print_limits();
    return 0;
}
