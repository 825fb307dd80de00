/* The two handles behind the public ones. */
#ifndef MD_API_CONTEXT_H
#define MD_API_CONTEXT_H

#include "base/env.h"
#include "dispatch/call/slow_call.h"
#include "stats/rows.h"
#include "tune/search/search.h"

struct md_context {
    md_env env;
    md_log log;
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    md_tn_wisdom *wisdom;
    md_sr *store; /* NULL: nothing is kept */
    md_trace *trace; /* NULL: nobody asked */
    md_ds_runtime runtime;
    md_ds_policy policy; /* defaults of ops */
    md_tn_counters tune_count;
    char *hints, *pin, *stats_path; /* own copies; pin and stats_path may be NULL */
    const char *hints_source; /* for messages: "option hints", "MD_HINTS" or "default hints" */
    int64_t max_shapes;
    pthread_mutex_t lock_of_ops; /* taken before the runtime's: of what is counted */
    md_ss_rows retired; /* what destroyed ops did */
};

struct md_op {
    md_context *context;
    md_ds_op *ds; /* one with those of all equal ops */
};

/** Opens the store that options and environment ask for; the device is open. */
md_status md_api_open_store(md_context *c, const md_context_options *o);
/** Where wisdom is that comes along: MD_SYSTEM_PATH, else where the library is installed; "" where nothing is to be
 * kept or found. */
const char *md_api_system_path(const md_context *c);

/** One owner of the op goes: a handle, or a launch. The last one's frees it, and its statistics stay. */
void md_api_leave(md_op *op);
/** Calls fn on every op that is alive, each once, while none can go. */
void md_api_each_op(md_context *context, void (*fn)(void *user, md_ds_op *op), void *user);

typedef enum md_api_memory { MD_API_NO_MEMORY, MD_API_MEMORY_TO_MEASURE } md_api_memory;

/** Binds an op to contiguous, aligned tensors of the sizes in a text, "b=8, n=64", for choosing without data.
 * MEMORY_TO_MEASURE makes and fills memory where the op's policy measures; give such a bound back, also after a
 * failure. Unknown dims are refused, missing named. */
md_status md_api_bind_sizes(md_ds_bound *out, md_op *op, const char *sizes, md_api_memory memory);
void md_api_unbind_sizes(md_ds_bound *bound, md_op *op);

/** Hands a text to the caller's function in one piece. */
md_status md_api_write(const md_strbuf *text, md_write_fn write, void *user);

#endif
