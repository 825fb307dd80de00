/* Expressions of whole numbers over numbered inputs: sizes, tunables, indices. One evaluator serves subscripts of
 * formulas, rules of custom kernels, tensors of sequences and PyTorch's graphs, so that all divide, overflow and fail
 * alike. */
#ifndef MD_EXPR_WHOLE_H
#define MD_EXPR_WHOLE_H

#include "expr/ops.h"

#include <md/md.h>

/* What a step pushes, in place of an operation. */
enum { MD_FX_WHOLE_CONSTANT = -1, MD_FX_WHOLE_INPUT = -2 };

typedef struct md_fx_whole_step { /* without padding: equal steps are equal bytes */
    int32_t op; /* an md_fx_op or one of the above */
    uint8_t n_args, at[3]; /* the place of each operand among the n_args last values */
    int64_t value; /* the constant, or the number of the input */
} md_fx_whole_step;

/* Steps in an order in which 64 values at once are enough, whatever the length. One block of memory: free() ends it.
 * Never changes, so any thread may use it. */
typedef struct md_fx_whole {
    const char *text; /* the text that it was written as, or "" */
    int32_t n;
    md_fx_whole_step step[];
} md_fx_whole;

/* ---- Making one: operands first */

typedef struct md_fx_whole_maker {
    struct md_fx_whole_node *node;
    int32_t *open; /* nodes that no operation has taken yet */
    int32_t n, n_open;
    bool failed; /* memory was short */
} md_fx_whole_maker;

void md_fx_whole_push(md_fx_whole_maker *maker, int32_t op, int64_t value);
/** Takes as many operands as the operation has. */
void md_fx_whole_apply(md_fx_whole_maker *maker, md_fx_op op);
/** The expression of the one operand that is open; the maker is empty then. NULL if memory was short at any time. */
md_fx_whole *md_fx_whole_finish(md_fx_whole_maker *maker, const char *text, size_t n_text);
void md_fx_whole_maker_destroy(md_fx_whole_maker *maker);

/* ---- From text */

typedef struct md_fx_names {
    int32_t n;
    const char *const *name; /* of the inputs, by number: "n", "E.0" */
    const char *what; /* what to call a name that is not among them: "no dim" */
} md_fx_names;

/** Parses "a, b, c": at most `most` expressions of numbers, names, + - * // % (rounded towards minus infinity), min(a,
 * b, ..), max(a, b, ..), comparisons, and, or, not. Text of any length; NULL or "": none. out[i] is the caller's to
 * free, also those before a mistake: *n says how many. INVALID_ARGUMENT says `what`, line and column. */
md_status md_fx_whole_parse(md_fx_whole **out, int32_t most, int32_t *n, const char *text, const char *what,
                            const md_fx_names *names);
/** True for a word of these texts, which can be no name: min, and, .. */
bool md_fx_whole_is_word(const char *name);

/* ---- Values */

/** The value. False if it divides by 0 or exceeds 64 bits: not in what `where`, `and` and `or` need not look at. */
bool md_fx_whole_eval(int64_t *out, const md_fx_whole *whole, const int64_t *input);
/** Fails with the sentence for an expression that has no value: INVALID_ARGUMENT. */
md_status md_fx_whole_fail(const md_fx_whole *whole) __attribute__((cold));
/** True if it reads an input below n. */
bool md_fx_whole_reads(const md_fx_whole *whole, int32_t n);

#endif
