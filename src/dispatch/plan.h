/* A plan: all that the launches of one shape need, as plain words without pointers into records, so that it can be copied while others write it and
 * used after its record is gone. Kernels belong to the context; names of variants to the op. */
#ifndef MD_DISPATCH_PLAN_H
#define MD_DISPATCH_PLAN_H

#include "dispatch/call.h"

/* Words of a plan:
 *   key[n_key]
 *   span[n_tensors]      bytes from a tensor's first element to its end
 *   alias[n_tensors]     of an output: tensors that may be exactly it
 *   head                 md_ds_plan_head
 *   size[n_dims]         where the device fills in parameters (needs_call)
 *   per launch: md_ds_plan_launch, then params[n_params], then the parts of the parameters that change (md_ds_plan_patch) */
typedef struct md_ds_plan_head {
    uint64_t memory_bytes; /* temporaries and workspace */
    uint16_t n_launches;
    uint8_t needs_report, needs_counters; /* report: the host's own */
    uint8_t needs_call, n_dims; /* call: of tensor maps, which the device makes from shape and pointers */
} md_ds_plan_head;

typedef struct md_ds_plan_launch {
    const md_dev_kernel *kernel;
    const char *variant;
    md_kn_geometry geometry;
    uint64_t workspace_offset; /* of its stage in the memory; for what the device fills in */
    uint32_t n_params, n_patches;
} md_ds_plan_launch;

typedef struct md_ds_plan_patch {
    uint16_t word;
    uint8_t kind; /* md_ds_patch_kind */
    uint8_t number; /* of the tensor or scalar */
    int64_t offset; /* into memory or counters */
} md_ds_plan_patch;

typedef enum md_ds_patch_kind {
    MD_DS_PATCH_DATA, /* the tensor's data */
    MD_DS_PATCH_SCALAR,
    MD_DS_PATCH_MEMORY, /* into the call's memory */
    MD_DS_PATCH_COUNTERS, /* into the stream's counters */
    MD_DS_PATCH_REPORT
} md_ds_patch_kind;

/** Writes the plan of a bound call and its way; the number of words, or 0 where it has none: library calls, inputs that must be copied,
 * too many parameters, something better being built. */
int32_t md_ds_plan_make(md_ds_word out[MD_DS_PLAN_WORDS], const md_ds_op *op, const md_ds_warm_call *call, const md_ds_way *way,
                        const md_ds_bound *bound);
/** Whether the memory of the call's tensors overlaps in no way that the plan does not know. */
bool md_ds_plan_fits(const md_ds_op *op, const md_ds_word plan[MD_DS_PLAN_WORDS], const md_ds_warm_call *call);
/** Runs a plan, whose key is the call's; parameters are written in place, so it must be the thread's own. */
md_status md_ds_plan_run(md_ds_op *op, md_ds_word plan[MD_DS_PLAN_WORDS], const md_ds_warm_call *call, md_stream stream);

#endif
