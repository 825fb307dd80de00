/* What md_explain says, read by programs. */
#ifndef MDCTL_EXPLAINED_H
#define MDCTL_EXPLAINED_H

#include <jansson.h>
#include <md/md.h>

/** The report of md_explain; json_decref() frees it. NULL if the library fails (md_last_error) or memory is short. */
json_t *explained(md_op *op, const char *sizes);

/* How near a call is to the roofline, by the model. */
typedef struct roofline {
    double us; /* least time of all stages that run; 0: not known of one of them */
    const char *limit, *reason; /* of the stage that is farthest from its roof, in the JSON; "" if there is none */
} roofline;
/** Of the list of stages in a report of md_explain or in a shape's statistics. */
roofline roofline_of(const json_t *stages);

#endif
