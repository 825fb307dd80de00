/* One call of an op whose values follow from their place: an element of a tensor is the same wherever the call's
 * batch begins and however long it is. */
#ifndef MD_TESTS_NUMERIC_CASE_H
#define MD_TESTS_NUMERIC_CASE_H

#include <md/md.h>
#include <stdbool.h>

typedef struct numeric_case {
    const char *formula, *static_sizes; /* the latter may be NULL */
    md_dtype dtype;
    const char *batch; /* names of the batch dims, blank between them: "b n" */
    const char *sizes; /* of the others: "n=1000, k=64" */
} numeric_case;

enum { NUMERIC_MAX_ARGS = 8 };

/* Outlives its op. */
typedef struct numeric_call {
    md_context *context;
    int32_t n;
    md_arg arg[NUMERIC_MAX_ARGS];
    md_arg_info info[NUMERIC_MAX_ARGS];
    md_tensor tensor[NUMERIC_MAX_ARGS];
    void *memory[NUMERIC_MAX_ARGS]; /* of the device */
    char *image[NUMERIC_MAX_ARGS]; /* tensors without gaps, here */
    int64_t first; /* of all batch dims */
} numeric_call;

/* Which part of the batch a call takes, and how its data lies. */
typedef struct numeric_part {
    int64_t first, n; /* points along each batch dim */
    size_t offset; /* bytes between a boundary of 256 and the data */
} numeric_part;

/** Arguments for a part of the batch. Fails the test on errors. */
void numeric_call_make(numeric_call *out, md_context *context, md_op *op, const numeric_case *c, numeric_part part);
void numeric_call_free(numeric_call *call);
/** Calls, waits, and copies outputs into the images. Inputs that are outputs, too, start afresh. */
void numeric_call_run(numeric_call *call, md_op *op);
/** Whether all outputs of `part` have the bits that `whole` has there; else says where not. */
bool numeric_same(char *text, size_t n_text, const numeric_call *whole, const numeric_call *part, const char *batch);

#endif
