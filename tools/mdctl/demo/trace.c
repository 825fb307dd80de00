/* Generates a trace of batch sizes, or reads one. */
#include "demo/trace.h"
#include "common/cli.h"

#include <stdlib.h>
#include <string.h>

/* How requests become batches, in one place: every step of 50 ms, each running request decodes one token, and
 * waiting prompts are read in order of arrival, up to CHUNK tokens a step, as far as the step's limit
 * allows. A request starts to decode in the step after its prompt is read and leaves when it has made its tokens. The
 * context is the mean length so far of the requests in the step. Steps without work are skipped. */
enum { CHUNK = 192, MAX_RUNNING = 96, MAX_REQUESTS = 4096 };
static const double step_s = 0.05;

typedef struct request {
    double arrival_s;
    int64_t prompt, output, read, made;
} request;

typedef struct server {
    const request *list;
    const trace_limits *most;
    int n, next; /* next: first request that has not started */
    int n_running;
    request running[MAX_RUNNING];
} server;

static int64_t within(int64_t v, int64_t most)
{
    return v < 1 ? 1 : v > most ? most : v;
}

static void add_step(trace *t, const trace_limits *most, int64_t tokens, int64_t context)
{
    t->tokens[t->n] = within(tokens, most->tokens);
    t->context[t->n++] = within(context, most->context);
}

static void admit(server *s, double now_s)
{
    while (s->next < s->n && s->n_running < MAX_RUNNING && s->list[s->next].arrival_s <= now_s)
        s->running[s->n_running++] = s->list[s->next++];
}

/* Tokens that one request takes part with in this step. */
static int64_t advance(request *r, int64_t *chunk, int64_t room)
{
    if (r->read == r->prompt) {
        r->made++;
        return 1;
    }
    int64_t n = r->prompt - r->read;
    n = n > *chunk ? *chunk : n;
    n = n > room ? room : n;
    r->read += n;
    *chunk -= n;
    return n;
}

static void run_step(server *s, trace *t)
{
    int64_t tokens = 0, length = 0, chunk = CHUNK, n_in = 0;
    int kept = 0;
    for (int i = 0; i < s->n_running; i++) {
        request *r = &s->running[i];
        int64_t n = tokens < s->most->tokens ? advance(r, &chunk, s->most->tokens - tokens) : 0;
        tokens += n;
        length += n ? r->read + r->made : 0;
        n_in += n > 0;
        if (r->made < r->output)
            s->running[kept++] = *r;
    }
    s->n_running = kept;
    if (tokens)
        add_step(t, s->most, tokens, length / n_in);
}

static void simulate(trace *t, const request *list, int n, const trace_limits *most)
{
    server *s = calloc(1, sizeof *s);
    if (!s)
        return;
    s->list = list;
    s->most = most;
    s->n = n;
    for (double now = 0.0; t->n < most->steps && (s->next < n || s->n_running); now += step_s) {
        if (s->n_running == 0 && s->next < n && list[s->next].arrival_s > now)
            now = list[s->next].arrival_s;
        admit(s, now);
        run_step(s, t);
    }
    free(s);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    return *state >> 33;
}

void trace_generate(trace *out, uint64_t seed, const trace_limits *most)
{
    static request list[MAX_REQUESTS];
    double now = 0.0;
    uint64_t random = seed;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < MAX_REQUESTS; i++) {
        double busy = (i / 40) % 3 == 1 ? 0.03 : 0.4; /* rushes and lulls */
        now += busy * (double)(1 + next_random(&random) % 1000) / 500.0;
        list[i] =
            (request){now, (int64_t)(8 + next_random(&random) % 900), (int64_t)(4 + next_random(&random) % 120), 0, 0};
    }
    simulate(out, list, MAX_REQUESTS, most);
    snprintf(out->origin, sizeof out->origin,
             "generated (seed %llu): made-up arrivals; one token a decode step, prompts in chunks of %d",
             (unsigned long long)seed, CHUNK);
}

/* "2023-11-16 18:17:03.9799600,4808,10": seconds of the day, prompt, output. */
static bool parse_azure(request *out, const char *line)
{
    int h = 0, m = 0;
    double s = 0.0;
    long long prompt = 0, output = 0;
    if (sscanf(line, "%*d-%*d-%*d %d:%d:%lf,%lld,%lld", &h, &m, &s, &prompt, &output) != 5 || prompt < 1 || output < 1)
        return false;
    if (h < 0 || h > 24 || m < 0 || m > 60 || !(s >= 0.0 && s <= 61.0)) /* "nan" seconds would never come */
        return false;
    *out = (request){h * 3600.0 + m * 60.0 + s, prompt, output, 0, 0};
    return true;
}

