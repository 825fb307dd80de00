/* The operations of the formula language: one table for parser, inference, evaluator and code generators. */
#ifndef MD_EXPR_OPS_H
#define MD_EXPR_OPS_H

/* X(enumerator, spelled in formulas, operands). Operators are spelled as their sign. */
#define MD_FX_OPS(X)                                                                                                   \
    X(NEG, "-", 1)                                                                                                     \
    X(ADD, "+", 2)                                                                                                     \
    X(SUB, "-", 2)                                                                                                     \
    X(MUL, "*", 2)                                                                                                     \
    X(DIV, "/", 2)                                                                                                     \
    X(FLOORDIV, "//", 2)                                                                                               \
    X(MOD, "%", 2)                                                                                                     \
    X(LT, "<", 2)                                                                                                      \
    X(LE, "<=", 2)                                                                                                     \
    X(GT, ">", 2)                                                                                                      \
    X(GE, ">=", 2)                                                                                                     \
    X(EQ, "==", 2)                                                                                                     \
    X(NE, "!=", 2)                                                                                                     \
    X(AND, "and", 2)                                                                                                   \
    X(OR, "or", 2)                                                                                                     \
    X(NOT, "not", 1)                                                                                                   \
    X(WHERE, "where", 3)                                                                                               \
    X(ABS, "abs", 1)                                                                                                   \
    X(SIGN, "sign", 1)                                                                                                 \
    X(EXP, "exp", 1)                                                                                                   \
    X(EXPM1, "expm1", 1)                                                                                               \
    X(LOG, "log", 1)                                                                                                   \
    X(LOG1P, "log1p", 1)                                                                                               \
    X(LOG2, "log2", 1)                                                                                                 \
    X(EXP2, "exp2", 1)                                                                                                 \
    X(SQRT, "sqrt", 1)                                                                                                 \
    X(RSQRT, "rsqrt", 1)                                                                                               \
    X(SIN, "sin", 1)                                                                                                   \
    X(COS, "cos", 1)                                                                                                   \
    X(TANH, "tanh", 1)                                                                                                 \
    X(ERF, "erf", 1)                                                                                                   \
    X(SIGMOID, "sigmoid", 1)                                                                                           \
    X(SILU, "silu", 1)                                                                                                 \
    X(RELU, "relu", 1)                                                                                                 \
    X(GELU, "gelu", 1)                                                                                                 \
    X(GELU_TANH, "gelu_tanh", 1)                                                                                       \
    X(SOFTPLUS, "softplus", 1)                                                                                         \
    X(FLOOR, "floor", 1)                                                                                               \
    X(CEIL, "ceil", 1)                                                                                                 \
    X(ROUND, "round", 1)                                                                                               \
    X(TRUNC, "trunc", 1)                                                                                               \
    X(ISNAN, "isnan", 1)                                                                                               \
    X(ISINF, "isinf", 1) X(POW, "pow", 2) X(MIN, "min", 2) X(MAX, "max", 2) X(CLAMP, "clamp", 3) X(FMA, "fma", 3)

/* Reductions: name[indices](body). MEAN becomes SUM / size and VAR a pair of sums before anything is compiled. */
#define MD_FX_REDUCTIONS(X)                                                                                            \
    X(R_SUM, "sum")                                                                                                    \
    X(R_PROD, "prod")                                                                                                  \
    X(R_MAX, "max")                                                                                                    \
    X(R_MIN, "min")                                                                                                    \
    X(R_MEAN, "mean") X(R_VAR, "var") X(R_ARGMAX, "argmax") X(R_ARGMIN, "argmin") X(R_ANY, "any") X(R_ALL, "all")

/* Scans: name[index](body [, exclusive] [, reverse]). */
#define MD_FX_SCANS(X) X(S_SUM, "cumsum") X(S_PROD, "cumprod") X(S_MAX, "cummax") X(S_MIN, "cummin")

#define MD_FX_X(name, ...) MD_FX_##name,
typedef enum md_fx_op {
    MD_FX_NO_OP = 0,
    MD_FX_OPS(MD_FX_X) MD_FX_REDUCTIONS(MD_FX_X) MD_FX_SCANS(MD_FX_X) MD_FX_N_OPS
} md_fx_op;
#undef MD_FX_X

/** The spelling, "?" out of range. */
const char *md_fx_op_text(md_fx_op op);
/** Operands of an elementwise op; 1 for reductions and scans. */
int md_fx_op_arity(md_fx_op op);

#endif
