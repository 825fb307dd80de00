/* Units of a level as groups, each one launch of a kernel that takes many items (text.h). */
#ifndef MD_COMBO_MERGE_H
#define MD_COMBO_MERGE_H

#include "combo/combo.h"
#include "combo/far/far.h"
#include "combo/text.h"

typedef struct md_cb_group {
    md_cb_kernel kernel;
    int32_t level;
    int64_t n; /* units, those with the longest blocks first */
    int64_t *unit; /* [n]: numbers in the plan */
    int8_t *body; /* [n] */
    int64_t blocks; /* of all */
    md_kn_geometry geometry;
    md_bd_text *text; /* NULL: there is none */
    const md_dev_kernel *ready; /* NULL: not built yet */
    const md_dev_kernel *now; /* of the run that is being enqueued; NULL: each of its units has a launch */
    uint64_t n_merged, n_single; /* runs by one launch and by many, since md_cb_tell */
    char why[200]; /* why it will never be built; "": no reason is known */
    bool is_stale; /* the table has other addresses than the units */
    bool has_old_scalars; /* the table has other scalars */
    md_kn_word *table; /* the parameters */
    md_cb_far far;
} md_cb_group;

struct md_cb_merged {
    int64_t n;
    md_cb_group *group; /* sorted by level */
    int64_t n_alone; /* units in no group, by level */
    int64_t *alone;
};

/** Words of parameters before the items. */
int32_t md_cb_head(const md_cb_kernel *kernel);
/** Groups the units of the plan and begins to build their kernels. */
md_status md_cb_merge(md_cb *cb);
void md_cb_merged_free(md_cb *cb);
/** True if a group has a form that was refused before. */
bool md_cb_has_refused(const md_cb *cb);
/** Brings the table of a group up to date. NOT_FOUND if items no longer share what the text takes as shared. */
md_status md_cb_table_update(md_cb *cb, md_cb_group *group);
/** Enqueues each unit by a launch of its own. The caller holds the stream's lock if the plan needs memory. */
md_status md_cb_run_each(md_cb *cb, md_stream stream);
/** Enqueues all units. The caller holds the stream's lock if the plan needs memory. */
md_status md_cb_run_merged(md_cb *cb, md_stream stream);

#endif
