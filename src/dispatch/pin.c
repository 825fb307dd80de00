/* Reads the text of a pin. */
#include "dispatch/pin.h"

#include "stage/stage.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* One part of "2:variant; 3:other", without blanks: the text before the ':' (NULL without a ':') and after it. A
 * variant's name has no ':'. */
typedef struct pin_part {
    const char *stage, *name;
    size_t n_stage, n_name;
} pin_part;

static size_t trim(const char **text, size_t n)
{
    for (; n && isspace((unsigned char)**text); n--)
        (*text)++;
    while (n && isspace((unsigned char)(*text)[n - 1]))
        n--;
    return n;
}

/* Skips blank parts; false at the end. */
static bool next_part(pin_part *out, const char **at)
{
    while (**at) {
        size_t n = strcspn(*at, ";");
        const char *name = *at, *colon = memchr(*at, ':', n);
        *out = (pin_part){0};
        if (colon) {
            out->stage = *at;
            out->n_stage = trim(&out->stage, (size_t)(colon - *at));
            name = colon + 1;
        }
        out->n_name = trim(&name, n - (size_t)(name - *at));
        out->name = name;
        *at += n;
        *at += **at == ';';
        if (colon || out->n_name)
            return true;
    }
    return false;
}

/* -1 if it is no number. */
static int32_t stage_of(const pin_part *p)
{
    int32_t stage = p->n_stage ? 0 : -1;
    for (size_t i = 0; i < p->n_stage && stage >= 0; i++)
        stage = isdigit((unsigned char)p->stage[i]) && stage < MD_ST_MAX_STAGES ? stage * 10 + p->stage[i] - '0' : -1;
    return stage;
}

md_status md_ds_pin_check(const char *pin, const char *op_name, int32_t n_stages)
{
    pin_part p;
    for (const char *at = pin; at && next_part(&p, &at);) {
        int32_t stage = p.stage ? stage_of(&p) : 0;
        if (stage < 0 || stage >= n_stages)
            return md_fail(MD_INVALID_ARGUMENT, "pin '%s': '%.*s' is no stage of op %s, which has %d, counted from 0",
                           pin, (int)p.n_stage, p.stage, op_name, n_stages);
        if (!p.n_name)
            return md_fail(MD_INVALID_ARGUMENT, "pin '%s': no variant behind '%.*s:'", pin, (int)p.n_stage, p.stage);
    }
    return MD_OK;
}

md_status md_ds_pin_of_stage(char **out, const char *pin, int32_t stage, bool only_by_number)
{
    pin_part p;
    *out = NULL;
    for (const char *at = pin; at && next_part(&p, &at);) {
        if (p.stage ? stage_of(&p) != stage : only_by_number)
            continue;
        free(*out);
        *out = strndup(p.name, p.n_name);
        if (!*out)
            return md_fail_memory();
    }
    return MD_OK;
}
