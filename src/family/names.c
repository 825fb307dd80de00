/* Finds families by number and name, and reads names of configs. */
#include "family/family.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "family/custom/custom.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool md_fa_is_persistent(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    return family->is_persistent && !(family->reads_again && family->reads_again(target, config));
}

/* ---- Errors */

static md_status fail_family(md_dev_kind device, const char *name)
{
    md_strbuf all = {0};
    for (const md_fa_family *const *f = md_fa_families(device); *f; f++)
        md_strbuf_printf(&all, "%s%s", f == md_fa_families(device) ? "" : ", ", (*f)->name);
    md_status status = md_fail(MD_NOT_FOUND, "no family named \"%.*s\" (there are %s)", (int)strcspn(name, "/"), name,
                               md_strbuf_text(&all));
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

/* ---- Parsing */

/* The family that the name of a variant begins with, or NULL. */
static const md_fa_family *find(md_dev_kind device, const char *name)
{
    const size_t n = strcspn(name, "/");
    for (const md_fa_family *const *f = md_fa_families(device); *f; f++)
        if (strlen((*f)->name) == n && memcmp((*f)->name, name, n) == 0)
            return *f;
    return NULL;
}

/* One "<field><value>" of a name. */
typedef struct piece {
    size_t length, name_length; /* of the whole piece; of the field's name */
    int32_t field; /* -1: none */
    bool is_number, is_listed; /* the rest is a number; it is one of the field's values */
    int64_t value;
} piece;

/* A field's own name may have an underscore, so pieces are joined until one ends with a digit. */
static size_t piece_length(const char *text)
{
    size_t length = strcspn(text, "_");
    while (text[length] == '_' && length > 0 && (text[length - 1] < '0' || text[length - 1] > '9'))
        length += 1 + strcspn(text + length + 1, "_");
    return length;
}

/* Takes this field if the text begins with its name. Of several such fields the one with the longest name is taken. */
static void match(piece *p, const char *text, const char *name, int32_t field)
{
    const size_t length = strlen(name);
    if (length > p->name_length && length < p->length && !memcmp(name, text, length)) {
        p->name_length = length;
        p->field = field;
    }
}

static piece piece_of(const md_fa_family *family, const char *text)
{
    piece p = {.length = piece_length(text), .field = -1};
    for (int32_t i = 0; i < family->n_fields; i++)
        match(&p, text, family->field[i].name, i);
    if (p.field >= 0) {
        const md_fa_field *field = &family->field[p.field];
        char *end = NULL;
        p.value = strtoll(text + p.name_length, &end, 10);
        p.is_number = end == text + p.length;
        for (int32_t k = 0; k < field->n + field->more; k++)
            p.is_listed |= p.is_number && field->value[k] == p.value;
    }
    return p;
}

static md_status fail_piece(const md_fa_family *family, const char *text, const piece *p)
{
    char copy[MD_FA_NAME];
    snprintf(copy, sizeof copy, "%.*s", (int)p->length, text);
    return p->is_number ? fail_value(family, &family->field[p->field], p->value) : fail_field(family, copy);
}

static const char *next_piece(const char *text, const piece *p)
{
    return text + p->length + (text[p->length] == '_');
}

/* The name without the family's: "<field><value>_<field><value>". */
static const char *fields_text(const char *name, const md_fa_family *family)
{
    const size_t n = strlen(family->name);
    return name[n] ? name + n + 1 : name + n;
}

static md_status parse(const md_fa_family **family, md_fa_config *config, const md_fa_family *f, const char *name)
{
    md_fa_config c = md_fa_default(f);
    for (const char *text = fields_text(name, f); *text;) {
        const piece p = piece_of(f, text);
        if (!p.is_listed)
            return fail_piece(f, text, &p);
        c.value[p.field] = (int32_t)p.value;
        text = next_piece(text, &p);
    }
    *family = f;
    *config = c;
    return MD_OK;
}

md_status md_fa_parse(const md_fa_family **family, md_fa_config *config, md_dev_kind device, const char *name)
{
    const md_fa_family *f = find(device, name);
    return f ? parse(family, config, f, name) : fail_family(device, name);
}

md_status md_fa_parse_for(const md_fa_family **family, md_fa_config *config, const md_fa_target *target,
                          const char *name)
{
    for (int32_t i = 0; target->customs && i < target->customs->n; i++) {
        const md_fa_family *f = target->customs->list[i];
        size_t n = strlen(f->name);
        if (!strncmp(name, f->name, n) && (name[n] == '/' || name[n] == '\0'))
            return parse(family, config, f, name);
    }
    return md_fa_parse(family, config, target->facts->kind, name);
}

/* ---- Names of other versions */

static bool has_fields(const md_fa_family *family, const char *name)
{
    piece p = {.is_number = true};
    for (const char *text = fields_text(name, family); *text && p.is_number; text = next_piece(text, &p))
        p = piece_of(family, text);
    return p.is_number;
}

bool md_fa_is_current(const char *name)
{
    bool is_family = false;
    for (md_dev_kind device = MD_DEV_HOST; device <= MD_DEV_SIM; device++) {
        const md_fa_family *f = find(device, name);
        if (f && has_fields(f, name))
            return true;
        is_family |= f != NULL;
    }
    return !is_family;
}
