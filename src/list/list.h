/* A formula over lists with the ops of its steps. include/md/list.h documents the public functions. */
#ifndef MD_LIST_LIST_H
#define MD_LIST_LIST_H

#include "api/context.h"
#include "expr/list/list.h"

#include <md/combo.h>
#include <md/list.h>

/* An op of a step, and what its arguments are. */
typedef struct md_li_op {
    md_op *op; /* NULL: not made yet */
    int32_t n_args;
    const md_fx_list_name *arg[MD_FX_MAX_ARGS];
} md_li_op;

/* Memory of a stream: values, then partial results. */
typedef struct md_li_memory {
    md_stream stream;
    char *p; /* NULL: none yet */
    size_t n_bytes;
    struct md_li_memory *next;
} md_li_memory;

struct md_list {
    md_context *context;
    md_fx_list *formula;
    md_op_options options;
    md_numeric numeric; /* of reductions */
    md_li_op *step, *flat, *whole; /* step: by step; flat, whole: by reduction */
    pthread_mutex_t lock; /* held by a call: on a GPU until its work is enqueued */
    md_li_memory *memory;
    md_li_memory *retired; /* that enqueued work may still use; freed at the end */
};

/* A call under way. */
typedef struct md_li_call {
    md_list *list;
    md_stream stream;
    const md_arg *args;
    int64_t n_items;
    char *memory;
    size_t partials[MD_FX_MAX_STMTS]; /* where the partial results of a reduction begin, in bytes */
    int64_t n_partials[MD_FX_MAX_STMTS];
    bool is_done; /* there is nothing to compute: a maximum of nothing, which no result needs */
} md_li_call;

/** Makes an op of a step if it is not there. */
md_status md_li_make(md_list *list, md_li_op *op, const char *text, md_numeric numeric);

/* ---- args.c */
/** Checks the arguments of a call, as far as ops do not. */
md_status md_li_check(md_li_call *call, int32_t n_args);
/** True if the reduction can take an item as rows of MD_FX_LIST_TILE elements; *n is their number. */
bool md_li_is_flat(const md_li_call *call, int32_t reduction, int64_t item, int64_t *n);
/** How many partial results an item gives. */
int64_t md_li_count(const md_li_call *call, int32_t reduction, int64_t item);
/** Makes the ops that items need, and says where partial results lie and how large all memory is. */
md_status md_li_lay_out(md_li_call *call, size_t *n_bytes);
/** An argument of a step's op for an item. */
md_arg md_li_arg(const md_li_call *call, const md_fx_list_name *name, int64_t item, md_tensor *room);

#endif
