/* Expressions over dims, each kept once. */
#include "sequence/values.h"

#include "base/grow.h"
#include "base/status.h"
#include "base/table.h"
#include "expr/whole.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct md_sq_values {
    char **dim; /* names */
    int32_t n_dims, n;
    md_fx_whole **value;
    md_table *known; /* steps of a value -> number + 1 */
};

md_sq_values *md_sq_values_create(void)
{
    md_sq_values *v = calloc(1, sizeof *v);
    if (v && !(v->known = md_table_create()))
        md_sq_values_destroy(&v);
    return v;
}

void md_sq_values_destroy(md_sq_values **values)
{
    md_sq_values *v = *values;
    if (!v)
        return;
    for (int32_t i = 0; i < v->n; i++)
        free(v->value[i]);
    for (int32_t d = 0; d < v->n_dims; d++)
        free(v->dim[d]);
    md_table_destroy(&v->known, NULL);
    free(v->dim);
    free(v->value);
    free(v);
    *values = NULL;
}

static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)text[0]) && text[0] != '_')
        return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    return !md_fx_whole_is_word(text) && strlen(text) < 48;
}

md_status md_sq_values_add_dim(md_sq_values *v, const char *name)
{
    if (!name || !is_name(name))
        return md_fail(MD_INVALID_ARGUMENT, "'%s' is no name for a dim: a letter, then letters, digits and '_'",
                       name ? name : "NULL");
    for (int32_t d = 0; d < v->n_dims; d++)
        if (!strcmp(v->dim[d], name))
            return md_fail(MD_INVALID_ARGUMENT, "dim '%s' is there already", name);
    char *copy = md_grow(&v->dim, (size_t)v->n_dims, sizeof *v->dim) ? strdup(name) : NULL;
    if (!copy)
        return md_fail_memory();
    v->dim[v->n_dims++] = copy;
    return MD_OK;
}

/* Takes over the expression. */
static md_status keep(int32_t *out, md_sq_values *v, md_fx_whole *w)
{
    const size_t n_bytes = (size_t)w->n * sizeof *w->step;
    const int32_t known = (int32_t)(intptr_t)md_table_find(v->known, w->step, n_bytes);
    *out = known ? known - 1 : v->n;
    if (known) {
        free(w);
        return MD_OK;
    }
    if (!md_grow(&v->value, (size_t)v->n, sizeof(md_fx_whole *)) ||
        md_table_put(v->known, w->step, n_bytes, (void *)(intptr_t)(v->n + 1), NULL) != MD_OK) {
        free(w);
        return md_fail_memory();
    }
    v->value[v->n++] = w;
    return MD_OK;
}

md_status md_sq_values_parse(int32_t *out, int32_t *n, int32_t most, md_sq_values *v, const char *text,
                             const char *what)
{
    const md_fx_names names = {v->n_dims, (const char *const *)v->dim, "no dim"};
    md_fx_whole *made[MD_MAX_RANK];
    md_status s = md_fx_whole_parse(made, most, n, text, what, &names);
    for (int32_t i = 0; i < *n; i++) {
        if (s == MD_OK)
            s = keep(&out[i], v, made[i]);
        else
            free(made[i]);
    }
    return s;
}

int32_t md_sq_values_count(const md_sq_values *v)
{
    return v->n;
}

const char *md_sq_values_text(const md_sq_values *v, int32_t i)
{
    return v->value[i]->text;
}

md_status md_sq_values_eval(int64_t *out, const md_sq_values *v, const int64_t *size)
{
    for (int32_t i = 0; i < v->n; i++)
        if (!md_fx_whole_eval(&out[i], v->value[i], size))
            return md_fx_whole_fail(v->value[i]);
    return MD_OK;
}
