/* Wisdom: tuned results by key, and the texts of kernels that they were measured with. */
#ifndef MD_TUNE_WISDOM_WISDOM_H
#define MD_TUNE_WISDOM_WISDOM_H

#include "build/build.h"
#include "store/bundle.h"
#include "store/store.h"
#include "tune/wisdom/record.h"

/* ---- wisdom.c */

/* The results of tuning: in memory for the context, and in the store where there is one. Thread-safe. Records of
 * another environment (device, driver, compiler, library version) are never found: the store keeps them apart. */

/* Part of the environment. Raise it when a time comes to mean something else: old results are then not found. */
#define MD_TN_MEASURING "1"

typedef struct md_tn_wisdom md_tn_wisdom;

/** One that lives in memory only. */
md_status md_tn_wisdom_create(md_tn_wisdom **out);
void md_tn_wisdom_destroy(md_tn_wisdom **wisdom);
/** Results are kept in this store from now on, and looked for there; it must outlive the wisdom. `device`: its name,
 * for text. Before any other use. */
void md_tn_wisdom_use_store(md_tn_wisdom *wisdom, md_sr *store, const char *device);

/** Wisdom in files "*.jsonl" of these folders ("a:b") is found, too, as that of systems' stores. After
 * md_tn_wisdom_use_store, before any other use. */
md_status md_tn_wisdom_use_texts(md_tn_wisdom *wisdom, const char *path, const md_log *log);

/** What results depend on, if there is no store that says it. */
void md_tn_wisdom_set_environment(md_tn_wisdom *wisdom, md_digest128 environment);
/** Answers of the model are looked for in bundles, and put into the one that is made (*maker, may be NULL). `facts`:
 * digest of the facts that they are for. All but the text must outlive the wisdom. */
void md_tn_wisdom_use_bundles(md_tn_wisdom *wisdom, md_sr_bundle *const *bundle, int32_t n,
                              _Atomic(md_sr_bundle_maker *) *maker, const char *facts);
/** Appends, sorted, the lines of this device that texts have. */
void md_tn_wisdom_print_texts(md_strbuf *out, const md_tn_wisdom *wisdom);
/** The same of one text, which md_tn_wisdom_print made: that of a bundle. CORRUPT. After md_tn_wisdom_use_texts. */
md_status md_tn_wisdom_use_text(md_tn_wisdom *wisdom, const char *text, size_t n);

typedef struct md_tn_wisdom_counters {
    _Atomic uint64_t found, missing; /* finds that gave a record; that did not */
    _Atomic uint64_t unreadable; /* entries of the store that are no records */
    _Atomic uint64_t unread; /* records that could not be read for want of memory */
    _Atomic uint64_t stored; /* puts of a record that was new or better */
} md_tn_wisdom_counters;

/** The record of a family at a key, of min_rigor or more, complete or not: the caller looks. A copy that the caller
 * finishes. NOT_FOUND; never an error for what cannot be read (that is counted and NOT_FOUND). */
md_status md_tn_wisdom_find(md_tn_record *out, md_tn_wisdom *wisdom, const char *key, const char *family,
                            md_tune min_rigor);
/** Visits what texts (installed files, bundles) know of a stage at any sizes: `beginning` is that of its keys. Records
 * of another environment count as estimates. Stores are not looked through. */
void md_tn_wisdom_each_text(md_tn_wisdom *wisdom, const char *beginning,
                            void (*visit)(void *user, const md_tn_record *record), void *user);
/** Keeps a copy unless what is there, in memory or in the user's store, beats it (md_tn_record_beats); of two that
 * beat each other the newer one. A disk that cannot be written is a warning once, not an error. */
md_status md_tn_wisdom_put(md_tn_wisdom *wisdom, const md_tn_record *record);

/** Variants that gave wrong results or did not end, by name and digest of their text. */
bool md_tn_wisdom_is_quarantined(md_tn_wisdom *wisdom, const char *variant, md_digest128 source);
md_status md_tn_wisdom_quarantine(md_tn_wisdom *wisdom, const char *variant, md_digest128 source, const char *why);

/** One tuner a key among the processes that share the store: true with *lease >= 0, or -1 where there is no store to
 * share; false where another process has it. It ends with md_tn_wisdom_unlease, or with the process, however that
 * ends. */
bool md_tn_wisdom_lease(int *lease, md_tn_wisdom *wisdom, const char *key);
void md_tn_wisdom_unlease(md_tn_wisdom *wisdom, int lease);

/* ---- As text: lines of JSON, sorted (wisdom_line.h) */

/** All that is known here, in memory and in the stores, the best of each key and family. */
md_status md_tn_wisdom_print(md_strbuf *out, md_tn_wisdom *wisdom);

/** Appends the line of what is known here of a family at a key; nothing where nothing is. */
md_status md_tn_wisdom_print_one(md_strbuf *out, md_tn_wisdom *wisdom, const char *key, const char *family);

typedef struct md_tn_merged {
    int64_t n_lines; /* that say something */
    int64_t n_bad; /* lines that cannot be read: if there is one nothing is taken */
    int64_t n_taken; /* became known, or more than was known */
    /* of n_taken: measured on such a device with another driver, compiler or version; they count as estimates */
    int64_t n_related;
    int64_t n_foreign; /* of another device: left out */
} md_tn_merged;
/** Takes what a text says. CORRUPT where a line is bad: nothing is taken, and `problems` (may be NULL) has a line for
 * each. */
md_status md_tn_wisdom_merge(md_tn_merged *out, md_strbuf *problems, md_tn_wisdom *wisdom, const char *text, size_t n);

/* ---- known_text.c */

/* Whether kernels are as they were when they were measured. */

/** True if the record's variant has the text today that was measured (md_bd_variant_digest). */
bool md_tn_has_text_of(md_tn_wisdom *wisdom, const md_fa_target *target, const md_tn_record *record);

#endif
