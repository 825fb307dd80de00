/* Expressions with their names resolved: what statements are built from. Private to src/expr. */
#ifndef MD_EXPR_FRONT_RESOLVE_H
#define MD_EXPR_FRONT_RESOLVE_H

#include "expr/front/front.h"

/* A visible index. Frames live on the stack of the walk. */
typedef struct md_scope {
    const struct md_scope *up;
    const char *name;
    int32_t index;
    bool is_bound; /* a reduction binds it */
    bool is_scanned; /* a scan runs along it here */
} md_scope;

/* Where in a formula an expression stands. */
typedef struct md_resolver {
    md_front *front;
    const md_scope *scope;
    int32_t stmt;
    const char *subscript_of; /* NULL outside of subscripts */
} md_resolver;

/** The innermost visible index of that name, NULL if there is none. */
const md_scope *md_scope_find(const md_scope *s, const char *name);
/** A new index of the formula. */
md_status md_resolve_new_index(md_front *front, int32_t *out, const md_syntax *at, bool is_bound);
/** Errors that say what may have been meant. */
md_status md_resolve_unknown_name(const md_resolver *resolver, const md_syntax *at);
md_status md_resolve_unknown_function(const md_resolver *resolver, const md_syntax *at);
/** The typed node of an expression. */
md_status md_resolve_node(const md_resolver *resolver, md_fx_node **out, const md_syntax *at);
/** One subscript of a tensor, as an i64 node. */
md_status md_resolve_subscript(const md_resolver *resolver, md_fx_node **out, const md_syntax *at, const char *tensor);
/** Remembers how an axis is reached. */
md_status md_resolve_note_access(md_front *front, int32_t tensor, int32_t axis, const md_fx_node *subscript,
                                 bool is_store);

#endif
