/* The order in which tuning a combo tries fields of configs, and how far each may go. Pure functions. */
#ifndef MD_COMBO_TUNING_ORDER_H
#define MD_COMBO_TUNING_ORDER_H

#include "combo/axis.h"

enum { MD_CB_MAX_GROUPS = 16, MD_CB_GROUP_FIELDS = 8, MD_CB_DIM_NAME = 40 };

typedef struct md_cb_field {
    const char *name; /* of the family's field: "unroll" */
    md_cb_axis axis;
} md_cb_field;

/* Kernels that are tuned as one: a kernel, for items of perhaps different sizes. */
typedef struct md_cb_kind {
    int32_t n;
    md_cb_field field[MD_CB_GROUP_FIELDS];
    bool is_persistent; /* rows stay on the chip: there is no R */
} md_cb_kind;

typedef struct md_cb_member {
    int32_t kind;
    int64_t size[MD_CB_BLOCK_AXES]; /* of the member itself; at least 1 */
} md_cb_member;

/* A field of a kind. */
typedef struct md_cb_dim {
    int32_t kind, field;
    md_cb_axis axis;
    int64_t limit; /* INT64_MAX: none */
    char name[MD_CB_DIM_NAME]; /* "X1": the axis and the kind, else the field and the kind ("unroll1") */
} md_cb_dim;

/** Lists the dims of all kinds in the order of tuning; returns how many there are. Kinds descend by work, which is the
 * largest product of a member's sizes. Block dims come first (kind by kind X, Y, R), then plain fields, then threads.
 * `out`: room for MD_CB_MAX_GROUPS * MD_CB_GROUP_FIELDS. A limit is the largest of the kind's members, since each
 * member is held to its own. */
int32_t md_cb_order(md_cb_dim *out, const md_cb_kind *kind, int32_t n_kinds, const md_cb_member *member,
                    int64_t n_members);
/** Moves the dims that a text names to the front, in its order: "X1 Y1 threads0". A name without a number ("X") stands
 * for that dim of all kinds. A name that this combo lacks
 * is skipped, since a program may have several combos. INVALID_ARGUMENT for what is no such list. */
md_status md_cb_order_by(md_cb_dim *dim, int32_t n, const char *text, const char *source);
/** Lowers limits: "X0=64, Y=32". INVALID_ARGUMENT for what is no such list. */
md_status md_cb_order_limit(md_cb_dim *dim, int32_t n, const char *text, const char *source);
/** Where a step from a value leads: the nearest of n values that is at least twice or at most half of it, else the
 * nearest at all. False: there is none that way. */
bool md_cb_next_value(int32_t *out, const int32_t *value, int32_t n, int32_t from, bool is_up);

#endif
