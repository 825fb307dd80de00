/* A user's own kernels are trusted with nothing: each variant must give the reference's results on small shapes
 * before it may serve. */
#ifndef MD_DISPATCH_SELECT_VERIFY_CUSTOM_H
#define MD_DISPATCH_SELECT_VERIFY_CUSTOM_H

#include "dispatch/types.h"

/** Waits for the builds of custom kernels in the pools, and verifies what was built. A variant with wrong results, or
 * that writes beside its outputs, is FAILED from then on (a warning says why). COMPILE where no variant of some
 * custom kernel could be built, with the compiler's message. */
md_status md_ds_custom_verify(md_ds_op *op);

#endif
