/* Which stages families of one kind serve, on both devices. */
#ifndef MD_FAMILY_APPLIES_H
#define MD_FAMILY_APPLIES_H

#include "family/family.h"

/** True for row programs, each element of which is stored once. */
bool md_fa_row_applies(const md_fa_target *target);
/** True for scans, each element of which is stored once. */
bool md_fa_scan_applies(const md_fa_target *target);
/** True for elementwise stages that read through index tensors. */
bool md_fa_gather_applies(const md_fa_target *target);
/** True for elementwise stages that write through index tensors. */
bool md_fa_scatter_applies(const md_fa_target *target);
/** True if the subscript that the first store reads from memory is the same for all lanes. A whole row then goes to one
 * place, and one block can own it. */
bool md_fa_scatter_has_row_index(const md_fa_target *target);

#endif
