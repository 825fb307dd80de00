/* Where results of tuning are kept: in memory for the context, and behind that in the store where there is one. Thread-safe.
 * Records of another environment (device, driver, compiler, library version) are never found: the store keeps them apart. */
#ifndef MD_TUNE_WISDOM_H
#define MD_TUNE_WISDOM_H

#include "tune/record.h"

/* Part of the environment. Raise it when a time comes to mean something else: old results are then not found. */
#define MD_TN_MEASURING "1"

typedef struct md_tn_wisdom md_tn_wisdom;

/** One that lives in memory only. */
md_status md_tn_wisdom_create(md_tn_wisdom **out);
void md_tn_wisdom_destroy(md_tn_wisdom **wisdom);

/** The record of a family at a key, of min_rigor or more, complete or not: the caller looks. A copy that the caller finishes. NOT_FOUND; never
 * an error for what cannot be read (that is counted and NOT_FOUND). */
md_status md_tn_wisdom_find(md_tn_record *out, md_tn_wisdom *wisdom, const char *key, const char *family, md_tune min_rigor);
/** Keeps a copy unless what is there beats it (md_tn_record_beats). A disk that cannot be written is a warning once, not an error. */
md_status md_tn_wisdom_put(md_tn_wisdom *wisdom, const md_tn_record *record);

/** Variants that gave wrong results or did not end, by name and digest of their text. */
bool md_tn_wisdom_is_quarantined(md_tn_wisdom *wisdom, const char *variant, md_digest128 source);
md_status md_tn_wisdom_quarantine(md_tn_wisdom *wisdom, const char *variant, md_digest128 source, const char *why);

/** One tuner a key among the processes that share the store: true with *lease >= 0, or -1 where there is no store to share; false where
 * another process has it. It ends with md_tn_wisdom_unlease, or with the process, however that ends. */
bool md_tn_wisdom_lease(int *lease, md_tn_wisdom *wisdom, const char *key);
void md_tn_wisdom_unlease(md_tn_wisdom *wisdom, int lease);

#endif
