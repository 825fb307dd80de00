/* What the row families of the host share: text, envelope, geometry and cost of a row program. */
#ifndef MD_FAMILY_HOST_ROW_ROW_H
#define MD_FAMILY_HOST_ROW_ROW_H

#include "codegen/row/row.h"
#include "family/applies.h"
#include "family/family.h"

typedef struct md_fa_row {
    const char *source; /* the template: "host/row_looped.c" */
    bool is_column; /* lanes run along the last outer index */
    bool merges; /* chunks are reduced one by one and merged, if the program allows it */
    bool keeps; /* expensive values are kept on chip between passes */
    bool is_strided, is_streaming;
    int32_t capacity; /* most elements of a row; 0: any number */
    int32_t prefetch, chunk, tile; /* MD_PREFETCH, MD_CHUNK, MD_TILE; 0: the template's default */
} md_fa_row;

/** Whether its lanes are bytes. */
md_cg_bytes md_fa_row_bytes(const md_fa_target *target, const md_fa_row *row);
/** False for nontemporal stores that cannot pay, or that strided loops would not use. */
bool md_fa_row_stores_pay(const md_fa_target *target, const int64_t *size, int32_t is_nontemporal, int32_t is_strided);
md_status md_fa_row_emit(md_kn_source *out, const md_fa_target *target, const void *spec);
void md_fa_row_envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec);
void md_fa_row_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_row *row, const int64_t *size);
/** Elements of a row that count: all, or what a condition is expected to leave. */
double md_fa_row_length(const md_fa_target *target, const md_fa_row *row, const int64_t *size);
/** The kind of these families; its spec is md_fa_row. */
extern const md_fa_kind md_fa_host_row_kind;

#endif
