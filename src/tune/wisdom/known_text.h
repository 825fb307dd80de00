/* Whether kernels are as they were when they were measured. */
#ifndef MD_TUNE_WISDOM_KNOWN_TEXT_H
#define MD_TUNE_WISDOM_KNOWN_TEXT_H

#include "build/build.h"
#include "tune/wisdom/wisdom.h"

/** True if the record's variant has the text today that was measured (md_bd_variant_digest). */
bool md_tn_has_text_of(md_tn_wisdom *wisdom, const md_fa_target *target, const md_tn_record *record);

#endif
