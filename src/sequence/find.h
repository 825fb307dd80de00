/* Finds the shape of a run, or binds a new one. */
#ifndef MD_SEQUENCE_FIND_H
#define MD_SEQUENCE_FIND_H

#include "sequence/shape.h"

/** Reads addresses and scalars into sq->word. */
void md_sq_take_words(md_sq *sq, void *const *data, bool with_scalars);
typedef struct md_sq_find_how {
    md_stream stream; /* that will run: while it is captured, nothing is bound */
    bool is_patient; /* waits for the best kernels */
    /* runs a call on the stream: a new shape's are enqueued one by one, as soon as they are bound; NULL: none are */
    md_status (*start)(md_sq *sq, const md_sq_shape *shape, int32_t step, md_stream stream);
    bool has_run; /* out: all of them are */
} md_sq_find_how;

/** The shape for these sizes and sq->word, whose parameters have them. */
md_status md_sq_find(md_sq_shape **out, md_sq *sq, const int64_t *size, md_sq_find_how *how);

#endif
