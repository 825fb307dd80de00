/* A package that is open. include/md/package.h documents the public functions, README.md the plan. */
#ifndef MD_PACKAGE_PACKAGE_H
#define MD_PACKAGE_PACKAGE_H

#include "base/json.h"
#include "expr/whole.h"

#include <md/package.h>
#include <md/sequence.h>

enum { MD_PK_VERSION = 1, MD_PK_DIMS = 64 };
#define MD_PK_PLAN "package" /* the kind and the key of the plan among the entries of the file */
#define MD_PK_WEIGHT "package-weight" /* the kind of weights; the key is the number */

/* Expressions over the dims. */
typedef struct md_pk_shape {
    int32_t rank;
    md_fx_whole *size[MD_MAX_RANK], *stride[MD_MAX_RANK]; /* stride NULL: contiguous */
} md_pk_shape;

/* A tensor that a call is given. */
typedef struct md_pk_port {
    const char *name; /* in the plan */
    md_dtype dtype;
    int32_t place; /* in the data of a run */
    md_pk_shape shape; /* as callers see it */
    md_pk_shape memory; /* as the sequence writes it: of no more elements */
} md_pk_port;

/* Axis `axis` of input `input` has the size of a dim. */
typedef struct md_pk_dim {
    int32_t input, axis;
} md_pk_dim;

typedef struct md_pk_condition {
    const char *text;
    md_fx_whole *whole;
} md_pk_condition;

/* Nothing of it changes after it was made, but what its sequence guards itself. */
struct md_package {
    md_context *context;
    md_sequence *sequence;
    json_t *plan;
    md_op **op;
    void **weight; /* [n_weights], of the context's device */
    md_pk_dim *dim;
    md_pk_port *input, *output;
    md_pk_condition *condition; /* what the sizes have to be */
    int32_t n_ops, n_weights, n_dims, n_inputs, n_outputs, n_conditions;
};

/* ---- plan.c */

/** Parses a plan and checks what does not depend on a device. CORRUPT, UNSUPPORTED. */
md_status md_pk_read(md_package *package, const char *text);
void md_pk_finish(md_package *package);

/* ---- build.c */

/** Gives the bytes of weight number i; *bytes stays the giver's until `end`. */
typedef struct md_pk_weights {
    md_status (*begin)(void *user, int32_t i, const void **bytes, size_t *n);
    void (*end)(void *user);
    void *user;
} md_pk_weights;

/** Makes weights, ops and the sequence, in package->context. */
md_status md_pk_build(md_package *package, const md_pk_weights *weights);

/* ---- call.c */

/** Sizes and strides of a port where the dims have these sizes. CORRUPT: it has less memory than is written. */
md_status md_pk_see(md_tensor *out, const md_pk_port *port, const int64_t *size);
/** Elements from a tensor's first to its last, whose sizes and strides are not negative. False beyond 63 bits. */
bool md_pk_reach(int64_t *out, const md_tensor *t);

#endif
