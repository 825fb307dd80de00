/* Prints the choices of ops as lines of JSON, and takes such lines over: all or none. */
#include "stats/choices.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/status.h"
#include "dispatch/cache/table.h"
#include "dispatch/select/select.h"
#include "dispatch/select/stored.h"

#include <stdlib.h>
#include <string.h>

static const char FORMAT[] = "multidispatch choices";
enum { VERSION = 1 };

/* ---- Printing */

typedef struct visit {
    md_ss_lines *lines;
    const md_ds_op *op;
} visit;

static void append(md_ss_lines *l, char *line)
{
    if (!line || !md_grow(&l->line, (size_t)l->n, sizeof *l->line)) {
        l->failed = true;
        free(line);
        return;
    }
    l->line[l->n++] = line;
}

static json_t *key_json(const md_ds_shape_entry *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->key_bytes / sizeof(int64_t); i++)
        list = md_json_add(list, json_integer((json_int_t)((const int64_t *)e->key)[i]));
    return list;
}

static json_t *variants_json(const md_ds_op *op, const md_ds_plan *plan)
{
    json_t *list = json_array();
    for (int32_t s = 0; s < op->n_stages; s++)
        list = md_json_add(list, json_string(md_ds_pick_name(op, plan, s)));
    return list;
}

/* Shapes that the reference serves have no choice. */
static void add_entry(void *user, const md_ds_shape_entry *e)
{
    const visit *v = user;
    char shape[160];
    const md_ds_plan *plan = md_ds_plan_of(e);
    if (plan->by_reference)
        return;
    md_ds_shape_text(shape, sizeof shape, v->op->formula, e->size);
    json_t *line = json_pack("{s:s, s:o, s:s, s:o, s:o}", "shape", shape, "op", md_json_text(md_ds_stored_key(v->op)),
                             "name", v->op->name, "key", key_json(e), "variants", variants_json(v->op, plan));
    append(v->lines, line ? md_json_dump(line, JSON_COMPACT | JSON_SORT_KEYS) : NULL);
    json_decref(line);
}

void md_ss_lines_add(md_ss_lines *lines, md_ds_op *op)
{
    visit v = {lines, op};
    md_ds_table_each(op, add_entry, &v);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

md_status md_ss_lines_print(md_strbuf *out, md_ss_lines *l)
{
    md_strbuf_printf(out, "{\"format\":\"%s\",\"version\":%d}\n", FORMAT, VERSION);
    if (l->n)
        qsort(l->line, (size_t)l->n, sizeof *l->line, by_text);
    for (int64_t i = 0; i < l->n; i++)
        if (i == 0 || strcmp(l->line[i - 1], l->line[i]) != 0)
            md_strbuf_printf(out, "%s\n", l->line[i]);
    for (int64_t i = 0; i < l->n; i++)
        free(l->line[i]);
    free(l->line);
    const bool failed = l->failed || out->failed;
    memset(l, 0, sizeof *l);
    return failed ? md_fail_memory() : MD_OK;
}

/* ---- Taking over */

/* What a line gives to one op. */
typedef struct gift {
    md_ds_op *op;
    md_ds_key key;
    md_ds_shape_entry *entry; /* NULL once it is given */
} gift;

typedef struct reader {
    md_ds_op *const *op;
    int32_t n_ops;
    gift *gift;
    int64_t n, n_unknown, line;
    bool has_format; /* the first line was one */
} reader;

static md_status bad_line(const reader *r, const char *what)
{
    return md_fail(MD_INVALID_ARGUMENT, "choices, line %lld: %s", (long long)r->line, what);
}

static gift *new_gift(reader *r)
{
    if (!md_grow(&r->gift, (size_t)r->n, sizeof *r->gift))
        return NULL;
    r->gift[r->n] = (gift){0};
    return &r->gift[r->n++];
}

static bool read_key(md_ds_key *out, const json_t *list)
{
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n > MD_DS_KEY_WORDS)
        return false;
    out->n = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *word = json_array_get(list, i);
        if (!json_is_integer(word))
            return false;
        out->word[i] = (int64_t)json_integer_value(word);
    }
    return true;
}

static bool read_variants(const char *out[MD_ST_MAX_STAGES], const md_ds_op *op, const json_t *list)
{
    if (json_array_size(list) != (size_t)op->n_stages)
        return false;
    for (int32_t s = 0; s < op->n_stages; s++)
        if (!(out[s] = json_string_value(json_array_get(list, (size_t)s))))
            return false;
    return true;
}

static md_status read_gift(reader *r, md_ds_op *op, const json_t *line)
{
    const char *variant[MD_ST_MAX_STAGES];
    gift *g = new_gift(r);
    if (!g)
        return md_fail_memory();
    g->op = op;
    if (!read_key(&g->key, json_object_get(line, "key")))
        return bad_line(r, "\"key\" must be a list of integers");
    if (!read_variants(variant, op, json_object_get(line, "variants")))
        return bad_line(r, "\"variants\" must be a list with one name for each stage");
    return md_ds_assign_make(&g->entry, op, &g->key, variant);
}

static md_status read_format(reader *r, const json_t *line)
{
    const char *format = json_string_value(json_object_get(line, "format"));
    const json_int_t version = json_integer_value(json_object_get(line, "version"));
    if (!format || strcmp(format, FORMAT) != 0)
        return bad_line(r, "not a text of md_choices_export");
    if (version != VERSION)
        return md_fail(MD_UNSUPPORTED, "choices, line %lld: version %lld; this library reads version %d",
                       (long long)r->line, (long long)version, VERSION);
    r->has_format = true;
    return MD_OK;
}

static md_status read_line(reader *r, const json_t *line)
{
    bool is_known = false;
    const char *key = json_string_value(json_object_get(line, "op"));
    if (!r->has_format || json_object_get(line, "format"))
        return read_format(r, line);
    if (!key)
        return bad_line(r, "no \"op\"");
    for (int32_t i = 0; i < r->n_ops; i++)
        if (!strcmp(md_ds_stored_key(r->op[i]), key)) {
            MD_TRY(read_gift(r, r->op[i], line));
            is_known = true;
        }
    r->n_unknown += !is_known;
    return MD_OK;
}

static md_status read_lines(reader *r, const char *text)
{
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, "\n");
        r->line++;
        if (strspn(at, " \t\r") < n) {
            json_t *line = json_loadb(at, n, JSON_REJECT_DUPLICATES, NULL);
            const md_status s = json_is_object(line) ? read_line(r, line) : bad_line(r, "not a JSON object");
            json_decref(line);
            MD_TRY(s);
        }
        at += n;
        at += *at == '\n';
    }
    return r->has_format ? MD_OK : md_fail(MD_INVALID_ARGUMENT, "choices: not a text of md_choices_export");
}

md_status md_ss_choices_take(int64_t *n_unknown, md_ds_op *const *op, int32_t n_ops, const char *text)
{
    reader r = {.op = op, .n_ops = n_ops};
    md_status s = read_lines(&r, text);
    /* last to first, so that of lines of one shape the first counts */
    for (int64_t i = r.n - 1; i >= 0 && s == MD_OK; i--) {
        md_ds_shape_entry *entry = r.gift[i].entry;
        r.gift[i].entry = NULL;
        s = md_ds_assign(r.gift[i].op, &r.gift[i].key, entry);
    }
    for (int64_t i = 0; i < r.n; i++)
        if (r.gift[i].entry)
            md_ds_shape_entry_free(r.gift[i].entry);
    free(r.gift);
    *n_unknown = r.n_unknown;
    return s;
}
