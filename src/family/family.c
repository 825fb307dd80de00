/* Names of variants, and walks over configs: the same for all families. */
#include "family/family.h"

#include "base/status.h"
#include "family/custom/custom.h"
#include "base/strbuf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

md_fa_config md_fa_default(const md_fa_family *family)
{
    md_fa_config config = {.custom = family->custom};
    for (int32_t i = 0; i < family->n_fields; i++)
        config.value[i] = family->field[i].initial;
    return config;
}

void md_fa_name(char out[MD_FA_NAME], const md_fa_family *family, const md_fa_config *config)
{
    size_t used = (size_t)snprintf(out, MD_FA_NAME, "%s", family->name);
    char mark = '/';
    for (int32_t i = 0; i < family->n_fields && used < MD_FA_NAME; i++) {
        const md_fa_field *field = &family->field[i];
        if (field->n == 1 && field->more && config->value[i] == field->initial)
            continue;
        used += (size_t)snprintf(out + used, MD_FA_NAME - used, "%c%s%" PRId32, mark, field->name, config->value[i]);
        mark = '_';
    }
}

static const md_fa_family *find(md_dev_kind device, const char *name, size_t n)
{
    for (const md_fa_family *const *f = md_fa_families(device); *f; f++)
        if (strlen((*f)->name) == n && memcmp((*f)->name, name, n) == 0)
            return *f;
    return NULL;
}

static md_status fail_family(md_dev_kind device, const char *name, size_t n)
{
    md_strbuf all = {0};
    for (const md_fa_family *const *f = md_fa_families(device); *f; f++)
        md_strbuf_printf(&all, "%s%s", f == md_fa_families(device) ? "" : ", ", (*f)->name);
    md_status status =
        md_fail(MD_NOT_FOUND, "no family named \"%.*s\" (there are %s)", (int)n, name, md_strbuf_text(&all));
    md_strbuf_finish(&all);
    return status;
}

static md_status fail_field(const md_fa_family *family, const char *text)
{
    md_strbuf all = {0};
    for (int32_t i = 0; i < family->n_fields; i++)
        md_strbuf_printf(&all, "%s%s", i == 0 ? "" : ", ", family->field[i].name);
    md_status status = md_fail(MD_NOT_FOUND, "\"%s\" is no field of family %s (%s)", text, family->name,
                               family->n_fields ? md_strbuf_text(&all) : "it has none");
    md_strbuf_finish(&all);
    return status;
}

static md_status fail_value(const md_fa_family *family, const md_fa_field *field, int64_t value)
{
    md_strbuf all = {0};
    for (int32_t i = 0; i < field->n + field->more; i++)
        md_strbuf_printf(&all, "%s%" PRId32, i == 0 ? "" : ", ", field->value[i]);
    md_status status = md_fail(MD_NOT_FOUND, "%s of family %s cannot be %" PRId64 " (but %s)", field->name,
                               family->name, value, md_strbuf_text(&all));
    md_strbuf_finish(&all);
    return status;
}

/* The field that a text such as "rows14" begins with: the longest name wins. -1 where none does. */
static int32_t field_of(const md_fa_family *family, const char *text, size_t n)
{
    int32_t best = -1;
    size_t longest = 0;
    for (int32_t i = 0; i < family->n_fields; i++) {
        size_t length = strlen(family->field[i].name);
        if (length < n && length > longest && memcmp(family->field[i].name, text, length) == 0) {
            best = i;
            longest = length;
        }
    }
    return best;
}

/* One "<field><value>". */
static md_status parse_field(md_fa_config *config, const md_fa_family *family, const char *text, size_t n)
{
    char copy[MD_FA_NAME], *end = NULL;
    snprintf(copy, sizeof copy, "%.*s", (int)n, text);
    int32_t i = field_of(family, text, n);
    if (i < 0)
        return fail_field(family, copy);
    const md_fa_field *field = &family->field[i];
    long long value = strtoll(copy + strlen(field->name), &end, 10);
    if (*end != '\0')
        return fail_field(family, copy);
    for (int32_t k = 0; k < field->n + field->more; k++) {
        if (field->value[k] == value) {
            config->value[i] = (int32_t)value;
            return MD_OK;
        }
    }
    return fail_value(family, field, value);
}

/* "<field><value>_<field><value>", behind the family's name. */
static md_status parse_fields(md_fa_config *config, const md_fa_family *family, const char *text)
{
    *config = md_fa_default(family);
    while (*text) {
        size_t length = strcspn(text, "_");
        /* A field's own name may have an underscore: take the pieces together until one ends in a digit. */
        while (text[length] == '_' && length > 0 && (text[length - 1] < '0' || text[length - 1] > '9'))
            length += 1 + strcspn(text + length + 1, "_");
        MD_TRY(parse_field(config, family, text, length));
        text += length + (text[length] == '_');
    }
    return MD_OK;
}

static md_status parse(const md_fa_family **family, md_fa_config *config, const md_fa_family *f, const char *name,
                       size_t n)
{
    md_fa_config c;
    MD_TRY(parse_fields(&c, f, name[n] ? name + n + 1 : name + n));
    *family = f;
    *config = c;
    return MD_OK;
}

md_status md_fa_parse(const md_fa_family **family, md_fa_config *config, md_dev_kind device, const char *name)
{
    size_t n = strcspn(name, "/");
    const md_fa_family *f = find(device, name, n);
    return f ? parse(family, config, f, name, n) : fail_family(device, name, n);
}

md_status md_fa_parse_for(const md_fa_family **family, md_fa_config *config, const md_fa_target *target,
                          const char *name)
{
    for (int32_t i = 0; target->customs && i < target->customs->n; i++) {
        const md_fa_family *f = target->customs->list[i];
        size_t n = strlen(f->name);
        if (!strncmp(name, f->name, n) && (name[n] == '/' || name[n] == '\0'))
            return parse(family, config, f, name, n);
    }
    return md_fa_parse(family, config, target->facts->kind, name);
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
