/* From measured times to factors, and a calibration as text. */
#include "tune/calibrate/calibrate.h"

#include "base/embed.h"
#include "base/plain.h"
#include "base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Factors are rounded to eighths of an octave, so that two runs on a machine mostly agree. */
static const double STEPS = 8;
/* What disturbed times say counts for this part. */
static const double ESTIMATE = 0.5;
/* No family of this library is off by more: something else was measured. */
static const double MOST = 3.0; /* a factor of 20 */

static bool is_possible(const md_tn_off *off)
{
    return off->n > 0 && off->n <= 1000 && fabs(off->mean) <= MOST && off->spread >= 0 && off->spread <= MOST;
}

void md_tn_calibration_check(md_tn_calibration *c)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->n; i++)
        if (is_possible(&c->off[i]))
            c->off[n++] = c->off[i];
    c->is_sure = c->is_sure && n == c->n;
    c->n = n;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What most families are off by, such as by rates that were measured under load: it changes no pick. */
static double middle_of(const md_tn_calibration *c)
{
    double mean[MD_DEV_MOST_FACTORS];
    for (int32_t i = 0; i < c->n; i++)
        mean[i] = c->off[i].mean;
    qsort(mean, (size_t)c->n, sizeof *mean, compare);
    return c->n ? (mean[(c->n - 1) / 2] + mean[c->n / 2]) / 2 : 0;
}

bool md_tn_calibration_factors(md_dev_factors *out, const md_tn_calibration *c)
{
    const double middle = middle_of(c);
    *out = (md_dev_factors){0};
    for (int32_t i = 0; i < c->n; i++) {
        const double off = (c->off[i].mean - middle) * (c->is_sure ? 1 : ESTIMATE);
        const double steps = round(off * M_LOG2E * STEPS);
        if (!is_possible(&c->off[i]) || c->off[i].n < 2 || steps == 0)
            continue;
        out->family[out->n] = c->off[i].family;
        out->factor[out->n++] = exp2(steps / STEPS);
    }
    return out->n > 0;
}

void md_tn_calibration_print(md_strbuf *out, const md_tn_calibration *c)
{
    md_strbuf_printf(out, "1 %016" PRIx64 " %" PRId64 " %d %d %d %.17g\n", md_source_identity, c->date,
                     (int)c->n_probes, (int)c->is_whole, (int)c->is_sure, c->ms);
    for (int32_t i = 0; i < c->n; i++)
        md_strbuf_printf(out, "%s %d %.17g %.17g\n", c->off[i].family->name, (int)c->off[i].n, c->off[i].mean,
                         c->off[i].spread);
}

static const md_fa_family *family_of(md_dev_kind kind, const char *name)
{
    for (const md_fa_family *const *f = md_fa_families(kind); *f; f++)
        if (!strcmp((*f)->name, name))
            return *f;
    return NULL;
}

/* A line of a family. False if it is damaged or impossible. */
static bool read_off(md_tn_calibration *out, md_dev_kind kind, const char *line)
{
    char name[64], mean[64], spread[64];
    char *end[2];
    int n = 0, used = 0;
    if (sscanf(line, "%63s %d %63s %63s%n", name, &n, mean, spread, &used) != 4 || line[used])
        return false;
    const md_tn_off off = {family_of(kind, name), n, md_strtod(mean, &end[0]), md_strtod(spread, &end[1])};
    if (*end[0] || *end[1] || !is_possible(&off) || out->n == MD_DEV_MOST_FACTORS)
        return false;
    if (off.family)
        out->off[out->n++] = off;
    return true;
}

static bool read_head(md_tn_calibration *out, const char *line)
{
    char ms[64], *end;
    uint64_t sources = 0;
    int whole = 0, sure = 0, used = 0;
    if (sscanf(line, "1 %" SCNx64 " %" SCNd64 " %d %d %d %63s%n", &sources, &out->date, &out->n_probes, &whole, &sure,
               ms, &used) != 6 ||
        line[used])
        return false;
    out->ms = md_strtod(ms, &end);
    out->is_whole = whole == 1;
    out->is_sure = sure == 1;
    return !*end && out->n_probes >= 0 && sources == md_source_identity;
}

bool md_tn_calibration_read(md_tn_calibration *out, md_dev_kind kind, const char *text, size_t n)
{
    *out = (md_tn_calibration){0};
    bool is_good = n > 0 && strlen(text) == n && text[n - 1] == '\n', is_head = true;
    for (const char *at = text; is_good && *at;) {
        char line[256];
        const size_t length = strcspn(at, "\n");
        is_good = length < sizeof line;
        if (!is_good)
            break;
        memcpy(line, at, length);
        line[length] = 0;
        is_good = is_head ? read_head(out, line) : read_off(out, kind, line);
        is_head = false;
        at += length + 1;
    }
    if (!is_good)
        *out = (md_tn_calibration){0};
    return is_good;
}
