/* Shapes that a program met, from its statistics (MD_STATS=FILE.json): what hints are suggested for. */
#ifndef MDCTL_MET_H
#define MDCTL_MET_H

#include <jansson.h>
#include <md/md.h>
#include <stdbool.h>

typedef struct met {
    int32_t n;
    md_met_shape *shape; /* texts are owned */
} met;

/** The shapes of an op by its name, weighed by calls or by time; met_finish() frees them. */
void met_collect(met *out, const json_t *root, const char *op, bool by_calls);
void met_finish(met *m);
/** Sets what the op of the statistics was made with, where options do not say otherwise. */
void met_options(md_op_options *options, const json_t *op);
/** Ops made with other hints or pins have rows of their own, but one formula under one name is asked about once. True
 * for an op of the list that one before it stands for, and for the sum of destroyed ops, which has no formula. */
bool met_is_repeated(const json_t *ops, size_t at);

#endif
