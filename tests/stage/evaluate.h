/* Values of expressions, for the interpreter. */
#ifndef MD_TESTS_STAGE_EVALUATE_H
#define MD_TESTS_STAGE_EVALUATE_H

#include "interpret.h"

typedef struct value {
    bool is_real;
    double real;
    int64_t whole;
} value;

/* Results of a row, or of a part of one. */
typedef struct results {
    int64_t count;
    value ref[MD_ST_MAX_REDUCTIONS];
    value best[MD_ST_MAX_REDUCTIONS]; /* ARGMAX and ARGMIN: what lies at the position */
    bool is_part; /* of a row that is put together */
} results;

typedef struct machine {
    const md_st_program *program;
    const md_fx_formula *formula;
    const md_fx_binding *binding;
    const interpret_options *options;
    md_tensor tensor[MD_FX_MAX_TENSORS];
    int64_t at[MD_FX_MAX_INDICES * 2];
    const results *row;
} machine;

value real(double x);
value whole(int64_t x);
double to_real(value v);
value evaluate(machine *m, const md_fx_node *n);
/** Writes a value where the store says. */
void store(machine *m, const md_st_store *s, value v);
/** The value of a reduction or scan of nothing; one more element. */
value identity(md_fx_op op, md_dtype type, md_dtype body_type);
value combine(md_fx_op op, value a, value b);
/** ARGMAX and ARGMIN; whether b, which lies further on, takes the place of a. */
bool is_position(md_fx_op op);
bool is_better(md_fx_op op, value a, value b);
int64_t size_of(const machine *m, int32_t index);
/** Loops over indices, the last moving fastest: false where there is nothing (more). */
bool first(machine *m, int32_t n, const int32_t *index);
bool next(machine *m, int32_t n, const int32_t *index);
value scan_to(machine *m, const md_st_scan *scan, int32_t index);

#endif
