/* Parses hints and weights into a space, and measures distances in it. */
#include "dispatch/space/space.h"

#include "base/plain.h"
#include "base/status.h"
#include "expr/node.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNNAMED_SIZE = 256 };

typedef struct hint_parser {
    md_ds_space *space;
    const char *at;
    const char *text;
    const char *source;
    md_fx_named named;
} hint_parser;

static md_status bad_hint(const hint_parser *p, const char *why)
{
    return md_fail(MD_INVALID_ARGUMENT,
                   "%s: '%s': %s at '%.20s'; use \"64,256,4096\", \"b=1,64 n=256\" or \"(b=1,n=64) (b=8,n=64)\"",
                   p->source, p->text, why, p->at);
}

static void skip_blanks(hint_parser *p)
{
    while (isspace((unsigned char)*p->at) || *p->at == ';')
        p->at++;
}

static md_status parse_value(hint_parser *p, int64_t *out)
{
    skip_blanks(p);
    if (!isdigit((unsigned char)*p->at))
        return bad_hint(p, "expected a size");
    errno = 0;
    char *end = NULL;
    long long v = strtoll(p->at, &end, 10);
    if (errno == ERANGE || v < 1 || v > MD_DS_MOST_HINT)
        return bad_hint(p, "a hint lies in 1..2^40");
    p->at = end;
    *out = v;
    return MD_OK;
}

/* value {, value}: a comma that is followed by a name belongs to the caller's list. */
static md_status parse_values(hint_parser *p, int64_t *value, int32_t *n)
{
    *n = 0;
    for (;;) {
        if (*n == MD_DS_MAX_VALUES)
            return bad_hint(p, "more than 32 values");
        MD_TRY(parse_value(p, &value[(*n)++]));
        const char *comma = p->at;
        while (isspace((unsigned char)*comma))
            comma++;
        if (*comma != ',')
            return MD_OK;
        const char *next = comma + 1;
        while (isspace((unsigned char)*next))
            next++;
        if (!isdigit((unsigned char)*next))
            return MD_OK;
        p->at = comma + 1;
    }
}

int32_t md_ds_slot_of(const md_ds_space *space, int32_t dim)
{
    for (int32_t i = 0; i < space->n; i++)
        if (space->dim[i] == dim)
            return i;
    return -1;
}

/* name '=': *slot is the position in space->dim, or -1 for a dim of the formula that is static. */
static md_status parse_name(hint_parser *p, int32_t *slot)
{
    skip_blanks(p);
    const char *start = p->at;
    while (isalnum((unsigned char)*p->at) || *p->at == '_' || *p->at == '.')
        p->at++;
    size_t n = (size_t)(p->at - start);
    if (n == 0)
        return bad_hint(p, "expected the name of a dim");
    int32_t dim = -1;
    MD_TRY(md_fx_name_dim(&dim, &p->named, p->space->formula, start, n));
    *slot = md_ds_slot_of(p->space, dim);
    skip_blanks(p);
    if (*p->at != '=')
        return bad_hint(p, "expected '='");
    p->at++;
    return MD_OK;
}

static int64_t into_range(const md_ds_space *space, int32_t slot, int64_t v)
{
    const md_fx_dim *d = &space->formula->dim[space->dim[slot]];
    return MD_MAX(d->lo, MD_MIN(d->hi, v));
}

static md_status add_point(hint_parser *p, const int64_t *point)
{
    md_ds_space *s = p->space;
    int64_t q[MD_DS_MAX_DYNAMIC] = {0};
    for (int32_t i = 0; i < s->n; i++)
        q[i] = into_range(s, i, point[i]);
    for (int32_t h = 0; h < s->n_hints; h++)
        if (!memcmp(s->hint[h], q, sizeof q))
            return MD_OK;
    if (s->n_hints == MD_DS_MAX_HINTS)
        return md_fail(MD_INVALID_ARGUMENT, "%s: '%s': more than %d hints", p->source, p->text, MD_DS_MAX_HINTS);
    memcpy(s->hint[s->n_hints++], q, sizeof q);
    return MD_OK;
}

static md_status parse_diagonal(hint_parser *p)
{
    int64_t value[MD_DS_MAX_VALUES];
    int32_t n = 0;
    MD_TRY(parse_values(p, value, &n));
    for (int32_t i = 0; i < n; i++) {
        int64_t point[MD_DS_MAX_DYNAMIC];
        for (int32_t d = 0; d < MD_DS_MAX_DYNAMIC; d++)
            point[d] = value[i];
        MD_TRY(add_point(p, point));
    }
    return MD_OK;
}

static void unnamed_point(int64_t point[MD_DS_MAX_DYNAMIC])
{
    for (int32_t i = 0; i < MD_DS_MAX_DYNAMIC; i++)
        point[i] = UNNAMED_SIZE;
}

