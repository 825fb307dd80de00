/* Whole-number expressions over sizes and tunables, in the syntax of formulas: grids, shared memory and envelopes of
 * custom kernels. */
#ifndef MD_FAMILY_CUSTOM_RULE_H
#define MD_FAMILY_CUSTOM_RULE_H

#include "expr/formula.h"

enum { MD_FA_RULE_CODE = 96, MD_FA_RULE_DEPTH = 24 };

typedef struct md_fa_rule {
    int32_t n; /* 0: no expression was given */
    bool uses_sizes;
    struct {
        int32_t op;
        int64_t value; /* a constant, a dim id, the number of a tunable */
    } code[MD_FA_RULE_CODE]; /* postfix */
} md_fa_rule;

/* Names that a rule may use besides the formula's dims ("n", "E.0"). */
typedef struct md_fa_rule_names {
    const md_fx_formula *formula;
    int32_t n;
    const char *const *name; /* tunables */
} md_fa_rule_names;

/** Parses "a, b, c": at most `most` expressions of numbers, names, + - * // % (rounded towards minus infinity), min(a,
 * b, ..), max(a, b, ..), comparisons, and, or, not. NULL text: none. INVALID_ARGUMENT says `what`, line and column. */
md_status md_fa_rule_parse(md_fa_rule *out, int32_t most, int32_t *n, const char *text, const char *what,
                           const md_fa_rule_names *names);
/** The value, with sizes by dim id. False if it divides by 0 or exceeds 64 bits. */
bool md_fa_rule_eval(int64_t *out, const md_fa_rule *rule, const int64_t *size, const int32_t *tunable);

#endif
