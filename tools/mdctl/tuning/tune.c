/* tune: searches configs, shows how, and keeps what was found. */
#include "tuning/command.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- What the library writes, line by line */

static void sizes_text(char *out, size_t n, const json_t *sizes)
{
    const char *name;
    json_t *value;
    size_t at = 0;
    out[0] = 0;
    json_object_foreach((json_t *)sizes, name, value) if (at < n) at +=
        (size_t)snprintf(out + at, n - at, "%s%s=%lld", at ? " " : "", name, (long long)json_integer_value(value));
    if (!out[0])
        snprintf(out, n, "static");
}

static const char *text_of(const json_t *line, const char *name)
{
    const char *text = json_string_value(json_object_get(line, name));
    return text ? text : "";
}

static double number_of(const json_t *line, const char *name)
{
    return json_number_value(json_object_get(line, name));
}

static void print_winner(const json_t *line)
{
    char sizes[128];
    const double us = number_of(line, "us");
    sizes_text(sizes, sizeof sizes, json_object_get(line, "sizes"));
    const bool is_best = json_is_true(json_object_get(line, "best")), is_measured = number_of(line, "count") > 0;
    cli_progress(NULL);
    printf("%s%d  %-26s %-64s %10.3f us %s%s%s\n", is_best ? cli_bold() : "", (int)number_of(line, "stage"), sizes,
           text_of(line, "variant"), us,
           !is_measured                                   ? "(model) "
           : json_is_true(json_object_get(line, "known")) ? "(known) "
                                                          : "",
           is_best ? "<- best" : "", is_best ? cli_plain() : "");
    if (!json_is_true(json_object_get(line, "complete")))
        printf("   the budget ended the search here: another run goes on from this\n");
}

static void take_candidate(tune_run *r, const json_t *line)
{
    char sizes[128];
    sizes_text(sizes, sizeof sizes, json_object_get(line, "sizes"));
    r->n_candidates++;
    if (r->budget_ms > 0.0)
        cli_progress_part((cli_now_us() - r->start_us) * 1e-3, r->budget_ms);
    cli_progress("%s: %d configs timed; %s", r->formula, r->n_candidates, sizes);
    if (r->n_points_kept == r->capacity) {
        const int32_t more = r->capacity ? 2 * r->capacity : 256;
        tune_mark *grown = realloc(r->mark, (size_t)more * sizeof *grown);
        if (!grown)
            return;
        r->mark = grown;
        r->capacity = more;
    }
    tune_mark *m = &r->mark[r->n_points_kept++];
    snprintf(m->point, sizeof m->point, "%s", sizes);
    snprintf(m->variant, sizeof m->variant, "%s", text_of(line, "variant"));
    m->us = number_of(line, "us");
    m->model_us = number_of(line, "model_us");
    m->round = (int32_t)number_of(line, "round");
}

/* With --from-stats every op is a search of its own. */
static void take_op(tune_run *r, const json_t *line)
{
    r->start_us = cli_now_us();
    cli_progress_part(0.0, r->budget_ms);
    cli_progress(NULL);
    if (!r->json)
        printf("%s%s%s: %d of %d shapes\n", cli_bold(), text_of(line, "op"), cli_plain(),
               (int)number_of(line, "points"), (int)number_of(line, "shapes"));
}

/* The progress of a part is that of its pieces' predicted time. */
static void take_piece(tune_run *r, const json_t *line)
{
    r->budget_ms = 0.0;
    cli_progress_part(number_of(line, "done_ms"), number_of(line, "all_ms"));
    cli_progress("piece %d of %d: %s", (int)number_of(line, "number"), (int)number_of(line, "pieces"),
                 text_of(line, "family"));
}

static int take_line(void *user, const char *text, size_t n_bytes)
{
    tune_run *r = user;
    json_t *line = json_loadb(text, n_bytes, 0, NULL);
    const char *event = text_of(line, "event");
    if (r->log)
        fwrite(text, 1, n_bytes, r->log);
    if (r->json) {
        fwrite(text, 1, n_bytes, stdout);
        fflush(stdout);
    }
    if (!strcmp(event, "candidate"))
        take_candidate(r, line);
    else if (!strcmp(event, "op"))
        take_op(r, line);
    else if (!strcmp(event, "piece"))
        take_piece(r, line);
    else if (!strcmp(event, "winner") && !r->json)
        print_winner(line);
    else if (!r->json && (!strcmp(event, "skipped") || !strcmp(event, "busy")))
        fprintf(stderr, "mdctl: %s\n", text_of(line, "why"));
    json_decref(line);
    return 0;
}

/* ---- The command */

