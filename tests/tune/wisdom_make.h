/* Records for tests of the wisdom. */
#ifndef MD_TESTS_TUNE_WISDOM_MAKE_H
#define MD_TESTS_TUNE_WISDOM_MAKE_H

#include "support/check.h"

#include "tune/wisdom/wisdom.h"

/** A record of "row_looped" at a key, whose variant and time say which one it is. The caller finishes it. */
md_tn_record wisdom_make(const char *key, md_tune rigor, bool is_complete, int32_t count, int which);
/** A wisdom on a store (NULL: in memory only). */
md_tn_wisdom *wisdom_open(md_sr *store);
void wisdom_put(md_tn_wisdom *w, const char *key, md_tune rigor, bool is_complete, int32_t count, int which);
/** Which one is known of a key; 0: none of that rigor. */
int wisdom_which(md_tn_wisdom *w, const char *key, md_tune min_rigor);

#endif
