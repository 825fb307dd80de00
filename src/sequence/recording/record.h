/* Recordings of a sequence: the calls of a thread at several sizes. lift.c makes tensors and calls of them. */
#ifndef MD_SEQUENCE_RECORDING_RECORD_H
#define MD_SEQUENCE_RECORDING_RECORD_H

#include "dispatch/call/thread_cache.h"
#include "sequence/sequence.h"

/* Memory that the caller named. */
typedef struct md_sq_named {
    char name[32];
    md_sequence_role role;
    void *data;
    size_t n_bytes;
} md_sq_named;

typedef struct md_sq_recorded_call {
    md_ds_op *op;
    md_arg arg[MD_FX_MAX_ARGS]; /* tensors point into `tensor` */
    md_tensor tensor[MD_FX_MAX_ARGS];
} md_sq_recorded_call;

typedef struct md_sq_recording {
    int64_t size[MD_SQ_MAX_DIMS];
    int32_t n_named, n_calls;
    md_sq_named *named;
    md_sq_recorded_call **call;
} md_sq_recording;

typedef struct md_sq_records {
    md_ds_recorder recorder; /* first */
    md_sq *sq;
    bool is_recording;
    md_status status; /* why the recording under way fails */
    char why[256];
    int32_t n; /* recordings; the one under way is the last */
    md_sq_recording **recording;
} md_sq_records;

md_status md_sq_record_begin(md_sq *sq, const int64_t *size);
md_status md_sq_record_memory(md_sq *sq, const char *name, md_sequence_role role, void *data, size_t n_bytes);
md_status md_sq_record_end(md_sq *sq);
void md_sq_records_free(md_sq_records *records); /* NULL allowed; ends a recording of this thread */

/** Adds the tensors and calls of the recordings to the sequence. */
md_status md_sq_lift(md_sq *sq, const md_sq_records *records);

/** The text of an expression over the dims that gives value[k] at recording k. INVALID_ARGUMENT if there is none. */
md_status md_sq_fit(char out[160], const md_sq *sq, const md_sq_records *records, const int64_t *value);

#endif
