/* The families of the host device. */
#ifndef MD_FAMILY_HOST_HOST_H
#define MD_FAMILY_HOST_HOST_H

#include "family/family.h"

/** The families of the host device, in order of preference among equals; NULL-terminated. */
const md_fa_family *const *md_fa_host_families(void);

extern const md_fa_family md_fa_host_pointwise; /* pointwise.c */
extern const md_fa_family md_fa_host_gather; /* gather.c */
extern const md_fa_family md_fa_host_scatter; /* scatter.c */
extern const md_fa_family md_fa_host_row_persistent;
extern const md_fa_family md_fa_host_row_looped;
extern const md_fa_family md_fa_host_column;
extern const md_fa_family md_fa_host_scan;
extern const md_fa_family md_fa_host_gemv; /* gemv.c */
extern const md_fa_family md_fa_host_gemm; /* gemm.c */
extern const md_fa_family md_fa_host_gemm_lib;
extern const md_fa_family md_fa_host_nest; /* nest.c */

#endif