static bool read_azure(trace *out, FILE *f, const char *path, const trace_limits *most)
{
    char line[256];
    int n = 0;
    request *list = calloc(MAX_REQUESTS, sizeof *list);
    for (int number = 2; list && n < MAX_REQUESTS && fgets(line, sizeof line, f); number++) {
        if (parse_azure(&list[n], line)) {
            list[n].arrival_s -= n ? list[0].arrival_s : 0.0;
            n++;
        } else if (line[strspn(line, " \r\n")]) {
            cli_fail("%s:%d: expected TIMESTAMP,ContextTokens,GeneratedTokens", path, number);
            free(list);
            return false;
        }
    }
    if (n)
        list[0].arrival_s = 0.0;
    if (list)
        simulate(out, list, n, most);
    free(list);
    return true;
}

/* Brings the sizes of a histogram, which are in order, into one that is not (Fisher and Yates). */
static void shuffle(trace *t, uint64_t seed)
{
    for (int i = t->n - 1; i > 0; i--) {
        const int k = (int)(next_random(&seed) % (uint64_t)(i + 1));
        const int64_t swap = t->tokens[i];
        t->tokens[i] = t->tokens[k];
        t->tokens[k] = swap;
    }
}

/* A size, or a size and how often it occurs. */
static bool read_size(trace *out, const char *line, const trace_limits *most, bool *has_counts)
{
    char *end = NULL, *behind = NULL;
    const long long v = strtoll(line, &end, 10);
    if (end == line || v < 1 || v > most->tokens)
        return false;
    long long count = strtoll(end, &behind, 10);
    *has_counts |= behind != end;
    count = behind == end ? 1 : count;
    if (behind[strspn(behind, " \t\r\n")] || count < 1)
        return false;
    for (; count > 0 && out->n < most->steps; count--)
        add_step(out, most, v, 64 + 8 * out->n);
    return true;
}

typedef struct source {
    FILE *f;
    const char *path;
    char line[256];
} source;

static bool read_sizes(trace *out, source *from, uint64_t seed, const trace_limits *most)
{
    bool has_counts = false;
    for (int number = 1; out->n < most->steps; number++) {
        const char *line = from->line;
        if (line[strspn(line, " \t\r\n")] && line[0] != '#' && !read_size(out, line, most, &has_counts)) {
            cli_fail("%s:%d: expected one batch size in 1..%lld a line", from->path, number, (long long)most->tokens);
            return false;
        }
        if (!fgets(from->line, sizeof from->line, from->f))
            break;
    }
    if (has_counts)
        shuffle(out, seed);
    snprintf(out->origin, sizeof out->origin, "%.100s: %s; the context grows by 8 a step from 64", from->path,
             has_counts ? "how often each batch size occurs, in random order" : "one batch size a line");
    return true;
}

bool trace_read(trace *out, const char *path, uint64_t seed, const trace_limits *most)
{
    source from = {.path = path, .f = fopen(path, "r")};
    memset(out, 0, sizeof *out);
    if (!from.f || !fgets(from.line, sizeof from.line, from.f)) {
        cli_fail("cannot read the trace '%s'", path);
        if (from.f)
            fclose(from.f);
        return false;
    }
    const bool is_azure = strstr(from.line, "ContextTokens") != NULL;
    const bool ok = is_azure ? read_azure(out, from.f, path, most) : read_sizes(out, &from, seed, most);
    fclose(from.f);
    if (is_azure)
        snprintf(out->origin, sizeof out->origin,
                 "%.100s: its arrivals in steps of 50 ms; one token a decode step, prompts in chunks of %d", path,
                 CHUNK);
    if (ok && out->n == 0) {
        cli_fail("the trace '%s' has no step with work", path);
        return false;
    }
    return ok;
}

static int by_tokens(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

int trace_sample(int64_t (*out)[2], int n, const trace *t)
{
    int64_t(*step)[2] = calloc((size_t)t->n, sizeof *step);
    if (!step)
        return 0;
    for (int i = 0; i < t->n; i++) {
        step[i][0] = t->tokens[i];
        step[i][1] = t->context[i];
    }
    qsort(step, (size_t)t->n, sizeof *step, by_tokens);
    n = n < t->n ? n : t->n;
    for (int i = 0; i < n; i++)
        memcpy(out[i], step[(size_t)((2 * i + 1) * t->n / (2 * n))], sizeof out[i]);
    free(step);
    return n;
}
