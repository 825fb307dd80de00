/* Calls whose results tell which variant served: kernels store the mark of their variant. Builds can be held. */
#ifndef MD_TESTS_DISPATCH_MARKS_H
#define MD_TESTS_DISPATCH_MARKS_H

#include "dispatch/support/script.h"

extern script_world marks_world;
extern const char *const marks_formula;

/** By the model alpha (mark 0) is better below 1000 elements, beta (mark 10) above. */
int marks_set_up(void **state);
int marks_tear_down(void **state);

/** An op that is made asynchronously, after its pool was filled. */
md_ds_op *marks_async_op(void);
/** Builds of this text wait until another one is held; NULL: none. */
void marks_hold(const char *text);
/** The mark of a call with n elements, or -1 with its status. */
int32_t marks_call_status(md_status *status, md_ds_op *op, int64_t n);
/** The same for calls that must not fail. */
int32_t marks_call(md_ds_op *op, int64_t n);

#endif