static md_status parse_points(hint_parser *p)
{
    for (skip_blanks(p); *p->at == '('; skip_blanks(p)) {
        p->at++;
        p->named.dims = 0;
        int64_t point[MD_DS_MAX_DYNAMIC];
        unnamed_point(point);
        for (;;) {
            int32_t slot;
            int64_t v;
            MD_TRY(parse_name(p, &slot));
            MD_TRY(parse_value(p, &v));
            if (slot >= 0)
                point[slot] = v;
            skip_blanks(p);
            if (*p->at != ',')
                break;
            p->at++;
        }
        if (*p->at != ')')
            return bad_hint(p, "expected ')'");
        p->at++;
        MD_TRY(add_point(p, point));
    }
    return MD_OK;
}

typedef struct hint_grid {
    int32_t n[MD_DS_MAX_DYNAMIC]; /* 0: not named */
    int64_t value[MD_DS_MAX_DYNAMIC][MD_DS_MAX_VALUES];
} hint_grid;

static md_status add_grid(hint_parser *p, const hint_grid *grid, int32_t slot, int64_t *point)
{
    if (slot == p->space->n)
        return add_point(p, point);
    for (int32_t i = 0; i < MD_MAX(1, grid->n[slot]); i++) {
        point[slot] = grid->n[slot] ? grid->value[slot][i] : UNNAMED_SIZE;
        MD_TRY(add_grid(p, grid, slot + 1, point));
    }
    return MD_OK;
}

static md_status parse_grid(hint_parser *p)
{
    hint_grid grid = {0};
    for (skip_blanks(p); *p->at && *p->at != '('; skip_blanks(p)) {
        int32_t slot, n;
        int64_t value[MD_DS_MAX_VALUES];
        MD_TRY(parse_name(p, &slot));
        MD_TRY(parse_values(p, value, &n));
        if (slot >= 0) {
            grid.n[slot] = n;
            memcpy(grid.value[slot], value, (size_t)n * sizeof *value);
        }
        skip_blanks(p);
        if (*p->at == ',')
            p->at++;
    }
    int64_t point[MD_DS_MAX_DYNAMIC] = {0};
    return add_grid(p, &grid, 0, point);
}

static md_status parse_hints(hint_parser *p)
{
    skip_blanks(p);
    if (!*p->at)
        return bad_hint(p, "no hint");
    if (*p->at == '(')
        MD_TRY(parse_points(p));
    else if (isdigit((unsigned char)*p->at))
        MD_TRY(parse_diagonal(p));
    else
        MD_TRY(parse_grid(p));
    skip_blanks(p);
    if (*p->at)
        return bad_hint(p, "unexpected text");
    return MD_OK;
}

static md_status set_weights(md_ds_space *s, const char *text)
{
    md_fx_named named = {.source = "option weights"};
    for (const char *at = text; *at;) {
        while (*at == ' ' || *at == ',' || *at == ';')
            at++;
        if (!*at)
            break;
        const char *eq = strchr(at, '=');
        char *end = NULL;
        double w = eq ? md_strtod(eq + 1, &end) : -1.0;
        if (!eq || end == eq + 1 || !(w >= 0) || !isfinite(w) || (*end && !strchr(" ,;", *end)))
            return md_fail(MD_INVALID_ARGUMENT, "option weights: '%s': expected name=number >= 0 at '%.20s'", text, at);
        size_t n = (size_t)(eq - at);
        while (n && at[n - 1] == ' ')
            n--;
        int32_t dim = -1;
        MD_TRY(md_fx_name_dim(&dim, &named, s->formula, at, n));
        const int32_t slot = md_ds_slot_of(s, dim);
        if (slot >= 0)
            s->weight[slot] = w;
        at = end;
    }
    return MD_OK;
}

static double count_axes(const md_fx_formula *f, int32_t dim)
{
    int32_t n = 0;
    for (int32_t t = 0; t < f->n_tensors; t++)
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            n += f->tensor[t].role != MD_FX_TEMP && f->tensor[t].dim[a] == dim;
    return n;
}

static bool runs_over(const md_fx_formula *f, int32_t dim)
{
    for (int32_t i = 0; i < f->n_indices; i++)
        if (f->index[i].dim == dim)
            return true;
    return false;
}

md_status md_ds_space_make(md_ds_space *out, const md_fx_formula *formula, const char *hints, const char *source,
                           const char *weights)
{
    memset(out, 0, sizeof *out);
    out->formula = formula;
    for (int32_t d = 0; d < formula->n_dims; d++) {
        if (formula->dim[d].size >= 0 || !runs_over(formula, d))
            continue;
        if (out->n == MD_DS_MAX_DYNAMIC)
            return md_fail(MD_UNSUPPORTED, "more than %d dynamic dims", MD_DS_MAX_DYNAMIC);
        out->dim[out->n] = d;
        out->weight[out->n] = 1.0;
        out->occurrences[out->n++] = count_axes(formula, d);
    }
    hint_parser p = {out, hints, hints, source, {.source = source}};
    MD_TRY(parse_hints(&p));
    if (out->n == 0)
        out->n_hints = 1;
    return weights ? set_weights(out, weights) : MD_OK;
}

static double log_size(int64_t v)
{
    return v > 0 ? log2((double)v) : -1.0;
}

