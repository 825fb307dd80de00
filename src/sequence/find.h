/* Finds the shape of a run, or binds a new one. */
#ifndef MD_SEQUENCE_FIND_H
#define MD_SEQUENCE_FIND_H

#include "sequence/shape.h"

/** Reads addresses and scalars into sq->word. */
void md_sq_take_words(md_sq *sq, void *const *data, bool with_scalars);

/** The shape for these sizes and sq->word, whose parameters have them. */
md_status md_sq_find(md_sq_shape **out, md_sq *sq, const int64_t *size, md_sq_find_how *how);

#endif
