/* What md_explain says, read by programs. */
#ifndef MDCTL_EXPLAINED_H
#define MDCTL_EXPLAINED_H

#include <jansson.h>
#include <md/md.h>

/** The report of md_explain; json_decref() frees it. NULL if the library fails (md_last_error) or memory is short. */
json_t *explained(md_op *op, const char *sizes);

/* How near a pick is to the roofline, by the model. */
typedef struct roofline {
    double us; /* least time of all stages; 0: not known */
    char limit[16]; /* of the stage that is farthest from its roof: "memory", "arithmetic" */
    char reason[128];
} roofline;
roofline roofline_of(md_op *op, const char *sizes);

#endif
