/* Names and digests of numeric classes, and the classes that families share. */
#include "family/numeric.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool md_fa_is_online(const md_fa_target *target)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    return row->is_online && row->n_levels > 1;
}

md_fa_class md_fa_class_sweep(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "sweep", .is_repeatable = true, .is_invariant = true};
}

md_fa_class md_fa_class_nest(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "nest", .is_repeatable = true, .is_invariant = true};
}

md_fa_class md_fa_class_product(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "product", .is_repeatable = true, .is_invariant = true};
}

/* The value of a field, or 0 if the family has no such field: so row_looped shares a class with row_persistent's
 * keep0. */
static int32_t value_of(const md_fa_family *family, const md_fa_config *config, const char *field)
{
    for (int32_t i = 0; i < family->n_fields; i++)
        if (!strcmp(family->field[i].name, field))
            return config->value[i];
    return 0;
}

static void print_name(md_fa_numeric *out, const md_fa_class *c, const md_fa_family *family, const md_fa_config *config)
{
    size_t used = (size_t)snprintf(out->name, sizeof out->name, "%s", c->group);
    for (int32_t i = 0; i < MD_FA_CLASS_FIELDS && c->field[i] && used < sizeof out->name; i++)
        used += (size_t)snprintf(out->name + used, sizeof out->name - used, "%c%s%" PRId32, i == 0 ? '/' : '_',
                                 c->field[i], value_of(family, config, c->field[i]));
}

void md_fa_numeric_of(md_fa_numeric *out, const md_fa_target *target, const md_fa_family *family,
                      const md_fa_config *config)
{
    const md_fa_class c = family->numeric ? family->numeric(target, config) : (md_fa_class){0};
    *out = (md_fa_numeric){.is_repeatable = c.is_repeatable, .is_invariant = c.is_invariant};
    if (c.group)
        print_name(out, &c, family, config);
    else
        md_fa_name(out->name, family, config);
    out->id = md_hash64(out->name, strlen(out->name)) | 1;
}
