#ifndef MD_TESTS_SUPPORT_FIND_FAMILY_H
#define MD_TESTS_SUPPORT_FIND_FAMILY_H

#include "family/family.h"

#include <string.h>

/** The family of this name; NULL if there is none. */
static inline const md_fa_family *find_family(md_dev_kind device, const char *name)
{
    for (const md_fa_family *const *f = md_fa_families(device); *f; f++)
        if (strcmp((*f)->name, name) == 0)
            return *f;
    return NULL;
}

#endif
