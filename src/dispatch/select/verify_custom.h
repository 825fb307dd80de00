/* Checks of a user's own kernels: each variant must give the reference evaluator's results on small shapes before it
 * may serve. */
#ifndef MD_DISPATCH_SELECT_VERIFY_CUSTOM_H
#define MD_DISPATCH_SELECT_VERIFY_CUSTOM_H

#include "dispatch/op.h"

/** Waits for the builds of custom kernels, and verifies each variant. One with wrong results, or that writes outside
 * its outputs, becomes FAILED, and a warning says why. COMPILE with the compiler's message if no variant of some custom
 * kernel could be built. */
md_status md_ds_custom_verify(md_ds_op *op);

#endif
