/* tune --part, --plan, --wisdom: the work in pieces, cut into parts of equal predicted time. */
#include "tuning/command.h"
#include "tuning/part_file.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool tune_in_pieces(const cli_options *o)
{
    return o->n_parts > 1 || o->plans || o->wisdom;
}

/* ---- The pieces of all parts */

static bool add_piece(tune_run *r, const char *text, size_t n_bytes)
{
    json_t *read = json_loadb(text, n_bytes, 0, NULL);
    if (r->n_pieces == r->piece_capacity) {
        const int32_t more = r->piece_capacity ? 2 * r->piece_capacity : 256;
        tune_piece *grown = realloc(r->piece, (size_t)more * sizeof *grown);
        if (grown) {
            r->piece = grown;
            r->piece_capacity = more;
        }
    }
    char *own = strndup(text, n_bytes);
    const bool is_good = read && own && r->n_pieces < r->piece_capacity;
    if (is_good) {
        tune_piece *p = &r->piece[r->n_pieces++];
        *p = (tune_piece){.text = own, .ms = json_number_value(json_object_get(read, "ms"))};
        snprintf(p->digest, sizeof p->digest, "%s", json_string_value(json_object_get(read, "piece")));
    } else {
        free(own);
    }
    json_decref(read);
    return is_good;
}

/* A md_write_fn. */
static int add_lines(void *user, const char *text, size_t n_bytes)
{
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (!add_piece(user, at, (size_t)(stop - at)))
            return 1;
        at = stop + 1;
    }
    return 0;
}

int tune_add_pieces(tune_run *r, md_context *context, const cli_options *o, const tune_target *target)
{
    md_tune_options t;
    int64_t *indices = NULL;
    int status = tune_options(&t, &indices, o, target);
    t.write = add_lines;
    t.user = r;
    if (status == CLI_OK && md_tune_pieces(context, target->formula, target->op, &t) != MD_OK)
        status = cli_fail_md();
    free(indices);
    return status;
}

void tune_free_pieces(tune_run *r)
{
    for (int32_t i = 0; i < r->n_pieces; i++)
        free(r->piece[i].text);
    free(r->piece);
    r->piece = NULL;
    r->n_pieces = r->piece_capacity = 0;
}

/* ---- The cut */

static int by_digest(const void *a, const void *b)
{
    return strcmp(((const tune_piece *)a)->digest, ((const tune_piece *)b)->digest);
}

/* The longest first; of equals the lower digest. */
static int by_time(const void *a, const void *b)
{
    const tune_piece *x = a, *y = b;
    return x->ms != y->ms ? (x->ms < y->ms) - (x->ms > y->ms) : by_digest(a, b);
}

static void drop_doubles(tune_run *r)
{
    int32_t n = 0;
    qsort(r->piece, (size_t)r->n_pieces, sizeof *r->piece, by_digest);
    for (int32_t i = 0; i < r->n_pieces; i++) {
        if (n > 0 && !strcmp(r->piece[n - 1].digest, r->piece[i].digest))
            free(r->piece[i].text);
        else
            r->piece[n++] = r->piece[i];
    }
    r->n_pieces = n;
}

/* Gives each piece, the longest first, to the part that has least by then. False where memory is short. */
static bool cut(tune_run *r, int n_parts)
{
    double *load = calloc((size_t)n_parts, sizeof *load);
    if (!load || r->n_pieces == 0) {
        free(load);
        return load != NULL;
    }
    drop_doubles(r);
    qsort(r->piece, (size_t)r->n_pieces, sizeof *r->piece, by_time);
    for (int32_t i = 0; i < r->n_pieces; i++) {
        int least = 0;
        for (int k = 1; k < n_parts; k++)
            if (load[k] < load[least])
                least = k;
        load[least] += r->piece[i].ms;
        r->piece[i].part = least + 1;
    }
    free(load);
    return true;
}

/* Of all pieces, in any order: the sum of their digests. */
static void plan_digest(char out[40], const tune_run *r)
{
    unsigned long long sum[2] = {0, 0}, one[2];
    for (int32_t i = 0; i < r->n_pieces; i++)
        if (sscanf(r->piece[i].digest, "%16llx%16llx", &one[0], &one[1]) == 2) {
            sum[0] += one[0];
            sum[1] += one[1];
        }
    snprintf(out, 40, "%016llx%016llx", sum[0], sum[1]);
}

/* ---- --plan */

