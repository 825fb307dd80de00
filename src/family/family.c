/* Families by name and number, and walks over their configs. */
#include "family/family.h"

#include "family/custom/custom.h"

#include <string.h>

md_fa_config md_fa_default(const md_fa_family *family)
{
    md_fa_config config = {.custom = family->custom};
    for (int32_t i = 0; i < family->n_fields; i++)
        config.value[i] = family->field[i].initial;
    return config;
}

const md_fa_family *md_fa_of(const md_fa_target *target, int32_t i)
{
    const int32_t n = target->customs ? target->customs->n : 0;
    const md_fa_family *const *list = md_fa_families(target->facts->kind);
    if (i < n)
        return target->customs->list[i];
    for (int32_t k = n; k < i && *list; k++)
        list++;
    return *list;
}

static void each(const md_fa_target *target, const md_fa_family *family, const int64_t *size, bool takes_more,
                 bool (*fn)(void *user, const md_fa_config *config), void *user)
{
    int32_t at[MD_FA_MAX_FIELDS] = {0}, i;
    do {
        md_fa_config config = {.custom = family->custom};
        for (i = 0; i < family->n_fields; i++)
            config.value[i] = family->field[i].value[at[i]];
        if (family->legal(target, &config, size) && !fn(user, &config))
            return;
        for (i = family->n_fields - 1;
             i >= 0 && ++at[i] == family->field[i].n + (takes_more ? family->field[i].more : 0); i--)
            at[i] = 0;
    } while (i >= 0);
}

void md_fa_each(const md_fa_target *target, const md_fa_family *family, const int64_t *size,
                bool (*fn)(void *user, const md_fa_config *config), void *user)
{
    each(target, family, size, false, fn, user);
}

void md_fa_each_all(const md_fa_target *target, const md_fa_family *family, const int64_t *size,
                    bool (*fn)(void *user, const md_fa_config *config), void *user)
{
    each(target, family, size, true, fn, user);
}
