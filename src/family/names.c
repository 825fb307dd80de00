/* Finds families by number and name, reads names of configs, and knows the names that fields had in earlier
 * versions. */
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

/* Former names of fields. Wisdom, pins and recorded times may have them. They are read and never printed. */
static const struct {
    const char *family; /* NULL: every family with the field */
    const char *former, *field;
} aliases[] = {
    {NULL, "access", "align"},
    {NULL, "stream", "nontemporal"},
    {NULL, "room", "occupancy"},
    {NULL, "band", "raster"},
    {NULL, "turn", "transpose"},
    {NULL, "own", "owner"},
    {"row_persistent", "ahead", "prefetch"},
    {"row_looped", "ahead", "prefetch"},
    {"row_split", "via", "exchange"},
    {"row_split", "persm", "blocks_per_sm"},
    {"column", "xt", "threads_x"},
    {"column", "yt", "threads_y"},
    {"gemv", "few", "max_rows"}, /* on GPUs */
    {"gemv", "few", "swap_ab"}, /* on the host */
    {"gemv", "ahead", "unroll"},
    {"gemv", "share", "slice_k"},
    {"gemm_wgmma", "turns", "pingpong"},
    {"gemm_wgmma", "store", "epilogue"},
    {"gemm_mma", "warp", "warp_columns"},
    {"gemm_fma", "down", "thread_rows"},
    {"gemm_fma", "piece", "copy_width"},
    {"gemm_simt", "down", "thread_rows"},
    {"gemm_simt", "across", "thread_columns"},
};

/* The field's former name; NULL if it has none. Tunables of custom kernels belong to the user. */
static const char *former_name(const md_fa_family *family, const md_fa_field *field)
{
    for (int32_t i = 0; !family->custom && i < MD_COUNT(aliases); i++)
        if (!strcmp(aliases[i].field, field->name) && (!aliases[i].family || !strcmp(aliases[i].family, family->name)))
            return aliases[i].former;
    return NULL;
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
    const size_t length = name ? strlen(name) : 0;
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
    for (int32_t i = 0; p.field < 0 && i < family->n_fields; i++)
        match(&p, text, former_name(family, &family->field[i]), i);
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

/* The family of either device that understands the name, or NULL. Families of one name differ by fields and values. */
static const md_fa_family *family_of(const char *name)
{
    static const md_dev_kind devices[] = {MD_DEV_CUDA, MD_DEV_HOST};
    for (int32_t i = 0; i < MD_COUNT(devices); i++) {
        const md_fa_family *f = find(devices[i], name);
        const char *text = f ? fields_text(name, f) : "";
        piece p = {.is_listed = f != NULL};
        for (; *text && p.is_listed; text = next_piece(text, &p))
            p = piece_of(f, text);
        if (p.is_listed)
            return f;
    }
    return NULL;
}

/* Copies a name with its fields' former or current names. Values and order do not change. */
static void rename_fields(char out[MD_FA_NAME], const char *name, bool is_former)
{
    const md_fa_family *f = family_of(name);
    size_t used = (size_t)snprintf(out, MD_FA_NAME, "%s", f ? f->name : name);
    char mark = '/';
    for (const char *text = f ? fields_text(name, f) : ""; *text && used < MD_FA_NAME;) {
        const piece p = piece_of(f, text);
        const md_fa_field *field = &f->field[p.field];
        const char *former = is_former ? former_name(f, field) : NULL;
        used += (size_t)snprintf(out + used, MD_FA_NAME - used, "%c%s%.*s", mark, former ? former : field->name,
                                 (int)(p.length - p.name_length), text + p.name_length);
        mark = '_';
        text = next_piece(text, &p);
    }
}

void md_fa_current_name(char out[MD_FA_NAME], const char *name)
{
    rename_fields(out, name, false);
}

void md_fa_former_name(char out[MD_FA_NAME], const char *name)
{
    rename_fields(out, name, true);
}
