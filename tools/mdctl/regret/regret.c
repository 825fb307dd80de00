/* regret: how much slower than the best variant that is built the automatic choices are, over many shapes.
 *
 * A line of a board is "OP DTYPE key=value ...": count (shapes), seed and bytes (the most that a shape's tensors
 * have) say how shapes are drawn, a dim's range "i=1..65536" that it is drawn log-uniformly, one number that it is
 * fixed. static=LIST goes to the op; hints=LIST adds a mode that goes by the model at these hints, hints=suggest at
 * sixteen that are suggested for the line's shapes; trace=FILE with dim=NAME takes sizes and weights from lines
 * "size weight" instead of drawing. */
#include "regret/regret.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    md_select select;
} modes[] = {{"distance", MD_SELECT_DISTANCE},
             {"model", MD_SELECT_MODEL},
             {"measure", MD_SELECT_MEASURE},
             {"hybrid", MD_SELECT_HYBRID}};
enum { N_MODES = sizeof modes / sizeof *modes, N_CALLS = 1000, MAX_SHAPES = 4096 };
/* Calls of hybrid come in bursts, as steps of a server do, with a moment between them, and the pool has one to
 * prepare its trials. */
enum { BURST = 20, PREPARE_NS = 5000000, PAUSE_NS = 1000000 };

/* splitmix64 (Steele, Lea, Flood 2014). */
static double next_uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* ---- Lines */

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
        return (l->count = atoi(value)) > 0 && l->count <= MAX_SHAPES;
    if (!strcmp(word, "seed"))
        return (l->seed = strtoull(value, NULL, 10)) > 0;
    if (!strcmp(word, "bytes"))
        return (l->bytes = strtod(value, NULL)) > 0;
    const char **text = !strcmp(word, "static")  ? &l->fixed
                        : !strcmp(word, "hints") ? &l->hints
                        : !strcmp(word, "trace") ? &l->trace
                        : !strcmp(word, "dim")   ? &l->trace_dim
                                                 : NULL;
    if (text)
        *text = value;
    return text || parse_range(l, word, value);
}

/* Works on the text, which must outlive the line. False where it is not understood. */
static bool parse_line(regret_line *out, char *text)
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

/* ---- Shapes */

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

static int draw_shapes(regret_shape *shape, const regret_line *l, md_op *op)
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

