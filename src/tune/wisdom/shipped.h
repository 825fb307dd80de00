/* Wisdom that comes with the library or an administrator: files "*.jsonl" of exported lines in the folders of
 * MD_SYSTEM_PATH. They stay text, and are searched as they are, because they are sorted: nothing is parsed but the
 * lines that are asked for. */
#ifndef MD_TUNE_WISDOM_SHIPPED_H
#define MD_TUNE_WISDOM_SHIPPED_H

#include "base/log.h"
#include "tune/wisdom/line.h"

typedef struct md_tn_shipped md_tn_shipped; /* immutable once open; NULL is one without lines */

/** Adds sorted lines, as md_tn_wisdom_print gives them. CORRUPT where they are not sorted. *shipped may be NULL. */
md_status md_tn_shipped_add(md_tn_shipped **shipped, const char *text, size_t n);
/** Appends, sorted, the lines of a device. Quarantines of any are left out. */
void md_tn_shipped_print(md_strbuf *out, const md_tn_shipped *shipped, const char *device);
/** Reads the files of all folders of a path ("a:b"; NULL or "": none). A file that cannot be read, or whose lines are
 * not sorted, is a warning. */
md_status md_tn_shipped_open(md_tn_shipped **out, const char *path, const md_log *log);
void md_tn_shipped_close(md_tn_shipped **shipped);

/** Visits the lines for this device whose key begins with `beginning`, file after file; of another environment they
 * count as estimates. The record ends with the visit. False where memory was short. */
bool md_tn_shipped_each(const md_tn_shipped *shipped, const md_tn_origin *here, const char *beginning,
                        void (*visit)(void *user, const md_tn_record *record), void *user);
/** The most rigorous line of a key and family for this device: of another environment (driver, compiler, version) it
 * counts as an estimate. False where there is none. */
bool md_tn_shipped_find(md_tn_record *out, const md_tn_shipped *shipped, const md_tn_origin *here, const char *key,
                        const char *family);

#endif
