/* Reads the cases of conformance.txt and compares results with them. */
#include "support/conformance.h"

#include "base/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    conformance_case *c;
    const char *path;
    int line;
    bool failed;
} reader;

static void complain(reader *r, const char *what)
{
    if (!r->failed)
        fprintf(stderr, "%s:%d: %s\n", r->path, r->line, what);
    r->failed = true;
}

static conformance_tensor *find(const conformance_case *c, const char *name)
{
    for (int i = 0; i < c->n_tensors; i++)
        if (strcmp(c->tensor[i].name, name) == 0)
            return (conformance_tensor *)&c->tensor[i];
    return NULL;
}

static char *word(char **rest)
{
    char *w = strsep(rest, " ");
    return w != NULL ? w : (char *)"";
}

static void read_shape(md_tensor *t, char *text)
{
    int64_t size[MD_MAX_RANK] = {0};
    int32_t rank = 0;
    while (text != NULL && strcmp(text, "-") != 0 && rank < MD_MAX_RANK)
        size[rank++] = strtoll(strsep(&text, ","), NULL, 10);
    *t = md_tensor_make(NULL, MD_F32, rank, size);
}

static void read_tensor(reader *r, char *rest, bool is_output)
{
    if (r->c->n_tensors == CONFORMANCE_MAX) {
        complain(r, "too many tensors");
        return;
    }
    conformance_tensor *t = &r->c->tensor[r->c->n_tensors++];
    (void)snprintf(t->name, sizeof(t->name), "%s", word(&rest));
    char *dtype = word(&rest);
    t->is_output = is_output;
    t->is_default_dtype = strcmp(dtype, "*") == 0;
    read_shape(&t->tensor, word(&rest));
    t->tensor.dtype = md_dtype_parse(dtype);
    t->n = 1;
    for (int32_t i = 0; i < t->tensor.rank; i++)
        t->n *= t->tensor.size[i];
    t->value = calloc((size_t)t->n + 1, sizeof(*t->value));
    t->whole = calloc((size_t)t->n + 1, sizeof(*t->whole));
    t->tensor.data = aligned_alloc(64, ((size_t)t->n * 8 + 127) / 64 * 64);
    for (int64_t i = 0; i < t->n; i++) {
        char *w = word(&rest), *end;
        t->value[i] = strtod(w, &end);
        t->whole[i] = strtoll(w, NULL, 10);
        if (*w == 0 || *end != 0)
            complain(r, "a value is missing or no number");
    }
    if (rest != NULL)
        complain(r, "too many values");
}

static void read_start(reader *r, char *rest)
{
    conformance_tensor *t = find(r->c, word(&rest));
    if (t == NULL) {
        complain(r, "init of no tensor");
        return;
    }
    t->start = calloc((size_t)t->n + 1, sizeof(*t->start));
    for (int64_t i = 0; i < t->n; i++)
        t->start[i] = strtod(word(&rest), NULL);
}

static void read_scalar(reader *r, char *rest)
{
    if (r->c->n_scalars == CONFORMANCE_MAX) {
        complain(r, "too many scalars");
        return;
    }
    (void)snprintf(r->c->scalar[r->c->n_scalars].name, sizeof(r->c->scalar[0].name), "%s", word(&rest));
    r->c->scalar[r->c->n_scalars++].value = strtod(word(&rest), NULL);
}

static void read_types(reader *r, char *rest)
{
    r->c->has_types = true;
    while (rest != NULL)
        r->c->runs_as[md_dtype_parse(word(&rest))] = true;
}

static void read_fault(reader *r, char *rest)
{
    (void)snprintf(r->c->fault_tensor, sizeof(r->c->fault_tensor), "%s", word(&rest));
    r->c->fault_axis = (int)strtol(word(&rest), NULL, 10);
    r->c->fault_value = strtoll(word(&rest), NULL, 10);
    r->c->has_fault = true;
}

static void read_line(reader *r, const char *key, char *rest)
{
    conformance_case *c = r->c;
    if (strcmp(key, "case") == 0)
        (void)snprintf(c->name, sizeof(c->name), "%s", rest);
    else if (strcmp(key, "formula") == 0)
        (void)snprintf(c->formula, sizeof(c->formula), "%s", rest);
    else if (strcmp(key, "sizes") == 0)
        (void)snprintf(c->sizes, sizeof(c->sizes), "%s", rest);
    else if (strcmp(key, "fails") == 0)
        (void)snprintf(c->fails, sizeof(c->fails), "%s", rest);
    else if (strcmp(key, "bounds") == 0)
        c->bounds = rest[0] == 'c' ? MD_BOUNDS_CLAMP : rest[0] == 'z' ? MD_BOUNDS_ZERO : MD_BOUNDS_REPORT;
    else if (strcmp(key, "types") == 0)
        read_types(r, rest);
    else if (strcmp(key, "scalar") == 0)
        read_scalar(r, rest);
    else if (strcmp(key, "in") == 0 || strcmp(key, "out") == 0)
        read_tensor(r, rest, key[0] == 'o');
    else if (strcmp(key, "init") == 0)
        read_start(r, rest);
    else if (strcmp(key, "fault") == 0)
        read_fault(r, rest);
    else
        complain(r, "unknown keyword");
}

static void forget(conformance_case *c)
{
    for (int i = 0; i < c->n_tensors; i++) {
        free(c->tensor[i].value);
        free(c->tensor[i].whole);
        free(c->tensor[i].start);
        free(c->tensor[i].tensor.data);
    }
    memset(c, 0, sizeof(*c));
}

