/* Names of the reasons for which variants are picked, as reports show them. */
#include "dispatch/types.h"

const char *md_ds_source_name(md_ds_source source)
{
    static const char *const name[] = {
        [MD_DS_PINNED] = "pinned",           [MD_DS_MEASURED] = "measured", [MD_DS_STORED] = "stored",
        [MD_DS_GIVEN] = "imported",          [MD_DS_MODEL] = "model",       [MD_DS_NEAREST] = "nearest",
        [MD_DS_NEAREST_ON_GRID] = "nearest", [MD_DS_DEFAULT] = "default",   [MD_DS_REFERENCE] = "reference",
    };
    return name[source];
}