double md_ds_distance(const md_ds_space *space, md_metric metric, const int64_t *size, const int64_t *hint)
{
    double d = 0.0;
    for (int32_t i = 0; i < space->n; i++) {
        double w = metric == MD_METRIC_INDUCTOR ? space->occurrences[i] : space->weight[i];
        d += w * fabs(log_size(size[space->dim[i]]) - log_size(hint[i]));
    }
    return d;
}

int32_t md_ds_nearest_hint(double *distance, const md_ds_space *space, md_metric metric, const int64_t *size)
{
    int32_t best = 0;
    for (int32_t h = 0; h < space->n_hints; h++) {
        double d = md_ds_distance(space, metric, size, space->hint[h]);
        if (h > 0 && d >= *distance)
            continue;
        best = h;
        *distance = d;
    }
    return best;
}

md_status md_ds_as_take(md_ds_as *out, const md_ds_space *space, const md_arg *args, int32_t *n_args)
{
    const int32_t own = space->formula->n_args;
    out->n = 0;
    if (!args || *n_args <= own || *n_args > own + MD_DS_MAX_DYNAMIC || args[own].kind != MD_ARG_AS)
        return MD_OK; /* binding the call names what is wrong with the argument */
    for (; *n_args > own; --*n_args) {
        const md_arg *a = &args[*n_args - 1];
        if (a->kind != MD_ARG_AS)
            return md_fail(MD_INVALID_ARGUMENT, "argument %d: only md_as may stand behind the op's %d arguments",
                           *n_args - 1, own);
        if (a->dim < 0 || a->dim >= space->n)
            return md_fail(MD_INVALID_ARGUMENT, "md_as: there is no dynamic dim number %d, of %d", a->dim, space->n);
        const md_fx_dim *d = &space->formula->dim[space->dim[a->dim]];
        if (a->integer < MD_MAX(d->lo, 1) || a->integer > d->hi)
            return md_fail(MD_INVALID_ARGUMENT, "md_as: dim '%s' as %lld lies outside %lld..%lld", d->name,
                           (long long)a->integer, (long long)MD_MAX(d->lo, 1), (long long)d->hi);
        if (out->n == 0)
            memset(out->size, 0, sizeof out->size);
        if (out->size[a->dim])
            return md_fail(MD_INVALID_ARGUMENT, "md_as: dim '%s' is given twice", d->name);
        out->size[a->dim] = a->integer;
        out->n++;
    }
    return MD_OK;
}

void md_ds_as_sizes(int64_t out[MD_FX_MAX_DIMS], const md_ds_space *space, const int64_t *size, const md_ds_as *as)
{
    memcpy(out, size, (size_t)space->formula->n_dims * sizeof *out);
    for (int32_t i = 0; i < space->n && as->n > 0; i++)
        if (as->size[i])
            out[space->dim[i]] = as->size[i];
}

/* A likely length of an axis that must only be long enough: of its subscript, y * 2 + r - 1, the longest term. */
static int64_t likely_length(const md_fx_formula *f, int32_t dim, const int64_t *size)
{
    int64_t length = 1;
    for (int32_t i = 0; i < f->n_reaches; i++) {
        const md_fx_reach *r = &f->reach[i];
        md_fx_affine place;
        if (f->tensor[r->tensor].dim[r->axis] != dim || !md_fx_affine_of(&place, f, r->subscript))
            continue;
        for (int32_t k = 0; k < place.n; k++) {
            const int64_t n = size[f->index[place.index[k]].dim];
            if (place.coef[k] > 0 && n <= INT64_MAX / place.coef[k])
                length = MD_MAX(length, place.coef[k] * n);
        }
    }
    return length;
}

void md_ds_point_sizes(int64_t size[MD_FX_MAX_DIMS], const md_ds_space *space, const int64_t *point)
{
    for (int32_t d = 0; d < MD_FX_MAX_DIMS; d++)
        size[d] = d < space->formula->n_dims ? MD_MAX(space->formula->dim[d].size, 0) : 0;
    for (int32_t k = 0; k < space->n; k++)
        size[space->dim[k]] = point[k];
    /* copies run over such axes (stage/turn.c); else their dims have no index, and stay 0 */
    for (int32_t d = 0; d < space->formula->n_dims; d++)
        if (space->formula->dim[d].size < 0 && runs_over(space->formula, d) && md_ds_slot_of(space, d) < 0)
            size[d] = likely_length(space->formula, d, size);
}

void md_ds_print_hints(md_strbuf *out, const md_ds_space *space, uint64_t chosen)
{
    bool is_first = true;
    for (int32_t h = 0; h < space->n_hints && space->n > 0; h++) {
        if (!(chosen >> h & 1))
            continue;
        md_strbuf_add(out, is_first ? "(" : " (");
        is_first = false;
        for (int32_t k = 0; k < space->n; k++)
            md_strbuf_printf(out, "%s%s=%lld", k ? "," : "", space->formula->dim[space->dim[k]].name,
                             (long long)space->hint[h][k]);
        md_strbuf_add(out, ")");
    }
}

bool md_ds_are_default_hints(const char *source)
{
    return source && !strcmp(source, "default hints");
}
