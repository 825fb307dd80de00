/* Prints the tables of the man pages that only the library knows: a row a line, "table cell cell ...", separated by
 * tabs. Everything else comes from `mdctl help --json`. */
#include "base/dtype.h"
#include "expr/formula.h"
#include "expr/front/lex.h"
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
#define MD_OP(...)
#include "expr/ops.def"
};

static void print_operations(void)
{
    for (int i = MD_FX_NO_OP + 1; i < MD_FX_N_OPS; i++) {
        const md_fx_op op = (md_fx_op)i;
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
    for (int i = MD_F32; i <= MD_BOOL; i++) {
        const md_dtype dtype = (md_dtype)i;
        printf("dtypes\t%s\t%zu\t%s\n", md_dtype_name(dtype), md_dtype_size(dtype),
               computed_in[md_dtype_compute(dtype)]);
    }
}

static void print_limits(void)
{
    static const struct {
        const char *what;
        int most;
    } limits[] = {
        {"bytes of text", MD_LEX_MAX_TEXT},
        {"axes of a tensor", MD_MAX_RANK},
        {"tensors", MD_FX_MAX_TENSORS},
        {"scalars", MD_FX_MAX_SCALARS},
        {"arguments", MD_FX_MAX_ARGS},
        {"sizes", MD_FX_MAX_DIMS},
        {"indices of all statements", MD_FX_MAX_INDICES},
        {"assignments", MD_FX_MAX_STMTS},
        {"stages", MD_ST_MAX_STAGES},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        printf("limits\t%s\t%d\n", limits[i].what, limits[i].most);
}

int main(void)
{
    print_operations();
    print_dtypes();
    print_limits();
    return 0;
}
