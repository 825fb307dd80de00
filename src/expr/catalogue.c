/* Finds named ops in the table that is made from data/ops. */
#include "expr/catalogue.h"

#include <string.h>

const md_catalogue_entry *md_catalogue_at(int32_t i)
{
    return i >= 0 && i < md_catalogue_count ? &md_catalogue_table[i] : NULL;
}

const md_catalogue_entry *md_catalogue_list_at(int32_t i)
{
    return i >= 0 && i < md_lists_count ? &md_lists_table[i] : NULL;
}

const md_catalogue_entry *md_catalogue_find(const char *name)
{
    for (int32_t i = 0; i < md_catalogue_count; i++)
        if (strcmp(md_catalogue_table[i].name, name) == 0)
            return &md_catalogue_table[i];
    for (int32_t i = 0; i < md_lists_count; i++)
        if (strcmp(md_lists_table[i].name, name) == 0)
            return &md_lists_table[i];
    return NULL;
}