static int read_trace(regret_shape *shape, const regret_line *l)
{
    char line[128];
    long long size = 0;
    int n = 0;
    FILE *f = fopen(l->trace, "r");
    while (f && n < MAX_SHAPES && fgets(line, sizeof line, f)) {
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

/* ---- Modes */

static md_status make_mode(regret_study *t, const regret_line *l, const char *name, md_select select, const char *hints)
{
    regret_mode *m = &t->mode[t->n_modes];
    md_op_options o = t->o->op;
    o.dtype = l->dtype;
    o.sizes = l->fixed;
    o.select = select;
    o.hints = hints ? hints : o.hints;
    *m = (regret_mode){.name = name};
    cli_progress("building %s %s for %s", l->op, md_dtype_name(l->dtype), name);
    md_status s = md_op_create(&m->op, t->context, l->op, &o);
    t->n_modes += s == MD_OK;
    return s;
}

static bool is_wanted(const regret_study *t, const char *name)
{
    const char *list = t->o->modes;
    for (size_t n = strlen(name); list && (list = strstr(list, name)); list += n)
        if ((list[n] == 0 || list[n] == ',') && (list == t->o->modes || list[-1] == ','))
            return true;
    return t->o->modes == NULL;
}

static int take_hints(void *user, const char *text, size_t n_bytes)
{
    json_t *found = json_loadb(text, n_bytes, 0, NULL);
    const char *hints = json_string_value(json_object_get(found, "hints"));
    snprintf(user, REGRET_HINTS, "%s", hints ? hints : "");
    json_decref(found);
    return 0;
}

/* Made last: suggestions are for all shapes of the line. */
static md_status make_hinted(regret_study *t, const regret_line *l, const regret_shape *shape, int n)
{
    enum { HINTS = 16 };
    if (!l->hints || !is_wanted(t, "hinted"))
        return MD_OK;
    if (strcmp(l->hints, "suggest"))
        return make_mode(t, l, "hinted", MD_SELECT_MODEL, l->hints);
    md_op_options o = t->o->op;
    o.dtype = l->dtype;
    o.sizes = l->fixed;
    md_met_shape *met = calloc((size_t)n, sizeof *met);
    for (int i = 0; met && i < n; i++)
        met[i] = (md_met_shape){shape[i].sizes, shape[i].weight};
    const md_suggest_options suggest = {met, n, HINTS, 1, take_hints, t->hints};
    md_status s = met ? md_hints_suggest(t->context, l->op, &o, &suggest) : MD_OUT_OF_MEMORY;
    free(met);
    return s == MD_OK ? make_mode(t, l, "hinted", MD_SELECT_MODEL, t->hints) : s;
}

static md_status make_modes(regret_study *t, const regret_line *l)
{
    md_status s = MD_OK;
    for (int i = 0; i < N_MODES && s == MD_OK; i++)
        if (is_wanted(t, modes[i].name))
            s = make_mode(t, l, modes[i].name, modes[i].select, NULL);
    return s;
}

static md_status ask(regret_study *t, regret_mode *m)
{
    const regret_set *set = t->set;
    if (!strcmp(m->name, "hybrid")) {
        for (int i = 0; i < N_CALLS; i++) {
            const regret_set *x = &set[i % t->n_sets];
            md_status s = i % BURST ? MD_OK : md_sync(t->context, NULL);
            if (i && i % BURST == 0)
                nanosleep(&(struct timespec){.tv_nsec = i == BURST ? PREPARE_NS : PAUSE_NS}, NULL);
            if (s == MD_OK)
                s = md_call(m->op, NULL, x->arg, x->n);
            if (s != MD_OK)
                return s;
        }
        md_status s = md_sync(t->context, NULL);
        if (s == MD_OK) /* what was timed last is looked at by the next call */
            s = md_call(m->op, NULL, set[0].arg, set[0].n);
        if (s != MD_OK)
            return s;
    }
    md_choice choice;
    double start = cli_now_us();
    md_status s = md_choice_of(&choice, m->op, set[0].arg, set[0].n);
    m->choosing_us = cli_now_us() - start;
    m->pick = s == MD_OK ? regret_find(t, choice.variant[0]) : -1;
    snprintf(m->variant, sizeof m->variant, "%s", s == MD_OK ? choice.variant[0] : "");
    m->is_uncovered = s == MD_OK && choice.is_uncovered;
    return s;
}

/* ---- What comes out */

/* Who was tried at the shape, from md_explain. */
static int take_trial(void *user, const char *text, size_t n_bytes)
{
    json_t *all = json_loadb(text, n_bytes, 0, NULL), *trial = json_object_get(all, "trial");
    if (json_is_object(trial)) {
        fputs(",\"trial\":", user);
        json_dumpf(trial, user, JSON_COMPACT | JSON_REAL_PRECISION(4));
    }
    json_decref(all);
    return 0;
}

static void print_mode(FILE *f, const regret_mode *m, const char *sizes)
{
    fprintf(f, ",\"%s\":{\"variant\":\"%s\",\"regret\":%.5f,\"own\":%.5f%s", m->name, m->variant, m->regret,
            m->own_regret, m->has_failed ? ",\"failed\":true" : "");
    if (!strcmp(m->name, "hybrid"))
        (void)md_explain(m->op, sizes, 1, take_trial, f);
    fputs("}", f);
}

static void print_space(FILE *f, const regret_study *t, const regret_result *r)
{
    fprintf(f, ",\"space\":{\"best\":\"%s\",\"us\":%.3f,\"configs\":%d,\"complete\":%s", r->space_best, r->space_us,
            r->n_space, r->is_complete ? "true" : "false");
    for (int i = 0; i < t->n_modes; i++)
        fprintf(f, ",\"%s\":%.5f", t->mode[i].name, t->mode[i].space_regret);
    fputs("}", f);
}

/* Of those that were timed in more than the first look. */
static void print_rivals(FILE *f, const regret_study *t)
{
    const char *between = "";
    fputs(",\"rivals\":{", f);
    for (int i = 0; i < t->n_rivals; i++) {
        const regret_rival *r = &t->rival[i];
        if (!r->fits || r->half[0].n == 0)
            continue;
        fprintf(f, "%s\"%s\":%.3f", between, r->name,
                0.5 * (timing_quantile(&r->half[0], 0.5) + timing_quantile(&r->half[r->half[1].n > 0], 0.5)));
        between = ",";
    }
    fputs("}", f);
}

static void print_shape(regret_study *t, const regret_line *l, const regret_shape *shape, const regret_result *r)
{
    FILE *f = t->output ? t->output : stdout;
    fprintf(
        f,
        "{\"op\":\"%s\",\"dtype\":\"%s\",\"shape\":\"%s\",\"weight\":%g,\"best\":\"%s\",\"best_us\":%.3f,\"timed\":%d",
        l->op, md_dtype_name(l->dtype), shape->sizes, shape->weight, r->best, r->best_us, r->n_timed);
    for (int i = 0; i < t->n_modes; i++)
        print_mode(f, &t->mode[i], shape->sizes);
    if (r->is_searched)
        print_space(f, t, r);
    if (t->o->rivals)
        print_rivals(f, t);
    fprintf(f, "%s}\n", t->mode[0].is_uncovered ? ",\"uncovered\":true" : "");
}

static void print_sum(regret_study *t, const char *what, int n, const regret_mode *m)
{
    FILE *f[] = {stdout, t->output};
    for (int i = 0; i < 2; i++)
        if (f[i] && n > 0)
            fprintf(f[i],
                    "{\"sum\":\"%s\",\"mode\":\"%s\",\"shapes\":%d,\"mean\":%.5f,\"own\":%.5f,\"median\":%.5f,\"p90\":%"
                    ".5f,\"max\":%.5f,\"by_time\":%.5f,"
                    "\"choosing_us\":%.1f,\"failed\":%d}\n",
                    what, m->name, n, m->sum / (m->all.n ? m->all.n : 1), m->own_sum / (m->all.n ? m->all.n : 1),
                    timing_quantile(&m->all, 0.5), timing_quantile(&m->all, 0.9), m->most,
                    m->best_time > 0.0 ? m->time / m->best_time - 1.0 : 0.0, m->choosing_sum / n, m->n_failed);
}

/* Against the best of the whole space, over the shapes that were searched. */
static void print_space_sum(regret_study *t, const char *what, const regret_mode *m)
{
    FILE *f[] = {stdout, t->output};
    for (int i = 0; i < 2; i++)
        if (f[i] && t->n_searched > 0)
            fprintf(
                f[i],
                "{\"space_sum\":\"%s\",\"mode\":\"%s\",\"shapes\":%d,\"complete\":%d,\"mean\":%.5f,\"by_time\":%.5f}\n",
                what, m->name, t->n_searched, t->n_complete, m->space_sum / t->n_searched,
                m->space_best > 0.0 ? m->space_time / m->space_best - 1.0 : 0.0);
}

static void add_up(regret_mode *m, const regret_shape *shape, const regret_result *r)
{
    m->choosing_sum += m->choosing_us;
    m->n_failed += m->has_failed;
    if (m->has_failed)
        return;
    m->sum += m->regret;
    m->own_sum += m->own_regret;
    m->most = m->all.n == 0 || m->regret > m->most ? m->regret : m->most;
    timing_add(&m->all, m->regret);
    m->time += shape->weight * r->best_us * (1.0 + m->regret);
    m->best_time += shape->weight * r->best_us;
    if (!r->is_searched)
        return;
    m->space_sum += m->space_regret;
    m->space_time += shape->weight * r->space_us * (1.0 + m->space_regret);
    m->space_best += shape->weight * r->space_us;
}

static md_status study_shape(regret_study *t, const regret_line *l, const regret_shape *shape)
{
    regret_result r = {.best = "", .space_best = ""};
    t->shape = shape;
    md_status s = regret_place(t, shape->sizes);
    for (int i = 0; i < t->n_modes && s == MD_OK; i++)
        s = ask(t, &t->mode[i]);
    if (s == MD_OK && t->n_searched < t->o->space)
        s = regret_search(&r, t, shape->sizes);
    if (s == MD_OK)
        s = regret_measure(&r, t);
    if (s != MD_OK)
        return s;
    t->n_searched += r.is_searched;
    t->n_complete += r.is_complete;
    for (int i = 0; i < t->n_modes; i++)
        add_up(&t->mode[i], shape, &r);
    print_shape(t, l, shape, &r);
    return MD_OK;
}

static md_status study_line(regret_study *t, const regret_line *l)
{
    int done = 0;
    char what[96];
    regret_shape *shape = calloc(MAX_SHAPES, sizeof *shape);
    md_status s = shape ? make_modes(t, l) : MD_OUT_OF_MEMORY;
    int n = s != MD_OK ? 0 : l->trace ? read_trace(shape, l) : draw_shapes(shape, l, t->mode[0].op);
    if (s == MD_OK)
        s = make_hinted(t, l, shape, n);
    if (s == MD_OK)
        s = regret_rivals(t, l);
    t->line = l;
    t->n_searched = t->n_complete = 0;
    for (int i = t->o->part - 1; i < n && s == MD_OK; i += t->o->n_parts, done++) {
        cli_progress("%s %s: shape %d of %d", l->op, shape[i].sizes, i + 1, n);
        s = study_shape(t, l, &shape[i]);
        if (s != MD_OK)
            cli_fail("%s %s: %s", l->op, shape[i].sizes, md_last_error());
    }
    snprintf(what, sizeof what, "%s %s%s%s", l->op, md_dtype_name(l->dtype), l->trace ? " " : "",
             l->trace ? l->trace : "");
    for (int i = 0; i < t->n_modes; i++) {
        print_sum(t, what, done, &t->mode[i]);
        print_space_sum(t, what, &t->mode[i]);
    }
    for (int i = 0; i < t->n_modes; i++)
        md_op_destroy(&t->mode[i].op);
    t->n_modes = 0;
    regret_leave(t);
    free(shape);
    return s;
}

static int study_board(regret_study *t, const char *path)
{
    char line[1024];
    int status = CLI_OK;
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_usage("cannot open the board '%s'", path);
    for (int number = 1; status == CLI_OK && fgets(line, sizeof line, f); number++) {
        regret_line l;
        line[strcspn(line, "#\n")] = 0;
        if (!line[strspn(line, " \t")])
            continue;
        if (!parse_line(&l, line))
            status = cli_usage("%s:%d: expected \"OP DTYPE key=value ...\"", path, number);
        else if (study_line(t, &l) != MD_OK)
            status = cli_fail_md();
    }
    fclose(f);
    return status;
}

int cli_regret(const cli_options *o)
{
    int status = CLI_OK;
    if (o->n == 0)
        return cli_usage("regret takes boards: mdctl regret data/boards/regret_host.txt");
    regret_study *t = calloc(1, sizeof *t);
    if (!t)
        return cli_fail("out of memory");
    t->o = o;
    if (o->output && !(t->output = fopen(o->output, "w")))
        status = cli_fail("cannot write '%s'", o->output);
    if (status == CLI_OK && (md_context_create(&t->context, &o->context) != MD_OK || regret_open(t) != MD_OK))
        status = cli_fail_md();
    for (int i = 0; i < o->n && status == CLI_OK; i++)
        status = study_board(t, o->arg[i]);
    regret_close(t);
    md_context_destroy(&t->context);
    status = cli_close_output(t->output, o->output, status);
    free(t);
    return status;
}
