/* Expressions over dims: parsed as the rules of custom kernels are, kept once each. */
#include "sequence/values.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "family/custom/rule.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct value {
    char *text;
    md_fa_rule *rule; /* only its first `n` steps are there */
} value;

struct md_sq_values {
    md_fx_formula *formula; /* only has the dims, for the parser */
    int32_t n, room;
    value *value;
    md_table *known; /* bytes of the program -> number + 1 */
};

md_sq_values *md_sq_values_create(void)
{
    md_sq_values *v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->formula = calloc(1, sizeof *v->formula);
    v->known = md_table_create();
    if (!v->formula || !v->known)
        md_sq_values_destroy(&v);
    return v;
}

void md_sq_values_destroy(md_sq_values **values)
{
    md_sq_values *v = *values;
    if (!v)
        return;
    for (int32_t i = 0; i < v->n; i++) {
        free(v->value[i].text);
        free(v->value[i].rule);
    }
    for (int32_t d = 0; v->formula && d < v->formula->n_dims; d++)
        free((void *)(uintptr_t)v->formula->dim[d].name);
    md_table_destroy(&v->known, NULL);
    free(v->value);
    free(v->formula);
    free(v);
    *values = NULL;
}

static bool is_name(const char *text)
{
    static const char *const words[] = {"min", "max", "and", "or", "not"};
    if (!isalpha((unsigned char)text[0]) && text[0] != '_')
        return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    for (int32_t i = 0; i < MD_COUNT(words); i++)
        if (!strcmp(words[i], text))
            return false;
    return strlen(text) < 48;
}

md_status md_sq_values_add_dim(md_sq_values *v, const char *name)
{
    md_fx_formula *f = v->formula;
    if (!name || !is_name(name))
        return md_fail(MD_INVALID_ARGUMENT, "'%s' is no name for a dim: a letter, then letters, digits and '_'",
                       name ? name : "NULL");
    if (md_fx_find_dim(f, name, strlen(name)) >= 0)
        return md_fail(MD_INVALID_ARGUMENT, "dim '%s' is there already", name);
    char *copy = strdup(name);
    if (!copy)
        return md_fail_memory();
    f->dim[f->n_dims++] = (md_fx_dim){.name = copy, .size = -1};
    return MD_OK;
}

static md_status keep(int32_t *out, md_sq_values *v, const md_fa_rule *rule, const char *text, size_t n_text)
{
    const size_t n_bytes = offsetof(md_fa_rule, code) + (size_t)rule->n * sizeof *rule->code;
    const int32_t known = (int32_t)(intptr_t)md_table_find(v->known, rule, n_bytes);
    if (known) {
        *out = known - 1;
        return MD_OK;
    }
    if (v->n == v->room) {
        value *grown = realloc(v->value, (size_t)(2 * v->room + 32) * sizeof *grown);
        if (!grown)
            return md_fail_memory();
        v->value = grown;
        v->room = 2 * v->room + 32;
    }
    value *x = &v->value[v->n];
    *x = (value){strndup(text, n_text), malloc(n_bytes)};
    if (!x->text || !x->rule || md_table_put(v->known, rule, n_bytes, (void *)(intptr_t)(v->n + 1), NULL) != MD_OK) {
        free(x->text);
        free(x->rule);
        return md_fail_memory();
    }
    memcpy(x->rule, rule, n_bytes);
    *out = v->n++;
    return MD_OK;
}

/* The text of expression i of a list, without the blanks around it. */
static const char *part_of(size_t *n, const char *text, int32_t i)
{
    int32_t depth = 0;
    for (; i > 0 && *text; text++) {
        depth += (*text == '(') - (*text == ')');
        i -= *text == ',' && depth == 0;
    }
    text += strspn(text, " \t\n");
    for (*n = 0, depth = 0; text[*n] && (text[*n] != ',' || depth > 0); ++*n)
        depth += (text[*n] == '(') - (text[*n] == ')');
    while (*n > 0 && isspace((unsigned char)text[*n - 1]))
        --*n;
    return text;
}

md_status md_sq_values_parse(int32_t *out, int32_t *n, int32_t most, md_sq_values *v, const char *text,
                             const char *what)
{
    const md_fa_rule_names names = {.formula = v->formula};
    md_fa_rule *rule = calloc((size_t)most, sizeof *rule); /* zeroed: the bytes are compared */
    if (!rule)
        return md_fail_memory();
    md_status s = md_fa_rule_parse(rule, most, n, text, what, &names);
    for (int32_t i = 0; i < *n && s == MD_OK; i++) {
        size_t length;
        const char *part = part_of(&length, text, i);
        s = keep(&out[i], v, &rule[i], part, length);
    }
    free(rule);
    return s;
}

md_status md_sq_values_constant(int32_t *out, md_sq_values *v, int64_t number)
{
    char text[32];
    int32_t n;
    snprintf(text, sizeof text, "%lld", (long long)number);
    return md_sq_values_parse(out, &n, 1, v, text, "a number");
}

int32_t md_sq_values_count(const md_sq_values *v)
{
    return v->n;
}

const char *md_sq_values_text(const md_sq_values *v, int32_t i)
{
    return v->value[i].text;
}

md_status md_sq_values_eval(int64_t *out, const md_sq_values *v, const int64_t *size)
{
    for (int32_t i = 0; i < v->n; i++)
        if (!md_fa_rule_eval(&out[i], v->value[i].rule, size, NULL))
            return md_fail(MD_INVALID_ARGUMENT, "'%s' divides by 0 or exceeds 64 bits at these sizes",
                           v->value[i].text);
    return MD_OK;
}
