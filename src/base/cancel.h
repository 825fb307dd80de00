/* The caller's wish to end a computation. */
#ifndef MD_BASE_CANCEL_H
#define MD_BASE_CANCEL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* What is asked from time to time; `asked` NULL: never. */
typedef struct md_cancel {
    int (*asked)(void *user);
    void *user;
} md_cancel;

/** True if the computation is to end. `cancel` may be NULL. */
static inline bool md_is_cancelled(const md_cancel *cancel)
{
    return cancel && cancel->asked && cancel->asked(cancel->user) != 0;
}

static inline md_status md_fail_cancelled(void)
{
    return md_fail(MD_CANCELLED, "the call was cancelled; its outputs are written in part");
}

#endif
