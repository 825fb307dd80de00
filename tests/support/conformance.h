/* Reads conformance.txt (its format stands in tests/expr/conformance.py) and compares results with it: for the
 * reference evaluator and for every device alike. */
#ifndef MD_TESTS_SUPPORT_CONFORMANCE_H
#define MD_TESTS_SUPPORT_CONFORMANCE_H

#include <md/md.h>
#include <stdbool.h>
#include <stddef.h>

enum { CONFORMANCE_MAX = 16, CONFORMANCE_TEXT = 1024 };

typedef struct conformance_tensor {
    char name[32];
    bool is_output, is_default_dtype;
    md_tensor tensor; /* contiguous; inputs and initial values are filled in, other outputs hold 0xA5 bytes */
    int64_t n;
    double *value; /* of an input, or expected; rounded to nothing yet */
    int64_t *whole; /* the same for integer dtypes, exact */
    double *start; /* outputs with initial values */
} conformance_tensor;

typedef struct conformance_case {
    char name[64], formula[CONFORMANCE_TEXT], sizes[128], fails[128], fault_tensor[32];
    md_bounds bounds;
    md_dtype dtype; /* the default dtype of this run */
    int n_tensors, n_scalars;
    conformance_tensor tensor[CONFORMANCE_MAX];
    struct {
        char name[32];
        double value;
    } scalar[CONFORMANCE_MAX];
    bool has_fault;
    int fault_axis;
    int64_t fault_value;
    bool has_types, runs_as[16]; /* by md_dtype */
} conformance_case;

/** All cases of a file. False if it cannot be read (the reason goes to stderr). */
typedef struct conformance_list {
    conformance_case *at;
    int n, capacity;
} conformance_list;
bool conformance_load(conformance_list *out, const char *path);
void conformance_finish(conformance_list *list);
/** Runs fn on one of them, once for each default dtype that it is for; one thread a case at a time. Returns the
 * number of runs. */
int conformance_run(conformance_case *c, void (*fn)(void *user, const conformance_case *c), void *user);

/** Runs fn on every case, once for each default dtype that it is for. Returns the number of runs, -1 if the file cannot
 * be read (the reason goes to stderr). */
int conformance_each(const char *path, void (*fn)(void *user, const conformance_case *c), void *user);
/** The argument of that name: false if the case has none. */
bool conformance_arg(md_arg *out, const conformance_case *c, const char *name, bool is_int_scalar);
/** Sets the data of inputs and outputs anew. */
void conformance_reset(const conformance_case *c);
/** Compares every output: |got - want| <= factor * roundoff of the output's dtype * max(|want|, 2^-10), integers
 * exactly. False, with one line about the first difference in `text`. */
bool conformance_check(const conformance_case *c, double factor, char *text, size_t n_text);

#endif