int conformance_run(conformance_case *c, void (*fn)(void *user, const conformance_case *c), void *user)
{
    static const md_dtype all[] = {MD_F32, MD_F64, MD_F16, MD_BF16};
    int n = 0;
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        if (c->has_types && !c->runs_as[all[k]])
            continue;
        c->dtype = all[k];
        for (int i = 0; i < c->n_tensors; i++)
            if (c->tensor[i].is_default_dtype)
                c->tensor[i].tensor.dtype = all[k];
        conformance_reset(c);
        fn(user, c);
        n++;
    }
    return n;
}

/* The next place of the list, emptied; NULL without memory. */
static conformance_case *add_case(conformance_list *list)
{
    if (list->n == list->capacity) {
        int capacity = list->capacity * 2 + 64;
        conformance_case *at = realloc(list->at, (size_t)capacity * sizeof(*at));
        if (at == NULL)
            return NULL;
        list->at = at;
        list->capacity = capacity;
    }
    memset(&list->at[list->n], 0, sizeof(*list->at));
    return &list->at[list->n];
}

static void read_cases(reader *r, conformance_list *list, FILE *file)
{
    char *line = NULL;
    size_t capacity = 0;
    while (!r->failed && getline(&line, &capacity, file) > 0) {
        r->line++;
        line[strcspn(line, "\n")] = 0;
        char *rest = line, *key = word(&rest);
        if (*key == 0 || *key == '#')
            continue;
        if (strcmp(key, "end") == 0) {
            list->n++;
            r->c = add_case(list);
            if (r->c == NULL)
                complain(r, "no memory");
        } else {
            read_line(r, key, rest);
        }
    }
    free(line);
}

bool conformance_load(conformance_list *out, const char *path)
{
    *out = (conformance_list){0};
    reader r = {.c = add_case(out), .path = path};
    FILE *file = fopen(path, "r");
    if (file == NULL || r.c == NULL)
        complain(&r, "cannot open");
    else
        read_cases(&r, out, file);
    if (r.c != NULL)
        forget(r.c); /* what stands behind the last "end" */
    if (file != NULL)
        fclose(file);
    if (r.failed)
        conformance_finish(out);
    return !r.failed;
}

void conformance_finish(conformance_list *list)
{
    for (int i = 0; i < list->n; i++)
        forget(&list->at[i]);
    free(list->at);
    *list = (conformance_list){0};
}

int conformance_each(const char *path, void (*fn)(void *user, const conformance_case *c), void *user)
{
    conformance_list list;
    int n = 0;
    if (!conformance_load(&list, path))
        return -1;
    for (int i = 0; i < list.n; i++)
        n += conformance_run(&list.at[i], fn, user);
    conformance_finish(&list);
    return n;
}

bool conformance_arg(md_arg *out, const conformance_case *c, const char *name, bool is_int_scalar)
{
    const conformance_tensor *t = find(c, name);
    if (t != NULL) {
        *out = md_t(&t->tensor);
        return true;
    }
    for (int i = 0; i < c->n_scalars; i++)
        if (strcmp(c->scalar[i].name, name) == 0) {
            *out = is_int_scalar ? md_i((int64_t)c->scalar[i].value) : md_s(c->scalar[i].value);
            return true;
        }
    return false;
}

void conformance_reset(const conformance_case *c)
{
    for (int i = 0; i < c->n_tensors; i++) {
        const conformance_tensor *t = &c->tensor[i];
        const double *from = t->is_output ? t->start : t->value;
        memset(t->tensor.data, 0xA5, (size_t)t->n * 8 + 64);
        for (int64_t k = 0; k < t->n && from != NULL; k++) {
            if (t->is_output || md_dtype_is_real(t->tensor.dtype))
                md_dtype_store(t->tensor.dtype, t->tensor.data, k, from[k]);
            else
                md_dtype_store_int(t->tensor.dtype, t->tensor.data, k, t->whole[k]);
        }
    }
}

static bool is_close(const conformance_tensor *t, int64_t k, double factor, char *text, size_t n_text)
{
    md_dtype dtype = t->tensor.dtype;
    if (!md_dtype_is_real(dtype)) {
        int64_t got = md_dtype_load_int(dtype, t->tensor.data, k);
        if (got == t->whole[k])
            return true;
        (void)snprintf(text, n_text, "%s[%lld] is %lld, expected %lld", t->name, (long long)k, (long long)got,
                       (long long)t->whole[k]);
        return false;
    }
    double got = md_dtype_load(dtype, t->tensor.data, k), want = md_dtype_round(dtype, t->value[k]);
    double allowed = factor * md_dtype_roundoff(dtype) * fmax(fabs(want), 0x1p-10);
    if (got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= allowed)
        return true;
    (void)snprintf(text, n_text, "%s[%lld] is %.17g, expected %.17g +- %.3g", t->name, (long long)k, got, want,
                   allowed);
    return false;
}

bool conformance_check(const conformance_case *c, double factor, char *text, size_t n_text)
{
    for (int i = 0; i < c->n_tensors; i++)
        for (int64_t k = 0; c->tensor[i].is_output && k < c->tensor[i].n; k++)
            if (!is_close(&c->tensor[i], k, factor, text, n_text))
                return false;
    return true;
}