static void print_piece(const tune_piece *p, const cli_options *o)
{
    json_t *read = json_loads(p->text, 0, NULL);
    if (o->json) {
        json_object_set_new(read, "part", json_integer(p->part));
        char *text = json_dumps(read, JSON_COMPACT | JSON_SORT_KEYS);
        puts(text ? text : "");
        free(text);
    } else {
        const char *point = json_string_value(json_object_get(read, "point"));
        printf("%4d/%d %8.0f ms  %.8s  %-24s %-20s stage %lld of %s\n", p->part, o->n_parts, p->ms, p->digest,
               point && point[0] ? point : "static", json_string_value(json_object_get(read, "family")),
               json_integer_value(json_object_get(read, "stage")), json_string_value(json_object_get(read, "formula")));
    }
    json_decref(read);
}

int tune_print_plan(tune_run *r, const cli_options *o)
{
    double all = 0.0, longest = 0.0;
    char plan[40];
    if (!cut(r, o->n_parts))
        return cli_fail("out of memory");
    for (int part = 1; part <= o->n_parts; part++) {
        double ms = 0.0;
        for (int32_t i = 0; i < r->n_pieces; i++)
            ms += r->piece[i].part == part ? r->piece[i].ms : 0.0;
        longest = ms > longest ? ms : longest;
        all += ms;
    }
    for (int32_t i = 0; i < r->n_pieces; i++)
        if (!o->has_part || r->piece[i].part == o->part)
            print_piece(&r->piece[i], o);
    plan_digest(plan, r);
    if (!o->json)
        printf("plan %s: %d pieces, %.1f s; the longest of %d parts %.1f s\n", plan, (int)r->n_pieces, all * 1e-3,
               o->n_parts, longest * 1e-3);
    return CLI_OK;
}

/* ---- --part: in the helper */

typedef struct part_run {
    FILE *wisdom; /* NULL: nowhere */
    int32_t n, number;
    double done_ms, all_ms;
} part_run;

static int put_line(void *user, const char *text, size_t n_bytes)
{
    (void)user;
    fwrite(text, 1, n_bytes, stdout);
    return fflush(stdout);
}

static int put_wisdom(void *user, const char *text, size_t n_bytes)
{
    part_run *run = user;
    if (run->wisdom)
        fwrite(text, 1, n_bytes, run->wisdom);
    return run->wisdom ? fflush(run->wisdom) : 0;
}

static void say_piece(const part_run *run, const tune_piece *p)
{
    json_t *read = json_loads(p->text, 0, NULL);
    printf("{\"event\": \"piece\", \"piece\": \"%s\", \"number\": %d, \"pieces\": %d, \"done_ms\": %.0f, \"all_ms\": "
           "%.0f, \"family\": ",
           p->digest, (int)run->number, (int)run->n, run->done_ms, run->all_ms);
    cli_json_text(stdout, json_string_value(json_object_get(read, "family")));
    puts("}");
    fflush(stdout);
    json_decref(read);
}

static int tune_own(part_run *run, md_context *context, const tune_run *r, const cli_options *o)
{
    const md_tune_options t = {.exclude = o->exclude, .write = put_line};
    for (int32_t i = 0; i < r->n_pieces; i++)
        if (r->piece[i].part == o->part) {
            run->n++;
            run->all_ms += r->piece[i].ms;
        }
    for (int32_t i = 0; i < r->n_pieces; i++) {
        const tune_piece *p = &r->piece[i];
        if (p->part != o->part)
            continue;
        run->number++;
        say_piece(run, p);
        const md_status s = md_tune_piece(context, p->text, &t, put_wisdom, run);
        if (s == MD_TIMEOUT) /* another process has it */
            fprintf(stderr, "mdctl: %s\n", md_last_error());
        else if (s != MD_OK)
            return cli_fail_md();
        run->done_ms += p->ms;
    }
    return CLI_OK;
}

int tune_part(tune_run *r, md_context *context, const cli_options *o)
{
    part_run run = {0};
    part_head head = {.part = o->part, .n_parts = o->n_parts};
    if (!cut(r, o->n_parts))
        return cli_fail("out of memory");
    plan_digest(head.plan, r);
    if (!part_device(head.device, context))
        return cli_fail_md();
    if (o->wisdom && !(run.wisdom = fopen(o->wisdom, "w")))
        return cli_fail("cannot write %s", o->wisdom);
    if (run.wisdom)
        part_print_head(run.wisdom, &head);
    const int status = tune_own(&run, context, r, o);
    if (run.wisdom && status == CLI_OK)
        part_print_end(run.wisdom, &head);
    return cli_close_output(run.wisdom, o->wisdom, status);
}
