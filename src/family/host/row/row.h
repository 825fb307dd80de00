/* What the row families share: text, envelope, geometry and cost of a row program. */
#ifndef MD_FAMILY_HOST_ROW_ROW_H
#define MD_FAMILY_HOST_ROW_ROW_H

#include "codegen/row/row.h"
#include "family/family.h"

typedef struct md_fa_row {
    const char *source; /* the template: "host/row_looped.c" */
    bool is_column; /* lanes over the last outer index */
    bool merges; /* chunks are merged where the program allows it */
    bool keeps; /* dear values stay on chip between passes */
    bool is_strided, is_streaming;
    int32_t capacity; /* elements of a row at most; 0: any */
    int32_t prefetch, chunk, tile; /* MD_PREFETCH, MD_CHUNK, MD_TILE; 0: the template's default */
} md_fa_row;

/** Whether the stage is a row program that these families can run at all. */
bool md_fa_row_applies(const md_fa_target *target);
/** Whether streaming stores may pay at these sizes. */
bool md_fa_row_can_stream(const md_fa_target *target, const int64_t *size);
md_status md_fa_row_emit(md_kn_source *out, const md_fa_target *target, const md_fa_row *row);
void md_fa_row_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_row *row);
void md_fa_row_geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_row *row,
                        const int64_t *size);
void md_fa_row_features(md_fa_features *out, const md_fa_target *target, const md_fa_row *row, const int64_t *size);

#endif
