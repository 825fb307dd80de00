/* Facts of devices as text, and which facts fit a device. */
#include "device/facts.h"

#include "base/json.h"
#include "base/status.h"
#include "device/host/host.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef enum fact_type { TEXT, INT32, INT64, REAL } fact_type;

typedef struct fact {
    const char *name;
    fact_type type;
    size_t at, n; /* n: bytes of a text */
    bool counts; /* choices depend on the fact */
} fact;

#define FACT(type, field, counts)                                                                                      \
    {                                                                                                                  \
#field, type, offsetof(md_dev_facts, field), sizeof((md_dev_facts){0}.field), counts                           \
    }
static const fact facts[] = {
    FACT(INT32, kind, true),
    FACT(TEXT, name, false),
    FACT(TEXT, arch, true),
    FACT(TEXT, compiler, false),
    FACT(TEXT, flags, true),
    FACT(INT32, nvrtc, false),
    FACT(INT32, capability, true),
    FACT(INT32, threads, true),
    FACT(INT32, vector_bytes, true),
    FACT(INT64, l1_bytes, true),
    FACT(INT64, l2_bytes, true),
    FACT(INT64, l3_bytes, true),
    FACT(REAL, memory_gbps, true),
    FACT(REAL, lane_gbps, true),
    FACT(REAL, cache_gbps, true),
    FACT(REAL, gflops, true),
    FACT(REAL, launch_us, true),
    FACT(INT64, shared_per_block, true),
    FACT(INT64, shared_per_sm, true),
    FACT(INT32, registers_per_sm, true),
    FACT(INT32, threads_per_sm, true),
    FACT(INT32, blocks_per_sm, true),
};
_Static_assert(sizeof(md_dev_kind) == sizeof(int32_t), "a kind is written as a number");

static json_t *value_of(const fact *f, const md_dev_facts *from)
{
    const char *p = (const char *)from + f->at;
    int32_t i = 0;
    int64_t k = 0;
    double x = 0;
    switch (f->type) {
    case TEXT:
        return md_json_text(p);
    case INT32:
        memcpy(&i, p, sizeof i);
        return json_integer(i);
    case INT64:
        memcpy(&k, p, sizeof k);
        return json_integer(k);
    case REAL:
        memcpy(&x, p, sizeof x);
        return md_json_real(x);
    }
    return NULL;
}

void md_dev_facts_print(md_strbuf *out, const md_dev_facts *from)
{
    json_t *j = json_object();
    for (int32_t i = 0; j && i < MD_COUNT(facts); i++)
        json_object_set_new(j, facts[i].name, value_of(&facts[i], from));
    md_json_print(out, j);
}

static void take(md_dev_facts *out, const fact *f, const json_t *j)
{
    char *p = (char *)out + f->at;
    const int32_t i = (int32_t)json_integer_value(j);
    const int64_t k = json_integer_value(j);
    const double x = json_number_value(j);
    switch (f->type) {
    case TEXT:
        snprintf(p, f->n, "%s", json_is_string(j) ? json_string_value(j) : "");
        break;
    case INT32:
        memcpy(p, &i, sizeof i);
        break;
    case INT64:
        memcpy(p, &k, sizeof k);
        break;
    case REAL:
        memcpy(p, &x, sizeof x);
        break;
    }
}

md_status md_dev_facts_read(md_dev_facts *out, const char *text, size_t n)
{
    json_error_t error;
    json_t *j = json_loadb(text, n, 0, &error);
    if (!json_is_object(j) || !json_is_integer(json_object_get(j, "kind"))) {
        json_decref(j);
        return md_fail(MD_CORRUPT, "these are no facts of a device: %.100s", j ? "no object" : error.text);
    }
    *out = (md_dev_facts){0};
    for (int32_t i = 0; i < MD_COUNT(facts); i++)
        take(out, &facts[i], json_object_get(j, facts[i].name));
    json_decref(j);
    return MD_OK;
}

