/* Which field of which kernel is tuned first, and its limit. Work and limits of a kind are the largest of its
 * members. A winner goes to all of them, and each is held to its own limits. */
#include "combo/tuning/order.h"

#include "base/status.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The usual order */

/* Kinds by descending work; equal ones stay in their order. */
static void rank_kinds(int32_t rank[MD_CB_MAX_GROUPS], int32_t n, const md_cb_member *member, int64_t n_members)
{
    double work[MD_CB_MAX_GROUPS] = {0};
    for (int64_t i = 0; i < n_members; i++) {
        const int64_t *size = member[i].size;
        work[member[i].kind] =
            MD_MAX(work[member[i].kind], (double)size[MD_CB_X] * (double)size[MD_CB_Y] * (double)size[MD_CB_R]);
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t at = i;
        for (; at > 0 && work[rank[at - 1]] < work[i]; at--)
            rank[at] = rank[at - 1];
        rank[at] = i;
    }
}

static void set_dim(md_cb_dim *out, const md_cb_kind *kind, int32_t k, int32_t f, const md_cb_member *member,
                    int64_t n_members)
{
    static const char *const letter[MD_CB_BLOCK_AXES] = {"X", "Y", "R"};
    const md_cb_field *field = &kind->field[f];
    const bool is_block = field->axis < MD_CB_BLOCK_AXES;
    *out = (md_cb_dim){.kind = k, .field = f, .axis = field->axis, .limit = is_block ? 1 : INT64_MAX};
    snprintf(out->name, sizeof out->name, "%.24s%d", is_block ? letter[field->axis] : field->name, (int)k);
    for (int64_t i = 0; is_block && i < n_members; i++)
        if (member[i].kind == k)
            out->limit = MD_MAX(out->limit, md_cb_axis_limit(member[i].size, field->axis));
}

int32_t md_cb_order(md_cb_dim *out, const md_cb_kind *kind, int32_t n_kinds, const md_cb_member *member,
                    int64_t n_members)
{
    static const md_cb_axis pass[][2] = {
        {MD_CB_X, MD_CB_R}, {MD_CB_PLAIN, MD_CB_PLAIN}, {MD_CB_THREADS, MD_CB_THREADS}};
    int32_t rank[MD_CB_MAX_GROUPS], n = 0;
    rank_kinds(rank, n_kinds, member, n_members);
    for (int32_t p = 0; p < MD_COUNT(pass); p++)
        for (int32_t r = 0; r < n_kinds; r++)
            for (md_cb_axis axis = pass[p][0]; axis <= pass[p][1]; axis++)
                for (int32_t f = 0; f < kind[rank[r]].n; f++)
                    if (kind[rank[r]].field[f].axis == axis && !(axis == MD_CB_R && kind[rank[r]].is_persistent))
                        set_dim(&out[n++], &kind[rank[r]], rank[r], f, member, n_members);
    return n;
}

/* ---- Steps */

bool md_cb_next_value(int32_t *out, const int32_t *value, int32_t n, int32_t from, bool is_up)
{
    const int32_t bound[2] = {is_up ? MD_MAX(2 * from, from + 1) : MD_MIN(from / 2, from - 1),
                              is_up ? from + 1 : from - 1};
    bool is_found = false;
    for (int32_t b = 0; b < MD_COUNT(bound) && !is_found; b++)
        for (int32_t i = 0; i < n; i++) {
            const int32_t v = value[i];
            if ((is_up ? v < bound[b] : v > bound[b]) || (is_found && (is_up ? v >= *out : v <= *out)))
                continue;
            *out = v;
            is_found = true;
        }
    return is_found;
}

/* ---- Texts */

typedef struct name {
    const char *text;
    size_t n; /* without the number */
    long kind; /* -1: of all kinds */
} name;

static const char *skip(const char *at)
{
    while (isspace((unsigned char)*at) || *at == ',' || *at == ';')
        at++;
    return at;
}

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) || c == '_';
}

/* NULL: there is no name. */
static const char *take_name(name *out, const char *at)
{
    *out = (name){at, 0, -1};
    while (is_letter(at[out->n]))
        out->n++;
    at += out->n;
    if (out->n == 0 || out->n >= MD_CB_DIM_NAME)
        return NULL;
    if (isdigit((unsigned char)*at)) {
        char *end;
        errno = 0;
        out->kind = strtol(at, &end, 10);
        at = errno ? NULL : end;
    }
    return at;
}

static bool has_name(const md_cb_dim *dim, const name *x)
{
    return !strncmp(dim->name, x->text, x->n) && isdigit((unsigned char)dim->name[x->n]) &&
           (x->kind < 0 || x->kind == dim->kind);
}

static md_status refuse(const char *source, const char *text, const char *at)
{
    return md_fail(MD_INVALID_ARGUMENT, "%s: '%.200s': expected names like X0, Y1 or threads, not '%.20s'", source,
                   text, at);
}

md_status md_cb_order_by(md_cb_dim *dim, int32_t n, const char *text, const char *source)
{
    int32_t front = 0;
    name x;
    for (const char *at = skip(text), *end; *at; at = skip(end)) {
        end = take_name(&x, at);
        if (!end || (*end && end == skip(end)))
            return refuse(source, text, at);
        for (int32_t i = front; i < n; i++)
            if (has_name(&dim[i], &x)) {
                const md_cb_dim moved = dim[i];
                memmove(&dim[front + 1], &dim[front], (size_t)(i - front) * sizeof *dim);
                dim[front++] = moved;
            }
    }
    return MD_OK;
}

md_status md_cb_order_limit(md_cb_dim *dim, int32_t n, const char *text, const char *source)
{
    name x;
    for (const char *at = skip(text), *end; *at; at = skip(end)) {
        char *rest = NULL;
        end = take_name(&x, at);
        if (!end || *end != '=' || !isdigit((unsigned char)end[1]))
            return md_fail(MD_INVALID_ARGUMENT, "%s: '%.200s': expected limits like X0=64, not '%.20s'", source, text,
                           at);
        errno = 0;
        const long long limit = strtoll(end + 1, &rest, 10);
        if (errno || limit < 1 || (*rest && rest == skip(rest)))
            return md_fail(MD_INVALID_ARGUMENT, "%s: '%.200s': a limit is a number from 1 on, not '%.20s'", source,
                           text, end + 1);
        for (int32_t i = 0; i < n; i++)
            if (has_name(&dim[i], &x))
                dim[i].limit = MD_MIN(dim[i].limit, (int64_t)limit);
        end = rest;
    }
    return MD_OK;
}
