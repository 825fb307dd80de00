/* Where the tensors of recorded calls come from: named memory, memory that is only read, or what calls wrote. */
#ifndef MD_SEQUENCE_RECORDING_ORIGIN_H
#define MD_SEQUENCE_RECORDING_ORIGIN_H

#include "sequence/recording/record.h"

typedef enum md_sq_origin_kind {
    MD_SQ_UNSEEN,
    MD_SQ_NAMED, /* number: of the named memory */
    MD_SQ_ONLY_READ,
    MD_SQ_WRITTEN /* number: of the write, see md_sq_slot; writes of one class share memory */
} md_sq_origin_kind;

typedef struct md_sq_origin {
    md_sq_origin_kind kind;
    int32_t number;
} md_sq_origin;

typedef struct md_sq_origins {
    int32_t n; /* slots: calls * MD_FX_MAX_ARGS */
    md_sq_origin *origin; /* by slot */
    int32_t *leader; /* by write: another of its class, or itself (union-find) */
    int32_t *n_members; /* by leader: writes of its class */
} md_sq_origins;

static inline int32_t md_sq_slot(int32_t call, int32_t arg)
{
    return call * MD_FX_MAX_ARGS + arg;
}

/** Follows all recordings. The caller frees it, also after a failure. INVALID_ARGUMENT names the call. */
md_status md_sq_find_origins(md_sq_origins *out, const md_sq_records *records);
void md_sq_origins_free(md_sq_origins *origins);
/** The leader of a write's class. */
int32_t md_sq_class_of(const md_sq_origins *origins, int32_t write);
/** First and last byte + 1 of a tensor with elements. */
uintptr_t md_sq_low(const md_tensor *t);
uintptr_t md_sq_high(const md_tensor *t);

#endif
