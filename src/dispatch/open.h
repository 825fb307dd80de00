/* Opening and closing what all ops of a context share. */
#ifndef MD_DISPATCH_OPEN_H
#define MD_DISPATCH_OPEN_H

#include "dispatch/runtime.h"

/** The caller sets the device, the builder and the options afterwards. */
void md_ds_runtime_init(md_ds_runtime *runtime);
/** Frees what is left when all ops are destroyed and no thread calls any more. */
void md_ds_runtime_finish(md_ds_runtime *runtime);

#endif
