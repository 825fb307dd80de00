/* Background races of a trial's challengers. */
#ifndef MD_DISPATCH_ONLINE_BACKGROUND_H
#define MD_DISPATCH_ONLINE_BACKGROUND_H

#include "dispatch/online/state.h"

/** After a launch, without the lock: starts a background race of the trial where one is due. */
void md_ds_request_race(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, md_stream stream);

#endif
