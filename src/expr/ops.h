/* The operations of the formula language and their attributes, all from the table in ops.def. */
#ifndef MD_EXPR_OPS_H
#define MD_EXPR_OPS_H

#include <stdbool.h>
#include <stdint.h>

#define MD_OP(id, ...) MD_FX_##id,
typedef enum md_fx_op {
    MD_FX_NO_OP = 0,
#include "expr/ops.def"
    MD_FX_N_OPS
} md_fx_op;

/* How the type of the result follows from the common type of the operands. */
typedef enum md_fx_rule {
    MD_FX_RULE_NUMBER, /* that type; bool counts as i64 */
    MD_FX_RULE_SAME, /* that type, bool included */
    MD_FX_RULE_SELECT, /* the type of the arms: operand 0 is a condition */
    MD_FX_RULE_REAL, /* f32 unless f64 */
    MD_FX_RULE_TEST, /* bool */
    MD_FX_RULE_INTEGER, /* i64, bool where all are bool; no reals */
    MD_FX_RULE_LOGIC, /* bool; operands are converted to bool */
    MD_FX_RULE_INDEX /* i64 */
} md_fx_rule;

typedef enum md_fx_binder { MD_FX_BINDS_NOTHING, MD_FX_REDUCES, MD_FX_SCANS } md_fx_binder;
typedef enum md_fx_rounding { MD_FX_APPROXIMATE, MD_FX_ROUNDED, MD_FX_EXACT } md_fx_rounding;

/* How tightly a sign binds, as in Python; a call, a tensor or a name binds tightest. */
typedef enum md_fx_level {
    MD_FX_LEVEL_ANY,
    MD_FX_LEVEL_OR,
    MD_FX_LEVEL_AND,
    MD_FX_LEVEL_NOT,
    MD_FX_LEVEL_COMPARE,
    MD_FX_LEVEL_BIT_OR,
    MD_FX_LEVEL_BIT_XOR,
    MD_FX_LEVEL_BIT_AND,
    MD_FX_LEVEL_SHIFT,
    MD_FX_LEVEL_SUM,
    MD_FX_LEVEL_TERM,
    MD_FX_LEVEL_SIGN,
    MD_FX_LEVEL_PRIMARY
} md_fx_level;

/* A row of the table; ops.def explains the attributes. */
typedef struct md_fx_op_row {
    const char *name; /* generated text calls md_<name>_f and its like */
    const char *text; /* what formulas write: the name or a sign */
    const char *sign; /* the C operator of generated text; NULL: a function */
    const char *uses; /* math.h defines the function where MD_USE_<uses> is defined */
    int32_t arity;
    md_fx_rule rule;
    md_fx_level level; /* of a sign; else MD_FX_LEVEL_ANY */
    md_fx_binder binder;
    md_fx_rounding rounding;
    bool is_math; /* of reals: defined by math.h of the kernels */
    bool is_whole; /* gives whole numbers: of an integer it is the integer itself */
    bool flushes; /* results below 2^-119 may come out as 0 */
    bool cancels; /* an absolute error of 4 * 2^-24 * min(|a|, 16) comes on top */
    bool has_poles; /* jumps at poles, which are more than 1 apart; rising between them */
    double slots; /* host vector instructions; 0 where units counts */
    double units; /* elementary functions of the host's cost model; 0 for cheap operations */
    double host_ulps, gpu_ulps; /* largest error in f32; 0: none is stated */
    double slope; /* Lipschitz constant of functions that are not monotone; 0 for others */
    double lo, hi; /* operands that give useful results */
} md_fx_op_row;

/** The row of an operation; for no operation a row that says "?". */
const md_fx_op_row *md_fx_op_info(md_fx_op op);
/** What formulas write; "?" for no operation. */
const char *md_fx_op_text(md_fx_op op);
/** and, or, not: operands are truth values. */
bool md_fx_op_is_logic(md_fx_op op);
/** Comparisons, isnan and isinf: a bool about numbers. */
bool md_fx_op_is_test(md_fx_op op);
/** & | ^ ~ << >>: operands are integers or truth values. */
bool md_fx_op_is_bitwise(md_fx_op op);
/** Elementary functions: dear to compute twice. */
bool md_fx_op_is_heavy(md_fx_op op);
/** Called with parentheses in formulas: f(a, b). */
bool md_fx_op_is_function(md_fx_op op);
/** Reductions and scans: name[k](body). */
bool md_fx_op_is_binder(md_fx_op op);
bool md_fx_op_is_scan(md_fx_op op);

/** The function of that name (exp, max, where, ...), MD_FX_NO_OP if there is none. */
md_fx_op md_fx_function_named(const char *name);
/** The reduction or scan of that name, MD_FX_NO_OP if there is none. max and min are functions too. */
md_fx_op md_fx_binder_named(const char *name);
/** True if the language uses the name, so that no tensor, index or scalar can have it. */
bool md_fx_is_word(const char *name);

/** True of recur, recur_max and recur_min, whose body is a STEP of two operands. */
static inline bool md_fx_is_recurrence(md_fx_op op)
{
    return op >= MD_FX_S_LINEAR && op <= MD_FX_S_MIN_PLUS;
}

#endif
