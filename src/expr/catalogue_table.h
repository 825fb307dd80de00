/* The table that tools/catalogue.c writes from data/ops/catalogue.txt when the library is built. */
#ifndef MD_EXPR_CATALOGUE_TABLE_H
#define MD_EXPR_CATALOGUE_TABLE_H

#include "expr/catalogue.h"

extern const md_catalogue_entry md_catalogue_table[];
extern const int32_t md_catalogue_count;

#endif