static bool are_equal(const md_dev_facts *a, const md_dev_facts *b)
{
    bool is = true;
    for (int32_t i = 0; i < MD_COUNT(facts); i++) {
        const fact *f = &facts[i];
        const char *x = (const char *)a + f->at, *y = (const char *)b + f->at;
        if (f->counts)
            is = is && (f->type == TEXT ? !strcmp(x, y) : !memcmp(x, y, f->n));
    }
    return is;
}

/* ---- Which facts fit */

/* Every word of `part` is a word of `all`. */
static bool are_words_of(const char *part, const char *all)
{
    for (const char *w = part; *w;) {
        const size_t n = strcspn(w, " ");
        bool is_there = n == 0;
        for (const char *at = all; *at && !is_there; at += *at == ' ') {
            is_there = strcspn(at, " ") == n && !strncmp(at, w, n);
            at += strcspn(at, " ");
        }
        if (!is_there)
            return false;
        w += n + (w[n] == ' ');
    }
    return true;
}

static double octaves(double a, double b)
{
    return a > 0 && b > 0 ? fabs(log2(a / b)) : 0;
}

static double apart(const md_dev_facts *a, const md_dev_facts *b)
{
    return octaves(a->threads, b->threads) + octaves(a->memory_gbps, b->memory_gbps) + octaves(a->gflops, b->gflops) +
           octaves((double)a->l2_bytes, (double)b->l2_bytes);
}

/* Code for "sm_90a" runs on 9.0 only; for "sm_80" on all 8.x; PTX on all from its version on. */
static double cuda_distance(const md_dev_facts *p, const md_dev_facts *here)
{
    enum { OTHER = 100, PTX = 1000 };
    const bool is_ptx = !strncmp(p->arch, "compute_", 8), is_exact = p->capability == here->capability;
    const bool has_own = strchr(p->arch, 'a') != NULL && !is_ptx;
    if (p->capability > here->capability || p->shared_per_block > here->shared_per_block ||
        p->registers_per_sm > here->registers_per_sm || (here->can_compile && strcmp(p->arch, here->arch) != 0))
        return -1;
    if (!is_ptx && (has_own ? !is_exact : p->capability / 10 != here->capability / 10))
        return -1;
    return apart(p, here) + (is_ptx ? PTX : is_exact ? 0 : OTHER);
}

double md_dev_facts_distance(const md_dev_facts *assumed, const md_dev *dev)
{
    enum { WIDEST = 64 };
    if (assumed->kind != dev->facts.kind)
        return -1;
    if (assumed->kind == MD_DEV_CUDA)
        return cuda_distance(assumed, &dev->facts);
    if (!are_words_of(assumed->flags, dev->facts.flags))
        return -1;
    /* the most instructions first */
    return 16.0 * (double)(strlen(dev->facts.flags) - strlen(assumed->flags)) + apart(assumed, &dev->facts);
}

md_status md_dev_assume(md_dev *dev, const md_dev_facts *assumed)
{
    md_dev_facts *f = &dev->facts;
    if (f->kind == MD_DEV_HOST) {
        const md_dev_host_rates rates = {.rate = {assumed->memory_gbps, assumed->lane_gbps, assumed->cache_gbps,
                                                  assumed->gflops, assumed->launch_us}};
        MD_TRY(md_dev_host_set_flags(dev, assumed->flags, assumed->vector_bytes));
        md_dev_host_set_rates(dev, &rates, false);
    }
    if (!f->can_compile) { /* what the kernels were compiled by: it is a part of what times depend on */
        memcpy(f->arch, assumed->arch, sizeof f->arch);
        memcpy(f->flags, assumed->flags, sizeof f->flags);
        memcpy(f->compiler, assumed->compiler, sizeof f->compiler);
        f->nvrtc = assumed->nvrtc;
        f->capability = assumed->capability;
    }
    dev->assumed = *assumed;
    dev->assumed.has_blas = f->has_blas;
    dev->assumed.can_compile = f->can_compile;
    dev->assumed.index = f->index;
    dev->assumed.board = f->board;
    dev->assumed.global_bytes = f->global_bytes;
    dev->is_assumed = !are_equal(f, &dev->assumed);
    return MD_OK;
}