static int64_t *read_indices(int64_t *n, const char *path)
{
    FILE *file = fopen(path, "r");
    int64_t *value = NULL, capacity = 0;
    long long v;
    *n = 0;
    while (file && fscanf(file, "%lld", &v) == 1) {
        if (*n == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            int64_t *grown = realloc(value, (size_t)capacity * sizeof *grown);
            if (!grown)
                break;
            value = grown;
        }
        value[(*n)++] = v;
    }
    if (file)
        fclose(file);
    return value;
}

/* "b=8, n=64" is one point in the language of hints. */
static char *points_of(const cli_options *o)
{
    char *text = NULL;
    if (o->sizes && asprintf(&text, "(%s)", o->sizes) < 0)
        return NULL;
    return text;
}

static int put_line(void *user, const char *text, size_t n_bytes)
{
    (void)user;
    fwrite(text, 1, n_bytes, stdout);
    return fflush(stdout);
}

int tune_options(md_tune_options *out, int64_t **indices, const cli_options *o, const tune_target *target)
{
    *out = (md_tune_options){.rigor = o->rigor,
                             .budget_ms = o->budget,
                             .max_builds = o->builds,
                             .strategy = o->strategy,
                             .all_directions = o->all_directions,
                             .off_hints = o->off_hints,
                             .seed = o->seed,
                             .exclude = o->exclude,
                             .indices = target->indices,
                             .n_indices = target->n_indices};
    *indices = NULL;
    if (o->indices) { /* overrides the target's */
        out->indices = *indices = read_indices(&out->n_indices, o->indices);
        if (out->n_indices == 0)
            return cli_fail("%s: no indices there", o->indices);
    }
    return CLI_OK;
}

static int tune_one(tune_run *r, md_context *context, const cli_options *o, const tune_target *target)
{
    md_tune_options t;
    int64_t *indices = NULL;
    int status = tune_options(&t, &indices, o, target);
    t.write = put_line;
    t.user = r;
    if (status == CLI_OK && md_tune_formula(context, target->formula, target->op, &t) != MD_OK)
        status = cli_fail_md();
    free(indices);
    return status;
}

/* Gives every target to a function: the formula's, or those of --from-stats. */
static int each_target(tune_run *r, md_context *context, const cli_options *o, tune_fn tune)
{
    md_op_options op = o->op;
    if (o->from_stats)
        return tune_from_stats(r, context, o, tune);
    char *points = points_of(o);
    if (points)
        op.hints = points;
    int status = tune(r, context, o, &(tune_target){o->arg[0], &op, NULL, 0});
    free(points);
    return status;
}

static int run(tune_run *r, md_context *context, const cli_options *o)
{
    if (!tune_in_pieces(o))
        return each_target(r, context, o, tune_one);
    int status = each_target(r, context, o, tune_add_pieces);
    if (status == CLI_OK)
        status = o->plans ? tune_print_plan(r, o) : tune_part(r, context, o);
    tune_free_pieces(r);
    return status;
}

/* The helper: JSON lines and nothing else. A plan builds and runs nothing, and needs no helper. */
static int work(const cli_options *o)
{
    md_context *context = NULL;
    tune_run r = {.json = true};
    if (cli_open_context(&context, o) != MD_OK)
        return cli_fail_md();
    int status = run(&r, context, o);
    cli_close_context(&context);
    free(r.mark);
    return status;
}

/* The longest that a search may take. */
static double budget_of(const cli_options *o)
{
    enum { DEFAULT_MS = 1500 };
    const char *asked = getenv("MD_TUNE_BUDGET_MS");
    const double ms = o->budget > 0.0 ? o->budget : asked ? atof(asked) : 0.0;
    return ms > 0.0 ? ms : DEFAULT_MS;
}

int cli_tune(const cli_options *o)
{
    tune_run r = {.json = o->json};
    if (o->from_stats ? o->n != 0 : o->n != 1)
        return cli_usage(
            o->from_stats ? "tune --from-stats takes no formula" : "tune takes one formula or op, but got %d", o->n);
    if (o->worker || o->plans)
        return work(o);
    if (o->output && !(r.log = fopen(o->output, "w")))
        return cli_fail("cannot write %s", o->output);
    r.formula = o->n ? o->arg[0] : o->from_stats;
    const double start = r.start_us = cli_now_us();
    r.budget_ms = budget_of(o);
    cli_progress_part(0.0, r.budget_ms);
    int status = tune_guard(o, take_line, &r);
    cli_progress(NULL);
    if (status == CLI_OK && !r.json)
        printf("%d configs timed in %.2f s\n", r.n_candidates, (cli_now_us() - start) * 1e-6);
    if (status == CLI_OK && o->plot)
        status = tune_plot(&r, o->plot);
    free(r.mark);
    return cli_close_output(r.log, o->output, status);
}
