/* Lines of a regret board, and the shapes that they ask for. */
#include "regret/regret.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 (Steele, Lea, Flood 2014). */
static double next_uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static bool parse_range(regret_line *l, const char *name, const char *value)
{
    char *end = NULL;
    if (l->n_dims == REGRET_DIMS)
        return false;
    regret_dim *d = &l->dim[l->n_dims++];
    snprintf(d->name, sizeof d->name, "%s", name);
    d->lo = d->hi = strtoll(value, &end, 10);
    if (end != value && !strncmp(end, "..", 2))
        d->hi = strtoll(end + 2, &end, 10);
    return end != value && !*end && d->lo >= 1 && d->hi >= d->lo;
}

static bool parse_word(regret_line *l, char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        return false;
    *value++ = 0;
    if (!strcmp(word, "count"))
        return (l->count = atoi(value)) > 0 && l->count <= REGRET_SHAPES;
    if (!strcmp(word, "seed"))
        return (l->seed = strtoull(value, NULL, 10)) > 0;
    if (!strcmp(word, "bytes"))
        return (l->bytes = strtod(value, NULL)) > 0;
    const char **text = !strcmp(word, "static")   ? &l->fixed
                        : !strcmp(word, "hints")  ? &l->hints
                        : !strcmp(word, "trace")  ? &l->trace
                        : !strcmp(word, "dim")    ? &l->trace_dim
                        : !strcmp(word, "shapes") ? &l->shapes
                                                  : NULL;
    if (text)
        *text = value;
    return text || parse_range(l, word, value);
}

bool regret_parse(regret_line *out, char *text)
{
    char *rest = NULL;
    *out = (regret_line){.count = 100, .seed = 1, .bytes = 64e6};
    out->op = strtok_r(text, " \t", &rest);
    char *dtype = strtok_r(NULL, " \t", &rest);
    out->dtype = dtype ? md_dtype_parse(dtype) : MD_DTYPE_DEFAULT;
    for (char *word; (word = strtok_r(NULL, " \t", &rest));)
        if (!parse_word(out, word))
            return false;
    return out->dtype != MD_DTYPE_DEFAULT && !out->trace == !out->trace_dim;
}

static void draw_sizes(char *out, size_t n_bytes, const regret_line *l, uint64_t *random)
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < l->n_dims && used < n_bytes; i++) {
        const regret_dim *d = &l->dim[i];
        double x = d->hi > d->lo
                       ? log((double)d->lo) + next_uniform(random) * (log((double)d->hi + 1.0) - log((double)d->lo))
                       : 0.0;
        long long v = d->hi > d->lo ? (long long)exp(x) : (long long)d->lo;
        v = v < d->lo ? d->lo : v > d->hi ? d->hi : v;
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%s=%lld", i ? ", " : "", d->name, v);
    }
}

static double bytes_at(md_op *op, const char *sizes)
{
    double flops = 0.0, bytes = 0.0;
    return md_op_work(&flops, &bytes, op, sizes) == MD_OK ? bytes : INFINITY;
}

int regret_draw(regret_shape *shape, const regret_line *l, md_op *op)
{
    uint64_t random = l->seed;
    int n = 0;
    for (int tries = 0; n < l->count && tries < 1000 * l->count; tries++) {
        draw_sizes(shape[n].sizes, sizeof shape[n].sizes, l, &random);
        shape[n].weight = 1.0;
        n += bytes_at(op, shape[n].sizes) <= l->bytes;
    }
    return n;
}

int regret_read_shapes(regret_shape *shape, const regret_line *l, md_op *op)
{
    char line[256];
    int n = 0;
    FILE *f = fopen(l->shapes, "r");
    while (f && n < REGRET_SHAPES && fgets(line, sizeof line, f)) {
        line[strcspn(line, "#\n")] = 0;
        for (size_t last = strlen(line); last > 0 && line[last - 1] == ' ';)
            line[--last] = 0;
        if (!line[strspn(line, " \t")] || !(bytes_at(op, line) <= l->bytes))
            continue;
        snprintf(shape[n].sizes, sizeof shape[n].sizes, "%.159s", line);
        shape[n++].weight = 1.0;
    }
    if (f)
        fclose(f);
    return n;
}

int regret_read_trace(regret_shape *shape, const regret_line *l)
{
    char line[128];
    long long size = 0;
    int n = 0;
    FILE *f = fopen(l->trace, "r");
    while (f && n < REGRET_SHAPES && fgets(line, sizeof line, f)) {
        double weight = 1.0;
        if (line[0] == '#' || sscanf(line, "%lld %lf", &size, &weight) < 1 || size < 1 || !(weight > 0.0))
            continue;
        snprintf(shape[n].sizes, sizeof shape[n].sizes, "%s=%lld", l->trace_dim, size);
        shape[n++].weight = weight;
    }
    if (f)
        fclose(f);
    return n;
}
