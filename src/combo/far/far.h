/* The items of a table in device memory. A version is never written again: new items are a new version, and the old one
 * is freed behind the work that reads it. */
#ifndef MD_COMBO_FAR_FAR_H
#define MD_COMBO_FAR_FAR_H

#include "dispatch/runtime.h"

typedef struct md_cb_far {
    md_kn_word *word; /* [n]: items that are not in device memory yet; NULL: none */
    int64_t n;
    void *there; /* the version in device memory; NULL: none */
    md_stream stream; /* that first used it */
    bool is_used, by_others; /* work of that stream reads it; work of others does, too */
    bool by_graph; /* captured work may read it at any time */
} md_cb_far;

/** Words for new items, not cleared. NULL: out of memory. */
md_kn_word *md_cb_far_words(md_cb_far *far, int64_t n);
/** Copies new items to device memory, and notes that work of a stream will read them. Does nothing on devices without
 * such tables. */
md_status md_cb_far_use(md_cb_far *far, md_ds_runtime *runtime, md_stream stream);
void md_cb_far_finish(md_cb_far *far, const md_ds_runtime *runtime);

#endif
