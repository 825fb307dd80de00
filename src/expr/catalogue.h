/* Named ops: data/ops, embedded. */
#ifndef MD_EXPR_CATALOGUE_H
#define MD_EXPR_CATALOGUE_H

#include <md/md.h>

typedef struct md_catalogue_entry {
    const char *name, *formula, *description;
} md_catalogue_entry;

/** Entry i in file order, NULL beyond the end. */
const md_catalogue_entry *md_catalogue_at(int32_t i);
/** The same of formulas over lists. */
const md_catalogue_entry *md_catalogue_list_at(int32_t i);
/** Of both kinds; NULL where there is none. */
const md_catalogue_entry *md_catalogue_find(const char *name);

/* The tables that tools/catalogue.c writes from data/ops/catalogue.txt and lists.txt when the library is built. */
extern const md_catalogue_entry md_catalogue_table[], md_lists_table[];
extern const int32_t md_catalogue_count, md_lists_count;

#endif
