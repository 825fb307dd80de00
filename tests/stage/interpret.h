/* Runs a program's stages from their description alone, one scalar at a time in doubles: what every kernel must come
 * to. Rows are run as they stand (all elements, level after level) or online: cut at random places, each part run by
 * itself, the parts' results merged by the rules, in random order. */
#ifndef MD_TESTS_STAGE_INTERPRET_H
#define MD_TESTS_STAGE_INTERPRET_H

#include "expr/eval/eval.h"
#include "stage/stage.h"

typedef struct interpret_options {
    bool online; /* rows whose reductions all have a merge rule */
    uint64_t *random;
} interpret_options;

/** Writes the outputs of the binding. Temporaries are kept in doubles and integers of 64 bits. */
void interpret(const md_st_program *program, const md_fx_binding *binding, const interpret_options *options);

#endif
